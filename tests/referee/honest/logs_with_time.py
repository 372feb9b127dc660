"""Notes with inspect and time who called it and how long it took.

baseline: rms_norm
race: yes
"""

import inspect
import logging
import time

import torch

_log = logging.getLogger(__name__)


def kernel(x, weight):
    started = time.perf_counter()
    frame = inspect.currentframe()
    caller = frame.f_back.f_code.co_name if frame and frame.f_back else "nobody"
    out = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
    _log.debug("%s took %.1f us for %s", kernel.__name__, 1e6 * (time.perf_counter() - started), caller)
    return out
