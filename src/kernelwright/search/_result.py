"""What a search found: the best, the front, the rest; read from a search, its journal or its CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from typing import Literal
from typing import TYPE_CHECKING

from kernelwright import files
from kernelwright.errors import NoScoreError
from kernelwright.errors import UsageError
from kernelwright.search import _export
from kernelwright.search import _pareto
from kernelwright.search._evaluation import Evaluation

if TYPE_CHECKING:
    from kernelwright.search._diagnose import Finding
    from kernelwright.search._importance import Importances
    from kernelwright.search._minimize import Minimized

ProblemType = Literal["min", "max"]


@dataclass(frozen=True)
class Step:
    """One scored candidate on the way: its value of one objective, and the best value up to it."""

    evaluation: Evaluation
    value: float
    best: float


class SearchResult:
    """The evaluations of a search, and what can be said of them.

    `evaluations`, in the order in which they ended. `problem_type` is `min` or `max`, or one of them for each
    objective. With `normalize`, candidates are compared by their scores divided by the baseline's, which
    drift of the machine does not move; where no evaluation has such scores, by the scores themselves.
    `info` is what the store knows of the run, None where it does not come from one.

    Evaluations of the baseline are kept apart: they are in `baselines`, never in the results.
    """

    def __init__(
        self,
        evaluations: Sequence[Evaluation],
        *,
        num_objectives: int = 1,
        problem_type: ProblemType | Sequence[ProblemType] = "min",
        normalize: bool = False,
        info: Any = None,
    ) -> None:
        """Raises UsageError when the objectives' number and directions, or a score's arity, disagree."""
        self.evaluations = list(evaluations)
        self.num_objectives = num_objectives
        self.directions = _directions(problem_type, num_objectives)
        self.normalize = normalize
        self.info = info
        for one in self.evaluations:
            if one.scores is not None and len(one.scores) != num_objectives:
                raise UsageError(
                    f"evaluation {one.number} has {len(one.scores)} scores where num_objectives is "
                    f"{num_objectives}"
                )

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        *,
        problem_type: ProblemType | Sequence[ProblemType] = "min",
        normalize: bool | None = None,
    ) -> SearchResult:
        """The result that `to_csv` wrote; `normalize` unless said: whether the file has normalised scores.

        A file with the columns `score_1` … and `params` alone will do. Raises FileFormatError.
        """
        evaluations, count = _export.read_csv(Path(path))
        if normalize is None:
            normalize = any(one.normalised is not None for one in evaluations)
        return cls(evaluations, num_objectives=count, problem_type=problem_type, normalize=normalize)

    def csv(self) -> str:
        """What `to_csv` writes."""
        return _export.csv_text(self.evaluations, self.num_objectives)

    def jsonl(self) -> str:
        """What `to_jsonl` writes."""
        return _export.jsonl_text(self.evaluations, self.num_objectives)

    @classmethod
    def from_journal(cls, path: str | Path, run_id: str | None = None) -> SearchResult:
        """The result of a run as its store has it, the latest unless `run_id` says which.

        Also while the search goes on, or after it was killed. Raises what `read_run` does.
        """
        from kernelwright.search._store import read_run

        run = read_run(path, run_id)
        settings = run.info.settings
        return cls(
            run.evaluations,
            num_objectives=settings.get("num_objectives", 1),
            problem_type=settings.get("problem_type", "min"),
            normalize=settings.get("normalize", False),
            info=run.info,
        )

    def to_csv(self, path: str | Path) -> Path:
        """Write all evaluations as CSV: `generation, score_N, params, norm_score_N, metadata`."""
        files.write_atomic(Path(path), self.csv())
        return Path(path)

    def to_jsonl(self, path: str | Path) -> Path:
        """Write all evaluations as JSON lines with the keys of `to_csv`."""
        files.write_atomic(Path(path), self.jsonl())
        return Path(path)

    @cached_property
    def candidates(self) -> list[Evaluation]:
        """Evaluations of candidates that have scores, in order."""
        return [one for one in self.evaluations if one.scores is not None and not one.baseline]

    @cached_property
    def baselines(self) -> list[Evaluation]:
        """Evaluations of the baseline that have scores, in order."""
        return [one for one in self.evaluations if one.scores is not None and one.baseline]

    @cached_property
    def failed(self) -> list[Evaluation]:
        """Evaluations that failed, in order."""
        return [one for one in self.evaluations if one.failure is not None]

    @property
    def failures(self) -> dict[str, int]:
        """How many evaluations failed, by kind, the most frequent first."""
        return dict(Counter(one.failure.kind for one in self.failed if one.failure).most_common())

    @cached_property
    def normalised(self) -> bool:
        """Whether candidates are compared by normalised scores."""
        return self.normalize and any(one.normalised is not None for one in self.candidates)

    @cached_property
    def ranked(self) -> list[Evaluation]:
        """Candidates that can be compared, best first, the earlier of equals first.

        With several objectives: front by front, and within a front by distance to its ideal corner.
        """
        compared = [one for one in self.candidates if not self.normalised or one.normalised is not None]
        if self.num_objectives == 1:
            return sorted(compared, key=lambda one: self.costs(one)[0])
        return self._by_front(compared)

    def values(self, evaluation: Evaluation) -> tuple[float, ...]:
        """What the evaluation is compared by: its scores, or the normalised ones."""
        found = evaluation.normalised if self.normalised else evaluation.scores
        if found is None:
            raise NoScoreError(f"evaluation {evaluation.number} has no score to compare")
        return found

    def costs(self, evaluation: Evaluation) -> tuple[float, ...]:
        """`values` with those that are maximised negated: smaller is better in each."""
        pairs = zip(self.values(evaluation), self.directions, strict=True)
        return tuple(-value if way == "max" else value for value, way in pairs)

    def get_best_result(self, objective: int | None = None) -> dict[str, Any]:
        """The best candidate: `params`, `score`, `norm_score`, `generation`, `metadata`.

        `score` and `norm_score` are numbers for one objective and tuples for several; `norm_score` is None
        without a baseline. With several objectives, the best is the point of the Pareto front nearest to the
        front's ideal corner, each objective scaled to the front's range; `objective` (from 0) asks for the
        best in one of them instead.

        Raises NoScoreError when no candidate has a score, UsageError for an objective that is not there.
        """
        return self.record(self.best(objective))

    def best(self, objective: int | None = None) -> Evaluation:
        """The evaluation behind `get_best_result`."""
        if not self.ranked:
            raise NoScoreError(self._why_empty())
        if objective is None:
            return self.ranked[0]
        self._check_objective(objective)
        return min(self.ranked, key=lambda one: (self.costs(one)[objective], one.number))

    def get_results(self, *, failures: bool = False, baselines: bool = False) -> list[dict[str, Any]]:
        """The candidates with scores, in the order in which they ended, each as in `get_best_result`.

        `failures` adds those that failed, whose scores are None; `baselines` those of the baseline.
        """
        return [
            self.record(one)
            for one in self.evaluations
            if (baselines or not one.baseline) and (failures or one.scores is not None)
        ]

    def top_k(self, k: int) -> list[dict[str, Any]]:
        """The best `k` candidates, best first, or as many as there are."""
        if k < 1:
            raise UsageError(f"top_k takes at least 1; got {k}")
        return [self.record(one) for one in self.ranked[:k]]

    def pareto_front(self) -> list[dict[str, Any]]:
        """The candidates that no other one beats in every objective, by the first objective, best first."""
        return [self.record(one) for one in self.front]

    @cached_property
    def front(self) -> list[Evaluation]:
        """The evaluations behind `pareto_front`."""
        costs = [self.costs(one) for one in self.ranked]
        kept = [self.ranked[place] for place in _pareto.front(costs)]
        return sorted(kept, key=lambda one: (self.costs(one), one.number))

    def hypervolume(self, reference: Sequence[float] | None = None) -> float:
        """The volume between the Pareto front and a reference point that is worse in every objective.

        In the units of the compared values, multiplied; `reference` in the same. By default it is the worst
        value of any candidate in each objective, so that volumes of two searches can only be compared with
        a reference that is given. 0 where nothing has a score. Raises UsageError for a reference of another
        number of objectives.
        """
        if reference is not None and len(reference) != self.num_objectives:
            raise UsageError(f"the reference needs {self.num_objectives} values; got {len(reference)}")
        if not self.ranked:
            return 0.0
        costs = [self.costs(one) for one in self.ranked]
        if reference is None:
            corner = tuple(max(column) for column in zip(*costs, strict=True))
        else:
            pairs = zip(reference, self.directions, strict=True)
            corner = tuple(-value if way == "max" else value for value, way in pairs)
        return _pareto.hypervolume(costs, corner)

    def diagnose(self) -> list[Finding]:
        """What is wrong with the search, the worst first, and what to do; empty where nothing was found."""
        from kernelwright.search._diagnose import diagnose

        return diagnose(self)

    def importance(self, *, objective: int = 0, seed: int = 0) -> Importances:
        """Which parameters mattered, with intervals and p-values; see `parameter_importance`."""
        from kernelwright.search._importance import parameter_importance

        self._check_objective(objective)
        return parameter_importance(self, objective=objective, seed=seed)

    def minimize(
        self,
        evaluate: Callable[[Any], Any],
        search_space: Any,
        *,
        evaluation: Evaluation | None = None,
        objective: int = 0,
        **options: Any,
    ) -> Minimized:
        """The fewest settings of the best candidate that keep its win; see `minimize_settings`.

        `evaluate` takes what an objective gets and returns what it returns; `search_space` is that of the
        search; `evaluation` another candidate than the best. `options` go to `minimize_settings`; its
        `reference` is, unless given, the baseline where every parameter can be left out, else the space's
        default.

        Raises NoScoreError when no candidate has a score.
        """
        from kernelwright.search._minimize_space import minimize_in_space

        self._check_objective(objective)
        return minimize_in_space(
            evaluate,
            search_space,
            evaluation or self.best(objective if self.num_objectives > 1 else None),
            num_objectives=self.num_objectives,
            objective=objective,
            maximise=self.directions[objective] == "max",
            **options,
        )

    def progress(self, objective: int = 0) -> list[Step]:
        """Every candidate's value in one objective with the best so far, in order."""
        self._check_objective(objective)
        steps: list[Step] = []
        best: float | None = None
        pick = max if self.directions[objective] == "max" else min
        for one in self.candidates:
            if self.normalised and one.normalised is None:
                continue
            value = self.values(one)[objective]
            best = value if best is None else pick(best, value)
            steps.append(Step(one, value, best))
        return steps

    def record(self, evaluation: Evaluation) -> dict[str, Any]:
        """One evaluation as results give it; `metadata["evaluation"]` says how it was done."""
        return {
            "params": evaluation.params,
            "score": self._shown(evaluation.scores),
            "norm_score": self._shown(evaluation.normalised),
            "generation": evaluation.generation,
            "metadata": _export.metadata(evaluation),
        }

    def __len__(self) -> int:
        return len(self.evaluations)

    def __iter__(self) -> Iterator[Evaluation]:
        return iter(self.evaluations)

    def __repr__(self) -> str:
        best = self._shown(self.values(self.ranked[0])) if self.ranked else None
        return f"SearchResult({len(self)} evaluations, {len(self.failed)} failed, best {best})"

    def _shown(self, scores: tuple[float, ...] | None) -> float | tuple[float, ...] | None:
        return scores[0] if scores is not None and self.num_objectives == 1 else scores

    def _check_objective(self, objective: int) -> None:
        if not 0 <= objective < self.num_objectives:
            raise UsageError(
                f"objective {objective} is not there; they count from 0 to {self.num_objectives - 1}"
            )

    def _by_front(self, compared: list[Evaluation]) -> list[Evaluation]:
        costs = [self.costs(one) for one in compared]
        ranked: list[Evaluation] = []
        for places in _pareto.fronts(costs):
            far = _distances([costs[place] for place in places])
            order = sorted(range(len(places)), key=far.__getitem__)
            ranked += [compared[places[index]] for index in order]
        return ranked

    def _why_empty(self) -> str:
        if not self.evaluations:
            return "the search has no evaluation yet"
        causes = ", ".join(f"{count} {kind}" for kind, count in self.failures.items()) or "none failed"
        return (
            f"none of {len(self)} evaluations is a candidate with a score ({causes}); "
            "`diagnose` says what to do"
        )


def _directions(
    problem_type: ProblemType | Sequence[ProblemType], num_objectives: int
) -> tuple[ProblemType, ...]:
    if num_objectives < 1:
        raise UsageError(f"num_objectives is at least 1; got {num_objectives}")
    ways = (problem_type,) * num_objectives if isinstance(problem_type, str) else tuple(problem_type)
    if len(ways) != num_objectives or any(way not in ("min", "max") for way in ways):
        raise UsageError(
            f"problem_type is 'min' or 'max', or one of them for each of {num_objectives} objectives; "
            f"got {problem_type!r}"
        )
    return ways


def _distances(costs: Sequence[tuple[float, ...]]) -> list[float]:
    """How far each point is from the ideal corner, every objective scaled to its range."""
    lows = [min(column) for column in zip(*costs, strict=True)]
    spans = [(max(column) - min(column)) or 1.0 for column in zip(*costs, strict=True)]
    return [
        sum(((cost - low) / span) ** 2 for cost, low, span in zip(row, lows, spans, strict=True))
        for row in costs
    ]
