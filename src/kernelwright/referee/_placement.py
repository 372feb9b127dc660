"""Where a batch begins: a processor, and memory for its caller; drawn, so that no place decides a race.

The processor is the same for all contestants of a round: two may differ in what else they do, or in whom they
share a core with. The caller is a new thread in each batch, and what is allocated ahead of its OpenMP team
decides where the team lies, and with it how long its threads take to hear of each other (`native/caller.h`).
"""

from __future__ import annotations

import os
import random

_LINE, _LINES = 64, 1 << 11


def draw_processor(draw: random.Random) -> int:
    """One of the processors that this process, and so its children, may use."""
    return draw.choice(sorted(os.sched_getaffinity(0)))


def draw_padding(draw: random.Random) -> int:
    """Bytes to allocate ahead of what a caller allocates for itself."""
    return _LINE * draw.randrange(1, _LINES)
