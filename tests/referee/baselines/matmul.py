"""A product of two matrices, fp32."""

import torch


def get_inputs():
    return [torch.randn(64, 256), torch.randn(256, 128)]


def get_reference_output(a, b):
    return a @ b
