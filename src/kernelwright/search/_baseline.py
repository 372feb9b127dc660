"""Scores against the baseline, following its drift."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from kernelwright.search._evaluation import Evaluation


def normalise(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """The evaluations with `normalised`: their scores divided by the baseline's at their time.

    The baseline is evaluated again as a run goes on, because machines get warm and neighbours come and go. An
    evaluation between two baselines is compared with the straight line between them, at the middle of its
    time; before the first and after the last, with the closest. Where a worker says on which `device` of
    which `node` it measured (metadata), baselines of that place alone count, or else the
    `baseline` that the worker took there itself. Without a baseline, nothing is normalised.
    """
    lines: dict[str | None, list[tuple[float, tuple[float, ...]]]] = {}
    for one in evaluations:
        if one.baseline and one.scores is not None and usable(one.scores):
            for place in {None, _place(one)}:
                lines.setdefault(place, []).append((_middle(one), one.scores))
    for line in lines.values():
        line.sort()
    compared = []
    for one in evaluations:
        line = lines.get(_place(one)) or _own(one) or lines.get(None) or []
        if one.scores is None or not line:
            compared.append(replace(one, normalised=None))
            continue
        base = _at(line, _middle(one))
        compared.append(replace(one, normalised=tuple(s / b for s, b in zip(one.scores, base, strict=True))))
    return compared


def usable(scores: Sequence[float]) -> bool:
    """Whether these can be a baseline: to divide by them keeps the order of scores."""
    return all(score > 0 for score in scores)


def _place(one: Evaluation) -> str | None:
    known = [str(one.metadata[name]) for name in ("node", "device") if one.metadata.get(name) is not None]
    return "/".join(known) or None


def _own(one: Evaluation) -> list[tuple[float, tuple[float, ...]]]:
    known = one.metadata.get("baseline")
    return [(0.0, tuple(known))] if isinstance(known, list | tuple) and usable(known) else []


def _middle(one: Evaluation) -> float:
    return one.started_at + one.seconds / 2


def _at(line: Sequence[tuple[float, tuple[float, ...]]], when: float) -> tuple[float, ...]:
    after = bisect_left(line, (when,))
    if after == 0:
        return line[0][1]
    if after == len(line):
        return line[-1][1]
    (earlier, low), (later, high) = line[after - 1], line[after]
    share = (when - earlier) / (later - earlier) if later > earlier else 1.0
    return tuple(a + share * (b - a) for a, b in zip(low, high, strict=True))
