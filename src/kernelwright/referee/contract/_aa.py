"""The A/A gate: whether this machine, now, can tell the baseline from itself.

The baseline runs twice in every round, so that the same rounds answer two questions: how the candidate stands
to the baseline, and how the baseline stands to itself. Where the second answer is not "the same", the first
one is not given either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelwright.referee._statistics import aa_gate
from kernelwright.referee._statistics import Estimate
from kernelwright.referee._statistics import estimate
from kernelwright.referee._statistics import MIN_PAIRS
from kernelwright.referee.contract._rounds import Series

#: A difference of the baseline from itself, or the width of what is known of it, may be this part of what is
#: found of the candidate: a kernel twice as fast can be told on a machine where one 3% faster cannot.
_SHARE = 0.125
#: With so many times the minimum effect, or less, the baseline has to be known to equal itself: blocks of
#: calls from Python scatter more than a native batch, and a wide interval says `ambiguous` by itself.
_WIDEST = 25.0
#: What is beyond the noise by this factor needs no quiet machine.
_CLEAR = 2.0


@dataclass(frozen=True)
class SelfCheck:
    """The baseline against itself: ratio and interval, and why nothing may be compared, or None."""

    found: Estimate | None
    problem: str | None
    rounds: int

    def as_dict(self) -> Mapping[str, Any]:
        """For the conditions of a contest."""
        if self.found is None:
            return {"ratio": None, "interval": None, "rounds": self.rounds}
        low, high = self.found.interval
        finite = math.isfinite(high)
        return {
            "ratio": round(self.found.ratio, 5),
            "interval": [round(low, 5), round(high, 5)] if finite else None,
            "rounds": self.rounds,
        }


def against_itself(series: Series, contest: Estimate, *, minimum_effect: float, seed: int) -> SelfCheck:
    """Whether the rounds of `series` may be compared; `contest` is what they say of the candidate.

    Refused, with numbers, where the baseline differs from itself clearly and by at least the minimum effect,
    or where so little is known of it that hardly any effect could be seen; see `_statistics.aa_gate`. Both
    bounds grow with what was found of the candidate, and a contest whose whole interval is beyond that of the
    baseline against itself, twice over, is never refused. With fewer than five double rounds nothing is
    refused: then the contest's own interval is infinite or nearly so.
    """
    first, again = series.itself()
    if len(first) < MIN_PAIRS:
        return SelfCheck(None, None, len(first))
    # What is asked is how rounds scatter, so that the round is the unit: of both blocks, the process is one.
    found = estimate(first, again, seed=seed)
    size = abs(math.log(contest.ratio))
    allowed = max(minimum_effect, math.expm1(_SHARE * size))
    widest = max(_WIDEST * minimum_effect, 2 * _SHARE * size)
    low, high = found.interval
    if contest.interval[0] > _CLEAR * high or contest.interval[1] < low / _CLEAR:
        return SelfCheck(found, None, len(first))
    problem = aa_gate(first, again, minimum_effect=allowed, seed=seed, widest=widest)
    return SelfCheck(found, problem, len(first))
