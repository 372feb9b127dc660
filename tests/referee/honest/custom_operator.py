"""Registers an operator with torch.library and calls it through torch.ops.

baseline: rms_norm
"""

import torch

_library = torch.library.Library("my_kernels_of_a_test", "DEF")
_library.define("rms_norm(Tensor x, Tensor weight) -> Tensor")


def _rms_norm(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


_library.impl("rms_norm", _rms_norm, "CPU")


def kernel(x, weight):
    return torch.ops.my_kernels_of_a_test.rms_norm(x, weight)
