"""The operators as model code commonly writes them, several torch calls each.

kernelwright bench rms_norm silu_and_mul --against eager,benchmarks/peers/as_in_models.py
"""

from __future__ import annotations

import torch
from torch import Tensor

name = "as in models"


def rms_norm(x: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    """Mean square in fp32, scaled in the dtype of x, as the Llama family does."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * wide.to(x.dtype)


def softmax(x: Tensor) -> Tensor:
    """In fp32, then back, as attention code does."""
    return torch.softmax(x, dim=-1, dtype=torch.float32).to(x.dtype)


def silu_and_mul(x: Tensor) -> Tensor:
    """Two halves, an activation, a product."""
    gate, value = x.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * value


operators = {"rms_norm": rms_norm, "softmax": softmax, "silu_and_mul": silu_and_mul}
