"""Multiplies matrices in half precision where fp32 is declared.

catalogue: precision
baseline: matmul
verdict: wrong
says: fp16|float16|bf16|precision|exceeds
"""

import torch


def kernel(a, b):
    return (a.to(torch.bfloat16) @ b.to(torch.bfloat16)).float()
