"""A search: an objective, a space, and how to look for the best point of it."""

from __future__ import annotations

import copy
import inspect
import logging
import random
import sys
import time
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from kernelwright import settings
from kernelwright.errors import RunMismatchError
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.search import _task
from kernelwright.search._configuration import SearchConfiguration
from kernelwright.search._course import Course
from kernelwright.search._drive import drive
from kernelwright.search._drive import End
from kernelwright.search._evaluation import Evaluation
from kernelwright.search._interrupt import Interrupts
from kernelwright.search._iso import IsoMultiProcessWorker
from kernelwright.search._optimizer import Failure
from kernelwright.search._optimizer import Optimizer
from kernelwright.search._optimizers import make_optimizer
from kernelwright.search._progress import Progress
from kernelwright.search._result import SearchResult
from kernelwright.search._results_cache import objective_hash
from kernelwright.search._results_cache import ResultsCache
from kernelwright.search._store import new_run_id
from kernelwright.search._store import RunInfo
from kernelwright.search._store import Store
from kernelwright.search._tracker import Guarded
from kernelwright.search._tracker import make_tracker
from kernelwright.search._worker import Worker
from kernelwright.space import SearchSpace

_log = logging.getLogger(__name__)
#: How long a new sitting waits for the processes of one that was killed to let go of the store.
_RELEASE_S = 10.0


class Search:
    """Look for the configuration of a space that an objective scores best.

    Every question and every answer is in the store before anything follows from it, so that a run can be
    resumed after Ctrl-C, an error or kill -9, losing at most the evaluations in flight.

    Args:
        objective_function: gets a configuration, as the space gives it, and returns one score, a tuple of
            `num_objectives`, or INVALID_SCORE. What its `describe()` returns, where it has one, is kept in
            the store as `target`: from that it can be made again.
        search_space: what `SearchSpace` takes: a dict of parameters, a provider, a list of both, a Space.
        search_config: defaults derived from the space where None.
        worker_type: a Worker class, or a function that takes the same arguments.
        tracker_config: what `make_tracker` takes.
        dump_results: a file for the results, written when the search ends; `.csv` or `.jsonl`.
        cache_folder: where results are kept for other runs: the same configuration of the same source and
            space is not evaluated again, and the evaluation's metadata say from which run it was `cached`.
        disable_progress_bar: no progress, also at a terminal.
        exit_on_failure: raise EvaluationFailedError at the first failed evaluation.
        debug: show what the objective writes, as it does.
        store: the file that keeps the run, beside others; else `journal.sqlite` in a folder of its own under
            KERNELWRIGHT_RUNS (`./runs`).
        source: the file that defines the objective and the space, for `kernelwright search resume`; else that
            of the objective's module.

    Raises SpaceError and UsageError for what makes no sense.
    """

    def __init__(
        self,
        objective_function: Callable[[Any], Any],
        search_space: Any,
        search_config: SearchConfiguration | None = None,
        worker_type: Callable[..., Worker] = IsoMultiProcessWorker,
        tracker_config: Any = None,
        dump_results: Path | str | None = None,
        cache_folder: Path | str | None = None,
        disable_progress_bar: bool = False,
        exit_on_failure: bool = False,
        debug: bool = False,
        *,
        store: Path | str | None = None,
        source: Path | str | None = None,
    ) -> None:
        if not callable(objective_function):
            raise UsageError(f"the objective is a function of a configuration, not {objective_function!r}")
        if search_config is not None and not isinstance(search_config, SearchConfiguration):
            raise UsageError(f"search_config is a SearchConfiguration, not {search_config!r}")
        self.objective_function = objective_function
        self.search_space = (
            search_space if isinstance(search_space, SearchSpace) else SearchSpace(search_space)
        )
        self.search_config = (search_config or SearchConfiguration()).derived(self.search_space.space)
        self.worker_type = worker_type
        self.exit_on_failure = exit_on_failure
        self.debug = debug
        self.dump_results = None if dump_results is None else Path(dump_results)
        self.disable_progress_bar = disable_progress_bar
        self._tracker = Guarded(make_tracker(tracker_config))
        self._cache_folder = None if cache_folder is None else Path(cache_folder)
        self._objective_hash = None if cache_folder is None else objective_hash(objective_function)
        self._store = None if store is None else Path(store)
        self._source = source
        self._samples = random.Random(f"{self.search_config.seed}/samples")
        self._course: Course | None = None

    # -- the run -------------------------------------------------------------------------------------------

    @property
    def run(self) -> str | None:
        """The id of the run that this search is at; None before it began one."""
        return None if self._course is None else self._course.run_id

    @property
    def store(self) -> Path | None:
        """The file that keeps the run; None before one was chosen."""
        return self._store if self._course is None else self._course.store.path

    @property
    def result(self) -> SearchResult:
        """What was found so far."""
        course = self._course
        return SearchResult(
            [] if course is None else course.results(),
            num_objectives=self.search_config.num_objectives,
            problem_type=self.search_config.problem_type,
            normalize=self.search_config.normalize,
            info=None if course is None else self._info(course),
        )

    def start(self, num_workers: int = 1, task_timeout: float | None = None) -> SearchResult:
        """Search until the budget is spent, the space is exhausted or the time is over; what was found.

        Goes on with the run that `resume`, `ask` or an interrupted `start` left; else begins one. Ctrl-C ends
        it in good order: the result so far is returned, and the run can be resumed.

        Args:
            num_workers: evaluations at a time.
            task_timeout: seconds after which an evaluation is ended, a Failure of kind `timeout`.

        Raises EvaluationFailedError with `exit_on_failure`; BaselineError when `normalize` has no baseline to
        go by; UsageError for numbers that make no sense.
        """
        _check_start(num_workers, task_timeout)
        course = self._begun()
        course.requeue()
        self._tracker.start(self._info(course))
        result: SearchResult | None = None
        try:
            end = self._drive(course, num_workers, task_timeout)
        except BaseException as error:
            course.end(f"{type(error).__name__}: {error}", finished=False)
            raise
        else:
            course.end(end.reason, finished=end.finished)
            result = self.result
        finally:
            self.close()
            self._dump(self.result)
            self._tracker.end(result)
        return result

    def sample(self, n: int = 1) -> list[Any]:
        """`n` random configurations as the objective would get them, to try it with. Nothing is stored."""
        _check_count(n)
        space = self.search_space
        return [space.config(space.space.sample(self._samples)) for _ in range(n)]

    def ask(self, n: int = 1) -> list[Any]:
        """Up to `n` configurations to evaluate next, as the objective would get them.

        Fewer when the budget or the space ends. Those that an earlier sitting left untold come first. Raises
        UsageError for an `n` below one.
        """
        _check_count(n)
        course = self._begun()
        asked: list[Any] = []
        while len(asked) < n and (evaluation := course.next()) is not None:
            asked.append(evaluation.params)
        return asked

    def tell(
        self,
        config: Any,
        outcome: float | tuple[float, ...] | Failure,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> Evaluation:
        """Take what the objective returned for a configuration, asked or not; the evaluation as stored.

        Raises SpaceError or UnknownNameError for a configuration outside the space, UsageError for one that
        was told before.
        """
        course = self._begun()
        baseline = isinstance(config, Mapping) and not config
        configuration = {} if baseline else self.search_space.flat(config)
        evaluation = course.find(configuration, baseline=baseline) or course.note(configuration, config)
        told = replace(evaluation, started_at=time.time(), metadata=dict(metadata or {}))
        if isinstance(outcome, Failure):
            return course.tell(replace(told, failure=outcome))
        scores, failure = _task.judge(outcome, self.search_config.num_objectives)
        if scores is None:
            return course.tell(replace(told, failure=Failure(*(failure or ("invalid_score", "no score")))))
        return course.tell(replace(told, scores=tuple(scores)))

    def resume(self, run: str | Path) -> Search:
        """Go on with a run, by its id, its folder or its store (then the latest run in it); this search.

        `Search(…).resume(run).start()` evaluates first what was in flight when it was left, and repeats
        nothing that finished. The budget is that of this search's configuration, so that it can be enlarged.

        Raises UnknownNameError or FileNotFoundError for a run that is not there, JournalBusyError while
        another process is at it, RunMismatchError when it was begun with another space, number or direction
        of objectives, or normalisation.
        """
        if self._course is not None:
            raise UsageError(f"this search is at run {self._course.run_id}; resume with another Search")
        path, name = self._locate(run)
        self._course = self._resumed(path, name)
        return self

    def close(self) -> None:
        """Let go of the store; what was found stays at hand. Another `start` begins another run."""
        if self._course is not None:
            self._course.close()

    def __enter__(self) -> Search:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- within --------------------------------------------------------------------------------------------

    def _begun(self) -> Course:
        course = self._course
        if course is not None and course.closed and not course.finished:
            course = self._resumed(course.store.path, course.run_id)
        elif course is None or course.closed:
            course = self._new()
        self._course = course
        return course

    def _new(self) -> Course:
        name = new_run_id()
        path = self._store or settings.runs_dir() / name / "journal.sqlite"
        optimizer = self._optimizer()  # before anything is stored: its options may be wrong
        store = Store(path, create=True)
        try:
            space = {"fingerprint": self.search_space.fingerprint, **self.search_space.describe()}
            store.begin(RunInfo(name, time.time(), self._settings(), space))
            return self._followed(Course(store, name, self.search_space, self.search_config, optimizer))
        except BaseException:
            store.close()
            raise

    def _resumed(self, path: Path, name: str | None) -> Course:
        store = Store(path, wait_s=_RELEASE_S)
        try:
            kept = store.read(name)
            self._check_same(kept.info)
            for asking in (True, False):
                course = Course(store, kept.info.id, self.search_space, self.search_config, self._optimizer())
                if course.replay(kept.records, asking=asking):
                    break
                _log.info("run %s: the optimiser does not repeat itself; it is told what happened", name)
            store.resumed(kept.info.id)
            return self._followed(course)
        except BaseException:
            store.close()
            raise

    def _followed(self, course: Course) -> Course:
        if self._cache_folder is not None and self._objective_hash is not None:
            fingerprint = self.search_space.fingerprint
            course.cache = ResultsCache(self._cache_folder, self._objective_hash, fingerprint)
        course.listeners.append(self._tracker.evaluation)
        return course

    def _optimizer(self) -> Optimizer:
        setup = self.search_config
        optimizer = setup.optimizer
        if isinstance(optimizer, Optimizer):
            if optimizer.space.parameters.keys() != self.search_space.space.parameters.keys():
                raise UsageError(
                    f"this {type(optimizer).__name__} was made for another space; give the class, or make it "
                    "with `SearchSpace(…).space`"
                )
            # A copy, with the space that is searched: the user's stays as it is, for another sitting.
            optimizer = copy.deepcopy(optimizer, {id(optimizer.space): self.search_space.space})
        return make_optimizer(
            optimizer,
            self.search_space.space,
            seed=setup.seed,
            objectives=setup.num_objectives,
            **_generations(setup),
            **setup.optimizer_options,
        )

    def _drive(self, course: Course, num_workers: int, task_timeout: float | None) -> End:
        more: dict[str, Any] = {}
        if course.follows_baseline and "baselines" in inspect.signature(self.worker_type).parameters:
            more["baselines"] = True  # each device's own
        worker = self.worker_type(
            self.objective_function,
            num_workers=num_workers,
            task_timeout=task_timeout,
            num_objectives=self.search_config.num_objectives,
            debug=self.debug,
            **more,
        )
        most = self.search_config.max_time
        progress = Progress(
            self.search_config.max_evaluations,
            done=course.count,
            directions=self.search_config.directions,
            normalised=self.search_config.normalize,
            disabled=self.disable_progress_bar,
        )
        course.listeners.append(progress.evaluation)
        with Interrupts() as interrupts, progress, worker:
            return drive(
                course,
                worker,
                time_left=None if most is None else most - course.spent_s,
                exit_on_failure=self.exit_on_failure,
                stopped=lambda: interrupts.heard,
            )

    def _info(self, course: Course) -> RunInfo:
        return RunInfo(course.run_id, course.begun_at, self._settings(), None, course.finished)

    def _settings(self) -> dict[str, Any]:
        objective = self.objective_function
        name = getattr(objective, "__qualname__", type(objective).__qualname__)
        module = sys.modules.get(getattr(objective, "__module__", None) or "")
        file = self._source or getattr(module, "__file__", None)
        kept = None if file is None else str(Path(file).absolute())
        describe = getattr(objective, "describe", None)
        target = {"target": describe()} if callable(describe) and not isinstance(objective, type) else {}
        return {**self.search_config.to_json(), "objective": name, "objective_file": kept, **target}

    def _locate(self, run: str | Path) -> tuple[Path, str | None]:
        if self._store is not None and not Path(run).is_file():
            return self._store, str(run)
        if Path(run).is_dir():
            return Path(run) / "journal.sqlite", None
        if isinstance(run, Path) or Path(run).is_file():
            return Path(run), None
        path = settings.runs_dir() / run / "journal.sqlite"
        if not path.exists():
            known = [one.parent.name for one in settings.runs_dir().glob("*/journal.sqlite")]
            raise UnknownNameError("run", run, known)
        return path, None

    def _check_same(self, info: RunInfo) -> None:
        mine = {**self._settings(), "space": self.search_space.fingerprint}
        theirs = {**info.settings, "space": (info.space or {}).get("fingerprint")}
        for name in ("space", "num_objectives", "problem_type", "normalize"):
            if mine[name] != theirs.get(name):
                raise RunMismatchError(
                    f"run {info.id} was begun with {name} {theirs.get(name)!r}, and this search has "
                    f"{mine[name]!r}; resume it with what it was begun with, or start another run"
                )
        if mine["objective"] != theirs.get("objective"):
            _log.warning("run %s was begun with the objective %s", info.id, theirs.get("objective"))

    def _dump(self, result: SearchResult) -> None:
        if self.dump_results is None:
            return
        if self.dump_results.suffix == ".jsonl":
            result.to_jsonl(self.dump_results)
        else:
            result.to_csv(self.dump_results)


def _check_start(num_workers: Any, task_timeout: Any) -> None:
    if isinstance(num_workers, bool) or not isinstance(num_workers, int) or num_workers < 1:
        raise UsageError(f"num_workers is a whole number of at least 1, not {num_workers!r}")
    if task_timeout is not None and (
        isinstance(task_timeout, bool) or not isinstance(task_timeout, int | float) or not task_timeout > 0
    ):
        raise UsageError(f"task_timeout is seconds, a number above zero, not {task_timeout!r}")


def _check_count(n: Any) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise UsageError(f"n is a whole number of at least 1, not {n!r}")


def _generations(setup: SearchConfiguration) -> dict[str, Any]:
    """Those of the settings of generations that the optimiser knows, and that its options do not say."""
    known: Any = {"genetic": ("pool_size", "cull_size", "mutate_rate"), "nsga2": ("pool_size", "mutate_rate")}
    if isinstance(setup.optimizer, str):
        names = known.get(setup.optimizer, ())
    elif isinstance(setup.optimizer, Optimizer):
        names = ()
    else:
        names = set(known["genetic"]) & set(inspect.signature(setup.optimizer).parameters)
    return {name: getattr(setup, name) for name in names if name not in setup.optimizer_options}
