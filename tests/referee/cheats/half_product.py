"""Multiplies matrices in half precision where fp32 is declared.

catalogue: precision
baseline: matmul
verdict: wrong
says: every element is a bf16 number: computed in lower precision than declared
"""

import torch


def kernel(a, b):
    return (a.to(torch.bfloat16) @ b.to(torch.bfloat16)).float()
