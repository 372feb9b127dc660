"""Two clocks: the child's, on which a kernel could lay its hands, and ours, which every delay lengthens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kernelwright.referee._verdict import Status
from kernelwright.referee._verdict import Verdict

if TYPE_CHECKING:
    from kernelwright.referee._course import Course

#: How far the clocks may be apart: this part of a round, and this much for waking up.
_CLOCK_SHARE = 0.05
_CLOCK_SLACK_S = 0.002
#: They are looked into when they disagree in more than this share of rounds, with so many rounds each.
_APART_ROUNDS = 0.8
_SOLO_ROUNDS = 8

#: Seconds of one round, on our clock and on the child's.
Seen = tuple[float, float]


def disagree(wall_s: float, busy_s: float) -> bool:
    """Whether the child claims another time than passed here."""
    return abs(wall_s - busy_s) > _CLOCK_SHARE * wall_s + _CLOCK_SLACK_S


def clock_verdicts(course: Course) -> dict[str, Verdict]:
    """Verdicts where the child's clock and ours told different times, not now and then but nearly always.

    A machine that is busy with other work delays messages, and then our clock runs on. So each contestant is
    timed alone, in turn with the others, so that what comes and goes meets all of them, before anything is
    said of it.
    """
    if not _mostly_apart(course.track.agreement):
        return {}
    alone: list[list[Seen]] = [[] for _ in course.contestants]
    for _ in range(_SOLO_ROUNDS):
        for index, seen in enumerate(alone):
            course.round([index], traps=0)
            course.track.rows.pop()
            seen.append(course.track.agreement.pop())
    verdicts = {}
    for entrant, seen in zip(course.contestants[1:], alone[1:], strict=True):
        found = judge_clocks(alone[0], seen)
        if found is not None:
            verdicts[entrant.name] = found
    return verdicts


def judge_clocks(baseline: Sequence[Seen], entrant: Sequence[Seen]) -> Verdict | None:
    """What rounds of the baseline alone and of an entrant alone, taken in turn, say of the entrant.

    `cheated` takes a difference that is in the entrant's favour in every round (the child claims less time
    than passed) while at most one round of the baseline disagrees at all: delays do not tell the two apart
    so well. Where nearly all rounds of either disagree otherwise, times are `noisy`. None: no objection.
    """
    said = "the child's clock saw {:.0%} of the time that passed"
    favoured = all(disagree(wall, busy) and busy < wall for wall, busy in entrant)
    if favoured and sum(disagree(*one) for one in baseline) <= 1:
        return Verdict(Status.CHEATED, f"{said.format(_share(entrant))} here while this kernel ran alone")
    if _mostly_apart(baseline):
        even = said.format(_share(baseline))
        return Verdict(
            Status.NOISY, f"{even} even for the baseline alone: the machine is too busy to time on; try again"
        )
    if _mostly_apart(entrant):
        return Verdict(
            Status.NOISY, f"{said.format(_share(entrant))} here, which other work may explain; try again"
        )
    return None


def _mostly_apart(rounds: Sequence[Seen]) -> bool:
    return sum(disagree(*one) for one in rounds) > _APART_ROUNDS * len(rounds)


def _share(rounds: Sequence[Seen]) -> float:
    return float(np.median([busy / wall for wall, busy in rounds]))
