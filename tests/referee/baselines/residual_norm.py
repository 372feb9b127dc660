"""Two outputs: the normalised sum, and the sum."""

import torch


def get_inputs():
    return [torch.randn(48, 256), torch.randn(48, 256), torch.randn(256)]


def get_reference_output(x, residual, weight):
    total = x + residual
    return total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6) * weight, total
