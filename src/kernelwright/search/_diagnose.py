"""What is wrong with a search, in words, and what to do about it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from typing import TYPE_CHECKING

from kernelwright.search import _columns
from kernelwright.search import _noise
from kernelwright.search._remedies import REMEDIES
from kernelwright.search._remedies import remedy

if TYPE_CHECKING:
    from kernelwright.search._evaluation import Evaluation
    from kernelwright.search._result import SearchResult

Severity = Literal["error", "warning", "note"]

#: From this share of failures on, they are more than a note.
_MANY_FAILURES = 0.25
#: A score that stands for a failure is this many times the largest other.
_FAR = 100.0
#: Candidates needed before equal scores mean something.
_FEW = 3
#: A trend of the baseline below this is not worth a word.
_DRIFT = 0.02
#: Noise above this share of the scatter of all scores hides who is better.
_NOISY = 0.5
_LEVEL = 0.01


@dataclass(frozen=True)
class Finding:
    """One thing that was found: a name, how bad it is, what is seen, with numbers, and what to do.

    `error`: the search says nothing. `warning`: its answer may be wrong, or much of it was wasted. `note`:
    worth knowing.
    """

    name: str
    severity: Severity
    text: str
    remedy: str


def diagnose(result: SearchResult) -> list[Finding]:
    """What is wrong with the search, the worst first; empty where nothing was found.

    Names: `empty`, `no_score`, `failures` (one a cause), `failed_baseline`, `failing_value`, `all_equal`,
    `stand_in`, `few_values`, `no_improvement`, `stalled`, `still_improving`, `drift`, `too_noisy`,
    `noise_not_known`, `workers_differ`, `no_conflict`. Statistical ones hold at the 1% level.
    """
    if not result.evaluations:
        return [
            Finding(
                "empty",
                "error",
                "the search has no evaluation",
                "start it; if it was started, its budget (max_evaluations, max_time) ended before one did",
            )
        ]
    found = [*_failures(result)]
    if not result.candidates:
        found.insert(0, _no_score(result))
    elif (equal := _all_equal(result)) is not None:
        found.append(equal)
    else:
        for look in (_stand_in, _few_values, _improvement, _progress, _drift, _noisy, _workers, _conflict):
            found += look(result)
    order = {"error": 0, "warning": 1, "note": 2}
    return sorted(found, key=lambda one: order[one.severity])


def _no_score(result: SearchResult) -> Finding:
    judged = [one for one in result.evaluations if not one.baseline]
    return Finding(
        "no_score",
        "error",
        f"none of {len(judged)} candidates has a score",
        "call the objective once by hand with `search.sample(1)[0]` and make that work first",
    )


def _failures(result: SearchResult) -> Iterator[Finding]:
    total = len(result.evaluations)
    # What the objective chose not to measure did not go wrong.
    share = sum(one.failure is not None and one.failure.kind != "skipped" for one in result.failed) / total
    severity: Severity = "warning" if share >= _MANY_FAILURES else "note"
    for kind, count in result.failures.items():
        alike = [one for one in result.failed if one.failure and one.failure.kind == kind]
        # The example is one whose cause is known, if any is.
        known = REMEDIES.get(kind, REMEDIES[""])
        example = next((one for one in alike if _remedy(one) != known), alike[0])
        reason = example.failure.reason if example.failure else ""
        said = (
            f"; #{example.number}: {_first_line(reason)}" if reason else f"; the first is #{example.number}"
        )
        yield Finding(
            "failures",
            severity,
            f"{count} of {total} evaluations ({count / total:.0%}) failed: {kind}{said}",
            _remedy(example),
        )
    yield from _failed_baseline(result)
    if result.failed and result.candidates:
        yield from _failing_values(result)


def _remedy(one: Evaluation) -> str:
    """What to do about an evaluation that failed: its reason, and what was said meanwhile, tell."""
    if one.failure is None:
        return REMEDIES[""]
    return remedy(one.failure.kind, f"{one.failure.reason}\n{one.stderr}", one.params)


def _failed_baseline(result: SearchResult) -> Iterator[Finding]:
    """The objective gets {} and fails, where it has scores for other configurations."""
    failed = [one for one in result.failed if one.params == {} and (one.baseline or one.configuration)]
    if failed and failed[0].failure is not None and result.candidates:
        first = failed[0].failure
        yield Finding(
            "failed_baseline",
            "warning",
            f"#{failed[0].number}, {{}}, failed: {first.kind}; {_first_line(first.reason)}",
            _remedy(failed[0]),
        )


def _stand_in(result: SearchResult) -> Iterator[Finding]:
    """A round score far from all others, as objectives return that have an INVALID_SCORE of their own."""
    scores = [float(result.values(one)[0]) for one in result.ranked]
    if result.num_objectives > 1 or result.normalised or len(scores) < _FEW:
        return
    for value in {max(scores), min(scores)}:
        others = [score for score in scores if score != value]
        if not others or not value.is_integer():
            continue
        count, largest = len(scores) - len(others), max(map(abs, others))
        # Far above all, or no positive number while all others are, with a gap between: where others come
        # close to zero, zero may be a score. So may a single large one.
        above = value >= _FAR * largest > 0 and (count > 1 or value >= _FAR**2 * largest)
        below = count > 1 < len(set(others)) and min(others) > statistics.median(others) / 10 > 0
        if not (above if value > 0 else below):
            continue
        wins = value == result.values(result.ranked[0])[0]
        yield Finding(
            "stand_in",
            "error" if wins else "warning",
            f"{count} of {len(scores)} scored candidates have the score {value:g}, and all others are "
            f"{'at most' if value > 0 else 'at least'} {max(others) if value > 0 else min(others):.6g}"
            + (": the search takes it for the best" if wins else ""),
            "if that stands for a failure, return `INVALID_SCORE` as kernelwright.search has it: a number of "
            "one's own is a score, by which the search learns",
        )


def _failing_values(result: SearchResult) -> Iterator[Finding]:
    """Values with which more evaluations fail than without: Fisher's exact test, Bonferroni over values."""
    from scipy.stats import fisher_exact

    judged = [one for one in result.evaluations if not one.baseline]
    failed = [one.failure is not None for one in judged]
    columns = _columns.columns([one.configuration for one in judged], least=2)
    tests = sum(len(column.levels) for column in columns)
    told = []
    for column in columns:
        for number, level in enumerate(column.levels):
            mine = [code == number for code in column.codes]
            both = sum(a and b for a, b in zip(mine, failed, strict=True))
            of, bad = sum(mine), sum(failed)
            table = [[both, of - both], [bad - both, len(judged) - of - bad + both]]
            p = float(fisher_exact(table, alternative="greater").pvalue) * tests
            if p < _LEVEL and both >= of / 2:
                told.append((p, column.name, level, both, of, bad))
    for _, name, level, both, of, bad in sorted(told)[:3]:
        yield Finding(
            "failing_value",
            "warning" if both == of else "note",
            f"with {name} = {level}, {both} of {of} evaluations failed; without it {bad - both} of "
            f"{len(judged) - of}",
            "leave the value out of the space, or forbid with a constraint what it cannot go with",
        )


def _all_equal(result: SearchResult) -> Finding | None:
    values = [result.values(one) for one in result.ranked]
    if len(values) < _FEW or any(value != values[0] for value in values):
        return None
    shown = ", ".join(f"{value:.6g}" for value in values[0])
    return Finding(
        "all_equal",
        "error",
        f"all {len(values)} scored candidates have the same score, {shown}",
        "the configuration does not reach what is measured: check that the objective uses every parameter, "
        "that no cache answers (build folders, compiler and kernel caches), and, with a compiler, that a "
        "setting known to be slow is slower",
    )


def _few_values(result: SearchResult) -> Iterator[Finding]:
    scores = [result.values(one)[0] for one in result.ranked]
    distinct = len(set(scores))
    if result.num_objectives == 1 and len(scores) >= 20 and distinct <= max(2, len(scores) // 20):
        yield Finding(
            "few_values",
            "note",
            f"{len(scores)} scored candidates have only {distinct} different scores",
            "if a finer score can be had (a median of more repeats, a finer clock), return that; else a few "
            "parameters decide all: see `importance`",
        )


def _improvement(result: SearchResult) -> Iterator[Finding]:
    if result.num_objectives > 1 or not result.baselines:
        return
    best = result.ranked[0]
    base = 1.0 if result.normalised else statistics.median(_first(result.baselines))
    value = result.values(best)[0]
    gain = value - base if result.directions[0] == "max" else base - value
    noise = _noise.noise(result.evaluations, 0)
    if result.normalised and noise is not None and not noise.relative:
        noise = None
    seen = (
        f"the best of {len(result.ranked)} candidates, #{best.number}, has {value:.6g}; "
        f"the baseline {base:.6g}"
    )
    if gain <= 0:
        yield Finding(
            "no_improvement",
            "warning",
            f"nothing beats the baseline: {seen}",
            "keep the baseline, or search other parameters; if something must be better, check that the "
            "objective measures the baseline in the same way (same inputs, same warm-up)",
        )
    elif noise is not None and gain <= _noise.luck(noise, base, len(result.ranked)):
        yield Finding(
            "no_improvement",
            "warning",
            f"{seen}: no more than the luck of the best of so many equals, with noise of {noise}",
            "do not ship it on this evidence: measure it and the baseline in turns (`minimize` does), or "
            "give the objective more repeats",
        )


def _progress(result: SearchResult) -> Iterator[Finding]:
    if result.num_objectives > 1:
        return
    steps = result.progress()
    if len(steps) < 20:
        return
    reached = next(place for place, step in enumerate(steps) if step.best == steps[-1].best) + 1
    if reached <= len(steps) // 3:
        yield Finding(
            "stalled",
            "note",
            f"the best came at candidate {reached} of {len(steps)}; nothing was better after",
            "either it is the optimum, or the optimiser is stuck: another seed or optimiser tells; a smaller "
            "max_evaluations would have found the same",
        )
    elif reached > 0.9 * len(steps):
        yield Finding(
            "still_improving",
            "note",
            f"the best came at candidate {reached} of {len(steps)}: the search was still getting better",
            "resume it with a larger max_evaluations",
        )


def _drift(result: SearchResult) -> Iterator[Finding]:
    for objective in range(result.num_objectives):
        seen = _noise.drift(result.baselines, objective)
        if seen is None or seen.p >= _LEVEL or abs(seen.change) < _DRIFT:
            continue
        text = (
            f"the baseline's score {objective + 1} moved by {seen.change:+.1%} over the run "
            f"({seen.count} evaluations of it)"
        )
        if result.normalised:
            remedy = (
                "candidates are compared by scores divided by the baseline of their time, so it is followed"
            )
            yield Finding("drift", "note", text, remedy)
        else:
            remedy = (
                "early and late candidates cannot be compared: set normalize=True, which divides by the "
                "baseline of the time, and fix clocks and other load if you can"
            )
            yield Finding("drift", "warning", text, remedy)


def _noisy(result: SearchResult) -> Iterator[Finding]:
    if result.num_objectives > 1 or len(result.ranked) < _FEW:
        return
    noise = _noise.noise(result.evaluations, 0)
    if noise is None:
        yield Finding(
            "noise_not_known",
            "note",
            "nothing was evaluated often enough to tell the noise of the scores",
            "a smaller baseline_every has the baseline evaluated more often"
            if result.normalize
            else "set normalize=True: then the baseline is evaluated again as the run goes on",
        )
        return
    costs = sorted(-one if result.directions[0] == "max" else one for one in _first(result.ranked))
    alike = sum(cost - costs[0] <= 2.0 * 2.0**0.5 * noise.at(costs[0]) for cost in costs)
    quarter, middle, three = statistics.quantiles(costs, n=4)
    # As a standard deviation, so that both are the same kind of number.
    spread = (three - quarter) / 1.349
    share = noise.at(middle) / spread if spread else 1.0
    if noise.deviation > 0 and (share > _NOISY or alike > max(2, len(costs) // 4)):
        yield Finding(
            "too_noisy",
            "warning",
            f"the noise of one score is {noise}, {share:.0%} of how much candidates' scores scatter; "
            f"{alike} of {len(costs)} cannot be told from the best",
            "make the objective repeat its measurement and return the median, keep the machine quiet (one "
            "measuring worker, fixed clocks), or race the best few again in turns",
        )


def _workers(result: SearchResult) -> Iterator[Finding]:
    """Workers that measure differently: Kruskal and Wallis on the candidates that each got."""
    groups: dict[str, list[float]] = {}
    for one in result.ranked:
        groups.setdefault(one.worker, []).append(result.values(one)[0])
    groups = {name: values for name, values in groups.items() if len(values) >= 8}
    if len(groups) < 2 or len({value for values in groups.values() for value in values}) < 2:
        return
    from scipy.stats import kruskal

    if float(kruskal(*groups.values()).pvalue) >= _LEVEL / 10:
        return
    medians = ", ".join(f"{name} {statistics.median(values):.4g}" for name, values in groups.items())
    yield Finding(
        "workers_differ",
        "warning",
        f"scores differ by the worker that measured them (medians: {medians})",
        "compare on one device, or set normalize=True, which takes each device's own baseline",
    )


def _conflict(result: SearchResult) -> Iterator[Finding]:
    if result.num_objectives > 1 and len(result.ranked) >= 10 and len(result.front) == 1:
        yield Finding(
            "no_conflict",
            "note",
            f"one candidate, #{result.front[0].number}, is the best in all objectives",
            "one objective would do: the others follow it here",
        )


def _first(evaluations: Sequence[Evaluation]) -> list[float]:
    """Raw first scores."""
    return [one.scores[0] for one in evaluations if one.scores]


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= 160 else line[:157] + "…"
