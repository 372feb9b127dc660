"""Falls back to another way when an optional package is missing, or an operator refuses.

baseline: rms_norm
"""

import torch

try:
    import a_package_that_nobody_has as _fast
except ImportError:
    _fast = None


def kernel(x, weight):
    if _fast is not None:
        return _fast.rms_norm(x, weight)
    try:
        return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps=1e-6)
    except RuntimeError:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
