"""Compile several configurations at once, ahead of the one lane that measures."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from kernelwright.search import Lanes
from kernelwright.search import MultiProcessWorker
from kernelwright.search import Worker

#: Compilers at a time, at most: each slot is a process, on processors with a referee of its own.
_MOST = 4
_CPU_TOOLS = ("gcc", "clang")


def ahead_of(target: Any) -> int:
    """How many configurations of a target to compile at once on this machine."""
    stated = getattr(target, "ahead", None)
    return int(stated) if stated else max(2, min(_MOST, len(os.sched_getaffinity(0))))


def precompiling_worker(target: Any) -> Callable[..., Worker]:
    """What `Search(worker_type=…)` takes for a target: `num_workers` build at once, one measures.

    On processors builds run only while nothing is measured: `num_workers` configurations are compiled
    together, then measured one after the other, on all processors that we may use. On a GPU, the first that
    is visible, builds run beside measurements. A target that wants other devices has a method `lanes`.

    The processes stay warm. On processors what they measure runs in the children of a referee, which are
    theirs to keep; on a GPU nothing may be left behind by a measurement.
    """
    on_processors = target.provider.tool in _CPU_TOOLS
    if hasattr(target, "lanes"):
        lanes = target.lanes()
    elif on_processors:
        lanes = Lanes.cores([sorted(os.sched_getaffinity(0))])
    else:
        lanes = Lanes.gpus([os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]])
    return functools.partial(
        MultiProcessWorker,
        lanes=lanes,
        tolerate_leftovers=on_processors,
        preload=() if on_processors else ["torch"],  # once, not in every process
    )
