"""One run as it goes: what is asked next, and what follows from each answer. Stored first, then acted on."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kernelwright.errors import BaselineError
from kernelwright.errors import UsageError
from kernelwright.search._baseline import normalise
from kernelwright.search._baseline import usable
from kernelwright.search._configuration import SearchConfiguration
from kernelwright.search._evaluation import Evaluation
from kernelwright.search._optimizer import Failure
from kernelwright.search._optimizer import Optimizer
from kernelwright.search._results_cache import ResultsCache
from kernelwright.search._store import read_evaluations
from kernelwright.search._store import Record
from kernelwright.search._store import Store
from kernelwright.space import Configuration
from kernelwright.space import key
from kernelwright.space import SearchSpace

#: After so many evaluations it is known how long one takes.
_TIMED = 8


class Course:
    """The state of a run: a function of what its store holds, so that any process can go on with it.

    Args:
        setup: derived for the space.
        optimizer: fresh, or as a user hands it over.
    """

    def __init__(
        self,
        store: Store,
        run_id: str,
        space: SearchSpace,
        setup: SearchConfiguration,
        optimizer: Optimizer,
        *,
        cache: ResultsCache | None = None,
    ) -> None:
        self.store = store
        self.run_id = run_id
        self.space = space
        self.setup = setup
        self.cache = cache
        self.closed = False
        self.finished = False
        self.begun_at = time.time()
        self.told: list[Evaluation] = []
        #: Evaluations told, those of the baseline that nobody proposed left out.
        self.count = 0
        self.open: dict[int, Evaluation] = {}
        self.listeners: list[Callable[[Evaluation], None]] = []
        self.exhausted = False
        self._optimizer = optimizer
        self._earlier_s = 0.0
        self._sat_down_at = time.monotonic()
        self._heard: set[str] = set()
        self._baselines: list[Evaluation] = []
        self._unlearned: list[Evaluation] = []
        self._again: deque[Evaluation] = deque()
        self._attempts: dict[int, int] = {}
        self._asked = 0
        self._numbers = 0
        self._since_baseline: int | None = None
        nothing = dict.fromkeys(space.space.parameters)
        #: The point that is the baseline itself, where the space has it.
        self._nothing = nothing if space.space.contains(nothing) else None
        self.follows_baseline = setup.normalize or self._nothing is not None

    # -- asking --------------------------------------------------------------------------------------------

    def next(self) -> Evaluation | None:
        """What to evaluate now, stored as asked; None when nothing is left, or not before more is told."""
        while True:
            evaluation = self._again.popleft() if self._again else self._propose()
            if evaluation is None:
                return None
            attempt = self._attempts.get(evaluation.number, 0) + 1
            self.store.asked(self.run_id, evaluation, attempt=attempt)
            self._note_asked(evaluation)
            known = None if self.cache is None or evaluation.baseline else self.cache.find(evaluation)
            if known is None:
                return evaluation
            self.tell(known)

    def attempt(self, number: int) -> int:
        """How often this evaluation was asked."""
        return self._attempts[number]

    def note(self, configuration: Configuration, config: Any) -> Evaluation:
        """Enter an evaluation that somebody else chose, as asked."""
        baseline = isinstance(config, Mapping) and not config
        if not baseline and key(configuration) in self._heard:
            raise UsageError(f"the result of {config!r} was told before")
        evaluation = Evaluation(self._numbers + 1, configuration, config, origin="told", baseline=baseline)
        self.store.asked(self.run_id, evaluation)
        self._note_asked(evaluation)
        return evaluation

    def requeue(self) -> None:
        """Ask again for all that was asked and not told."""
        waiting = {one.number for one in self._again}
        self._again.extend(one for one in self.open.values() if one.number not in waiting)

    def find(self, configuration: Configuration, *, baseline: bool) -> Evaluation | None:
        """What was asked, and not told, with this configuration."""
        for one in self.open.values():
            if one.baseline == baseline and (baseline or key(one.configuration) == key(configuration)):
                return one
        return None

    @property
    def spent_s(self) -> float:
        """Seconds of all sittings."""
        return self._earlier_s + time.monotonic() - self._sat_down_at

    @property
    def left(self) -> int | None:
        """Evaluations that may still be asked; None where no number limits them."""
        most = self.setup.max_evaluations
        return None if most is None else max(most - self._asked, 0)

    def _propose(self) -> Evaluation | None:
        if self._wants_baseline():
            return Evaluation(
                self._numbers + 1, dict(self._nothing or {}), {}, origin="baseline", baseline=True
            )
        if self.left == 0 or self.exhausted:
            return None
        proposals = self._optimizer.ask(1)
        if not proposals:
            self.exhausted = not self.open
            return None
        (proposal,) = proposals
        config = self.space.config(proposal.configuration)
        return Evaluation(
            self._numbers + 1,
            proposal.configuration,
            config,
            origin=proposal.origin,
            baseline=isinstance(config, dict) and not config,
        )

    def _wants_baseline(self) -> bool:
        if not self.follows_baseline or any(one.baseline for one in self.open.values()):
            return False
        if self._since_baseline is None:
            return True
        assert self.setup.baseline_every is not None
        return self._since_baseline >= self.setup.baseline_every and self.left != 0

    def _note_asked(self, evaluation: Evaluation) -> None:
        number = evaluation.number
        if number not in self.open and evaluation.origin != "baseline":
            self._asked += 1
        if evaluation.baseline:
            self._since_baseline = 0
            if self._nothing is not None:
                self._optimizer.withhold(self._nothing)
        self.open[number] = evaluation
        self._numbers = max(self._numbers, number)
        self._attempts[number] = self._attempts.get(number, 0) + 1

    # -- telling -------------------------------------------------------------------------------------------

    def tell(self, evaluation: Evaluation) -> Evaluation:
        """Store what came of an evaluation that was asked, then learn from it.

        Raises UsageError when it was not asked or was told before; BaselineError when scores are to be
        divided by the baseline's and its first has none.
        """
        if evaluation.number not in self.open:
            raise UsageError(f"evaluation {evaluation.number} was never asked, or its result was told before")
        assert self.setup.pool_size is not None
        evaluation = replace(evaluation, generation=self.count // self.setup.pool_size)
        self.store.told(self.run_id, evaluation)
        evaluation = self._absorb(evaluation)
        if self.cache is not None and not evaluation.baseline:
            self.cache.keep(self.run_id, evaluation)
        for listener in self.listeners:
            listener(evaluation)
        if evaluation.baseline and self.setup.normalize and not self._baselines:
            raise BaselineError(evaluation, _no_baseline(evaluation))
        return evaluation

    def _absorb(self, evaluation: Evaluation) -> Evaluation:
        """Learn from what is stored. What follows from it depends on the order of the records alone."""
        del self.open[evaluation.number]
        if evaluation.origin != "baseline" and self._since_baseline is not None:
            self._since_baseline += 1
        if evaluation.baseline and evaluation.scores is not None and usable(evaluation.scores):
            self._baselines.append(evaluation)
        if self.setup.normalize and evaluation.scores is not None and self._baselines:
            evaluation = normalise([*self._baselines, evaluation])[-1]
        self.told.append(evaluation)
        self.count += evaluation.origin != "baseline"
        if self.setup.max_evaluations is None and self.count == _TIMED:
            self._expect()
        if self.setup.normalize and not self._baselines:
            self._unlearned.append(evaluation)
        else:
            for one in [*self._unlearned, evaluation]:
                self._learn(one)
            self._unlearned.clear()
        return evaluation

    def _expect(self) -> None:
        """Where time alone limits the search, say what an evaluation takes, if the optimiser asks."""
        expect = getattr(self._optimizer, "expect", None)
        if expect is not None:
            began = sorted(one.started_at for one in self.told)
            expect((began[-1] - began[0]) / (len(began) - 1))

    def _learn(self, evaluation: Evaluation) -> None:
        configuration = evaluation.configuration
        if evaluation.baseline:
            # The first baseline is the result of the point that leaves everything out; later ones repeat it.
            if self._nothing is None or key(self._nothing) in self._heard:
                return
            configuration = self._nothing
        self._heard.add(key(configuration))
        scores = evaluation.scores
        if self.setup.normalize and scores is not None:
            scores = normalise([*self._baselines, evaluation])[-1].normalised
        if scores is None:
            self._optimizer.tell(configuration, evaluation.failure or Failure("raised", "no score"))
            return
        costs = tuple(
            -score if way == "max" else score
            for score, way in zip(scores, self.setup.directions, strict=True)
        )
        self._optimizer.tell(configuration, costs if len(costs) > 1 else costs[0])

    # -- another sitting -----------------------------------------------------------------------------------

    def replay(self, records: Sequence[Record], *, asking: bool) -> bool:
        """Bring a fresh course to where the store says that it was.

        With `asking`, the optimiser is asked again, in the order of the store; False where it does not answer
        the same, because it depends on more than its seed and what it is told, or is of another release: then
        this course is of no more use. Without, it is told what was asked and what came of it.
        """
        self._earlier_s = _sat(records)
        evaluations, pending = read_evaluations(records)
        ended = {one.number: one for one in evaluations}
        asked = {one.number: one for one in [*evaluations, *pending]}
        for record in records:
            if record.kind == "told":
                self._absorb(ended[record.body["number"]])
            elif record.kind == "asked":
                evaluation = asked[record.body["number"]]
                evaluation = replace(evaluation, scores=None, failure=None)
                if evaluation.number not in self.open and evaluation.origin not in ("baseline", "told"):
                    if asking:
                        proposals = self._optimizer.ask(1)
                        if [key(one.configuration) for one in proposals] != [key(evaluation.configuration)]:
                            return False
                    else:
                        self._optimizer.withhold(evaluation.configuration)
                self._note_asked(evaluation)
        self._again.extend(self.open.values())
        return True

    def results(self) -> list[Evaluation]:
        """All that was told, in order, with scores against the baselines around them."""
        return normalise(self.told) if self.setup.normalize else list(self.told)

    def end(self, reason: str, *, finished: bool) -> None:
        """The sitting is over."""
        self.finished = finished
        self.store.ended(self.run_id, reason, finished=finished)

    def close(self) -> None:
        """Let go of the store; another process may go on."""
        self.closed = True
        self.store.close()
        if self.cache is not None:
            self.cache.close()


def _sat(records: Sequence[Record]) -> float:
    """Seconds of all sittings: each from its first record to its last."""
    spent, began, last = 0.0, None, 0.0
    for record in records:
        if began is None or record.kind == "resumed":
            spent += 0.0 if began is None else last - began
            began = record.at
        last = record.at
    return spent if began is None else spent + last - began


def _no_baseline(evaluation: Evaluation) -> str:
    if evaluation.failure is not None:
        what = f"failed ({evaluation.failure.kind}: {evaluation.failure.reason})"
    else:
        what = f"scored {evaluation.scores}, and only numbers above zero can be divided by"
    return (
        f"normalize=True divides scores by those of the baseline, and the baseline {what}; let the objective "
        "measure without any option when it gets {} (BASELINE_CONFIG), or search with normalize=False"
    )
