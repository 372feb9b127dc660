"""Times two ways in its first call of a shape, and keeps the faster one.

baseline: rms_norm
"""

import time

import torch


def _first(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def _second(x, weight):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps=1e-6)


_chosen = {}


def _timed(way, x, weight):
    started = time.perf_counter_ns()
    for _ in range(5):
        way(x, weight)
    return time.perf_counter_ns() - started


def kernel(x, weight):
    way = _chosen.get(x.shape)
    if way is None:
        way = _chosen[x.shape] = min((_first, _second), key=lambda one: _timed(one, x, weight))
    return way(x, weight)
