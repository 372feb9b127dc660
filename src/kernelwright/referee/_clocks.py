"""Two clocks: the child's, on which a kernel could lay its hands, and ours, which every delay lengthens.

A batch takes longer on our clock: two messages lie within it. How much longer is seen from the baseline,
whose child does the same; what goes beyond that is in the entrant's favour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kernelwright.referee._verdict import Status
from kernelwright.referee._verdict import Verdict

if TYPE_CHECKING:
    from kernelwright.referee._course import Course

#: How far the clocks may be apart, beyond what messages take: this part of a batch, and this much.
_CLOCK_SHARE = 0.03
_CLOCK_SLACK_S = 0.0003
#: They are looked into when they disagree in the entrant's favour in more than this share of batches.
_APART_SHARE = 0.2
_FEWEST = 2
#: Batches of each alone, and how many of an entrant's must be apart when none, or one, of the baseline's is.
SOLO_BATCHES = 40
_APART_WHEN_NONE = 9
_APART_WHEN_ONE = 12
_NEARLY_ALL = 0.8

#: Seconds of one batch, on our clock and on the child's.
Seen = tuple[float, float]


def overhead(rounds: Sequence[Seen]) -> float:
    """Seconds that messages add to a batch, the median of what was seen."""
    return float(np.median([wall - busy for wall, busy in rounds])) if rounds else 0.0


def disagree(wall_s: float, busy_s: float, overhead_s: float = 0.0) -> bool:
    """Whether the child claims another time than passed here."""
    return abs(wall_s - overhead_s - busy_s) > _CLOCK_SHARE * wall_s + _CLOCK_SLACK_S


def favours(wall_s: float, busy_s: float, overhead_s: float = 0.0) -> bool:
    """Whether it claims clearly less."""
    return disagree(wall_s, busy_s, overhead_s) and busy_s < wall_s - overhead_s


def suspicious(baseline: Sequence[Seen], entrant: Sequence[Seen]) -> bool:
    """Whether an entrant's clock told too little in a share of the batches of a race, or nonsense in any."""
    usual = overhead(baseline)
    apart = sum(favours(*one, usual) for one in entrant)
    beyond = sum(disagree(*one, usual) and not favours(*one, usual) for one in entrant)
    return beyond >= _FEWEST or apart >= max(_FEWEST, _APART_SHARE * len(entrant))


def clock_verdicts(course: Course) -> dict[str, Verdict]:
    """Verdicts where the child's clock and ours told different times.

    A machine that is busy with other work delays messages, and then our clock runs on. So each contestant is
    timed alone, in turn with the baseline, so that what comes and goes meets both, before anything is said.
    """
    seen = [[(one.wall_s, one.busy_s) for one in lane.batches] for lane in course.lanes]
    suspects = [index for index in range(1, len(seen)) if seen[index] and suspicious(seen[0], seen[index])]
    verdicts = {}
    for index in suspects:
        alone: dict[int, list[Seen]] = {0: [], index: []}
        for _ in range(SOLO_BATCHES):
            for which, rounds in alone.items():
                batch = course.solo(which)
                rounds.append((batch.wall_s, batch.busy_s))
        found = judge_clocks(alone[0], alone[index])
        if found is not None:
            verdicts[course.contestants[index].name] = found
    return verdicts


def judge_clocks(baseline: Sequence[Seen], entrant: Sequence[Seen]) -> Verdict | None:
    """What batches of the baseline alone and of an entrant alone, taken in turn, say of the entrant.

    `cheated` takes differences that are all in the entrant's favour (the child claims less time than passed)
    and so much more often than in the baseline's batches that delays do not explain it; they need not be in
    every batch. Where nearly all batches of either disagree otherwise, times are `noisy`. None: no objection.
    """
    usual = overhead(baseline)
    apart = [one for one in entrant if disagree(*one, usual)]
    ours = sum(disagree(*one, usual) for one in baseline)
    needed = {0: _APART_WHEN_NONE, 1: _APART_WHEN_ONE}.get(ours)
    if needed is not None and len(apart) >= needed and all(favours(*one, usual) for one in apart):
        return Verdict(
            Status.CHEATED,
            f"the child's clock saw {_share(apart):.0%} of the time that passed in {len(apart)} of "
            f"{len(entrant)} batches of this kernel alone, {_share(baseline):.0%} in those of the baseline",
        )
    said = "the child's clock saw {:.0%} of the time that passed"
    if ours > _NEARLY_ALL * len(baseline):
        return Verdict(
            Status.NOISY,
            f"{said.format(_share(baseline))} even for the baseline alone: "
            "the machine is too busy to time on; try again",
        )
    if len(apart) > _NEARLY_ALL * len(entrant):
        return Verdict(
            Status.NOISY, f"{said.format(_share(entrant))} here, which other work may explain; try again"
        )
    return None


def _share(rounds: Sequence[Seen]) -> float:
    return float(np.median([busy / wall for wall, busy in rounds]))
