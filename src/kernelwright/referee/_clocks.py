"""Two clocks: the child's, on which a kernel could lay its hands, and ours, which every delay lengthens.

A batch takes longer on our clock: two messages lie within it. How much longer is seen from the baseline,
whose child does the same; what goes beyond that is in the entrant's favour.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
_NO_CHANCE = 1e-6
#: And how many in any case: to lie in fewer hardly moves a median, and threads of a kernel may delay so many.
_OFTEN_SHARE = 0.4
_NEARLY_ALL = 0.8
#: Clocks this close, and the slack, agree: a batch of a screening, or of few large calls, is short beside its
#: messages. A few such batches show that the child's clock is true.
_TRUE_SHARE = 0.05
#: None of an entrant's batches is borne out if its clock saw less than this part of the time in each, while
#: so many of the baseline's agree.
_NEVER = 0.75
_BORNE_OUT = 4

#: Seconds of one batch, on our clock and on the child's.
Seen = tuple[float, float]


def borne_out(wall_s: float, busy_s: float, late_s: float) -> float:
    """Our clock, without what we were kept waiting, `late_s`, as far as that explains what we saw more.

    Threads that go on spinning after an answer keep us from hearing it. It explains a difference and never
    makes one: we may have waited while the child worked, too.
    """
    return wall_s - min(max(late_s, 0.0), max(wall_s - busy_s, 0.0))


def overhead(rounds: Sequence[Seen]) -> float:
    """Seconds that messages add to a batch, the median of what was seen."""
    return max(float(np.median([wall - busy for wall, busy in rounds])), 0.0) if rounds else 0.0


def disagree(wall_s: float, busy_s: float, overhead_s: float = 0.0) -> bool:
    """Whether the child claims another time than passed here."""
    return abs(wall_s - overhead_s - busy_s) > _CLOCK_SHARE * wall_s + _CLOCK_SLACK_S


def favours(wall_s: float, busy_s: float, overhead_s: float = 0.0) -> bool:
    """Whether it claims clearly less."""
    return disagree(wall_s, busy_s, overhead_s) and busy_s < wall_s - overhead_s


def true_batches(rounds: Sequence[Seen]) -> int:
    """How many batches our clock bears out, whatever messages take beyond what they have to."""
    return sum(abs(wall - busy) <= _TRUE_SHARE * wall + _CLOCK_SLACK_S for wall, busy in rounds)


def suspicious(baseline: Sequence[Seen], entrant: Sequence[Seen]) -> bool:
    """Whether an entrant's times are not borne out by our clock as the baseline's are.

    It told too little in a share of its batches, and clearly more often than the baseline; it told of more
    than passed; or hardly any of its batches agree with our clock, be the machine as busy as it may.
    """
    usual = overhead(baseline)
    ours = sum(favours(*one, usual) for one in baseline) / max(len(baseline), 1)
    apart = sum(favours(*one, usual) for one in entrant)
    beyond = sum(busy > wall for wall, busy in entrant)
    wanted = max(_FEWEST, 0.5 * len(entrant) * true_batches(baseline) / max(len(baseline), 1))
    return (
        beyond >= _FEWEST
        or true_batches(entrant) < wanted
        or apart >= max(_FEWEST, (_APART_SHARE + 2.0 * ours) * len(entrant))
    )


def clock_verdicts(course: Course, settle: Callable[[], None] | None = None) -> dict[str, Verdict]:
    """Verdicts where the child's clock and ours told different times.

    A machine that is busy with other work delays messages, and then our clock runs on. So each contestant is
    timed alone, in turn with the baseline, so that what comes and goes meets both, before anything is said;
    `settle` is called before that, to wait for work of ours.
    """
    seen = [[(one.wall_s, one.busy_s) for one in lane.batches] for lane in course.lanes]
    suspects = [index for index in range(1, len(seen)) if seen[index] and suspicious(seen[0], seen[index])]
    verdicts = {}
    if suspects and settle is not None:
        settle()
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
    in a good part of its batches, and so much more often than in the baseline's that delays do not explain
    it. In fewer batches than that, it is `noisy`: threads that go on spinning after a call keep our message
    waiting, which a baseline without threads does not know. On a machine so busy that they do, it takes that
    not one batch of the entrant comes near our clock while several of the baseline agree with it. Where
    hardly any batch of the entrant agrees otherwise, its times are `noisy`. None: no objection.
    """
    usual = overhead(baseline)
    apart = [one for one in entrant if disagree(*one, usual)]
    ours = sum(disagree(*one, usual) for one in baseline)
    needed = _needed(ours, len(baseline), len(entrant))
    said = f"the child's clock saw {_share(entrant):.0%} of the time that passed"
    more = len(apart) >= needed and all(favours(*one, usual) for one in apart)
    often = more and len(apart) >= _OFTEN_SHARE * len(entrant)
    never = max(busy / wall for wall, busy in entrant) < _NEVER and true_batches(baseline) >= _BORNE_OUT
    if never:
        apart = list(entrant)
    if often or never:
        return Verdict(
            Status.CHEATED,
            f"the child's clock saw {_share(apart):.0%} of the time that passed in {len(apart)} of "
            f"{len(entrant)} batches of this kernel alone, {_share(baseline):.0%} in those of the baseline",
        )
    if more:
        return Verdict(
            Status.NOISY,
            f"the child's clock saw {_share(apart):.0%} of the time that passed in {len(apart)} of "
            f"{len(entrant)} batches of this kernel alone, and all of it in the others; try again",
        )
    if true_batches(entrant) >= max(_FEWEST, true_batches(baseline) / 4):
        return None
    if ours > _NEARLY_ALL * len(baseline):
        return Verdict(
            Status.NOISY,
            f"{said}, and of the baseline's no more: the machine is too busy to time on; try again",
        )
    return Verdict(Status.NOISY, f"{said} here, which other work may explain; try again")


def _needed(ours: int, baseline: int, entrant: int) -> int:
    """How many of an entrant's batches must be apart, when `ours` of the baseline's are, to be no chance.

    For none and one as simulated with delays of any frequency; beyond that by Fisher's exact test.
    """
    if ours <= 1:
        return _APART_WHEN_ONE if ours else _APART_WHEN_NONE
    for theirs in range(ours, entrant + 1):
        total = ours + theirs
        ways = sum(
            math.comb(entrant, k) * math.comb(baseline, total - k)
            for k in range(theirs, min(entrant, total) + 1)
        )
        if ways / math.comb(entrant + baseline, total) < _NO_CHANCE:
            return theirs
    return entrant + 1


def _share(rounds: Sequence[Seen]) -> float:
    return float(np.median([busy / wall for wall, busy in rounds]))
