"""Finalists of any objective, evaluated in turns with the baseline, again and again, and compared in pairs.

A score that a search saw is the best of many, and flatters. Here every finalist and the baseline are
evaluated once a round, in random order, each in a process of its own; a round's scores are the pairs that are
compared. The number of rounds is fixed beforehand, so that nobody stops where the numbers please.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Literal

from kernelwright.controls._finalists import Candidate
from kernelwright.controls._finalists import Finalist
from kernelwright.errors import KernelwrightError
from kernelwright.errors import UsageError
from kernelwright.referee import Status
from kernelwright.referee._statistics import aa_gate
from kernelwright.referee._statistics import Estimate
from kernelwright.referee._statistics import estimate
from kernelwright.search import Failure

#: Fewer pairs say nothing at the level that is wanted.
LEAST_ROUNDS = 6
#: Who answers the same so often, everywhere, is taken to be free of noise.
_ROUNDS_WHEN_EXACT = 3

Evaluate = Callable[[Any], "tuple[float, ...] | Failure"]

#: What the kinds of failures of a search are called by the referee; its own words stay as they are.
_STATUSES: Mapping[str, Status] = {
    "timeout": Status.HUNG,
    "raised": Status.CRASHED,
    "exited": Status.CRASHED,
    "worker_lost": Status.CRASHED,
    "compiler_crashed": Status.BUILD_FAILED,
    "skipped": Status.UNSUPPORTED,
    "invalid_score": Status.WRONG,
    "wrong_arity": Status.WRONG,
    "unpicklable": Status.WRONG,
}


class BaselineFailedError(KernelwrightError):
    """The baseline has no score, so that nothing can be compared with it."""


def status_of(failure: Failure) -> Status:
    """The referee's word for a failure of a search."""
    if failure.kind in list(Status):
        return Status(failure.kind)
    return _STATUSES.get(failure.kind, Status.CRASHED)


def refusal(failure: Failure) -> tuple[Status, str]:
    """A failure of a search as the status and reason of a verdict."""
    return status_of(failure), f"{failure.kind}: {failure.reason}".strip(": ")


def judge_in_rounds(
    evaluate: Evaluate,
    candidates: Sequence[Candidate],
    baseline: Any,
    *,
    direction: Literal["min", "max"] = "min",
    objective: int = 0,
    rounds: int = 12,
    seed: int = 0,
    what: str = "the objective",
) -> tuple[list[Finalist], dict[str, Estimate]]:
    """A status for each candidate, and an estimate of its ratio to the baseline for each that passed.

    Ratios are above one where the candidate is better. A candidate that fails once is out, since it does not
    hold what it was chosen for. All are `noisy` where the baseline differs from itself. Scores that are not
    above zero have no ratio: these candidates are `unsupported`.

    Raises UsageError for too few rounds, BaselineFailedError when the baseline fails.
    """
    if rounds < LEAST_ROUNDS:
        raise UsageError(f"{LEAST_ROUNDS} rounds are needed at least; got {rounds}")
    shuffle = random.Random(seed)
    failures: dict[str, Failure] = {}
    times: dict[str, list[float]] = {one.name: [] for one in candidates}
    ours: list[float] = []
    for done in range(rounds):
        alive = [one for one in candidates if one.name not in failures]
        if not alive or (done >= _ROUNDS_WHEN_EXACT and _exact([ours, *times.values()])):
            break
        order: list[Candidate | None] = [None, *alive]
        shuffle.shuffle(order)
        scores: dict[str, float] = {}
        for one in order:
            answer = evaluate(baseline if one is None else one.config)
            if isinstance(answer, Failure):
                if one is None:
                    raise BaselineFailedError(
                        f"{what} has no score for the baseline: {answer.kind} {answer.reason}".strip()
                    )
                failures[one.name] = answer
            else:
                scores["" if one is None else one.name] = answer[objective]
        ours.append(scores.pop(""))
        for name, score in scores.items():
            times[name].append(score)
    noise = _against_itself(ours, seed)
    finalists: list[Finalist] = []
    estimates: dict[str, Estimate] = {}
    for one in candidates:
        status, reason = Status.PASSED, ""
        if one.name in failures:
            status, reason = refusal(failures[one.name])
        elif noise is not None:
            status, reason = Status.NOISY, noise
        elif min([*ours, *times[one.name]]) <= 0.0:
            status = Status.UNSUPPORTED
            reason = "scores that are not above zero have no ratio; let the objective return a positive one"
        else:
            estimates[one.name] = _estimate(ours, times[one.name], direction, seed)
        finalists.append(Finalist(one.name, one.config, status, reason, number=one.number, scores=one.scores))
    return finalists, estimates


def _exact(series: Sequence[Sequence[float]]) -> bool:
    return all(len(set(one)) <= 1 for one in series)


def _against_itself(scores: Sequence[float], seed: int) -> str | None:
    """Why nothing should be compared, from neighbouring rounds of the baseline."""
    pairs = list(zip(scores[::2], scores[1::2], strict=False))
    if len(pairs) < LEAST_ROUNDS // 2 or min(scores) <= 0.0 or _exact([scores]):
        return None
    swap = random.Random(seed)
    mixed = [pair if swap.random() < 0.5 else pair[::-1] for pair in pairs]
    first, second = zip(*mixed, strict=True)
    if len(mixed) < 5:
        # Too few for an interval: only a scatter that would hide any effect is refused.
        spread = statistics.pstdev(math.log(one / other) for one, other in mixed)
        return f"the baseline scatters by {spread:.0%}; quieten the machine" if spread > 0.25 else None
    return aa_gate(first, second, seed=seed)


def _estimate(baseline: Sequence[float], candidate: Sequence[float], direction: str, seed: int) -> Estimate:
    ours = baseline[: len(candidate)]
    if _exact([ours, candidate]):
        ratio = ours[0] / candidate[0] if direction == "min" else candidate[0] / ours[0]
        return Estimate(ratio, (ratio, ratio), 1.0 if ratio == 1.0 else 0.0)
    if direction == "min":
        return estimate(ours, candidate, seed=seed)
    return estimate(candidate, ours, seed=seed)
