"""Compile several configurations at once, ahead of the one lane that measures."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from kernelwright.search import Lanes
from kernelwright.search import MultiProcessWorker
from kernelwright.search import Worker

#: Compilers at a time, at most: each slot is a process with a referee of its own.
_MOST = 4


def ahead_of(target: Any) -> int:
    """How many configurations of a target to compile at once on this machine."""
    stated = getattr(target, "ahead", None)
    return int(stated) if stated else max(2, min(_MOST, len(os.sched_getaffinity(0))))


def precompiling_worker(target: Any) -> Callable[..., Worker]:
    """What `Search(worker_type=…)` takes for a target: `num_workers` build at once, one measures.

    On processors builds run only while nothing is measured: `num_workers` configurations are compiled
    together, then measured one after the other. On GPUs builds run beside measurements. Which devices there
    are says the target's method `lanes`, where it has one; else they are all processors, as one lane.

    The processes stay warm, because what they measure runs in the children of a referee, or is theirs alone.
    """
    lanes = target.lanes() if hasattr(target, "lanes") else Lanes.cores([sorted(os.sched_getaffinity(0))])
    return functools.partial(MultiProcessWorker, lanes=lanes, tolerate_leftovers=True)
