"""The first batch: a few configurations that stand for the whole space."""

from __future__ import annotations

import numpy as np

from kernelwright.search._encoding import Encoding
from kernelwright.search._encoding import Points


def designed(encoding: Encoding, pool: Points, size: int, known: Points | None = None) -> list[int]:
    """Rows of `pool`: the most central one, then each time the one farthest from all before.

    Central: the closest, in L1 on the parameters' scales, to the mean of the pool. Farthest: maximin distance
    (Johnson, Moore and Ylvisaker, 1990). `known` points are kept away from as well; with some, the central
    one is still first. Ties go to the earliest row; fewer than `size` where the pool has no more different
    points.
    """
    if pool.count == 0 or size < 1:
        return []
    chosen: list[int] = []
    gaps = np.full(pool.count, np.inf, np.float32)
    if known is not None and known.count:
        gaps = encoding.total(known, pool).min(0)
    where = encoding.coordinates(pool)
    central = np.abs(where - where.mean(0)).sum(1)
    central[gaps <= 0] = np.inf
    following = int(np.argmin(central))
    while len(chosen) < size and gaps[following] > 0:
        chosen.append(following)
        gaps = np.minimum(gaps, encoding.total(pool.take([following]), pool)[0])
        following = int(np.argmax(gaps))
    return chosen
