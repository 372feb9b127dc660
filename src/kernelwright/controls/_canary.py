"""The canary: proof that controls reach compiler, binary and clock, before any budget is spent."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kernelwright.controls._objective import ControlsObjective
from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.controls._provider import Level
from kernelwright.controls._target import Artifact
from kernelwright.controls._target import Target
from kernelwright.errors import KernelwrightError
from kernelwright.search import remedy
from kernelwright.search import Search
from kernelwright.search import StageFailure

#: The lowest level is slower by more than this, and the highest as fast as the baseline within it.
EFFECT = 1.05
#: Tools whose baseline is their highest level, as ptxas's is -O3.
_HIGHEST_IS_BASELINE = frozenset({"ptxas", "nvcc", "triton", "cutile"})
#: Samples that may fail, because a configuration is wrong or does not build, before the objective is blamed.
_SAMPLES = 4
#: Calls of a plain objective for each score, and tries of a measurement that is lost in noise.
_REPEATS = 3


class CanaryError(KernelwrightError):
    """The canary died: what would be searched does not follow its controls. `report` says at which stage."""

    def __init__(self, report: CanaryReport) -> None:
        self.report = report
        failed = report.failed
        assert failed is not None
        super().__init__(
            f"{report.target}: the search does not start, because the canary failed at the stage "
            f"{failed.name!r}: {failed.said}"
        )


@dataclass(frozen=True)
class CanaryStage:
    """One thing that was tried; `passed` is None where it was left out, for the reason said."""

    name: str
    passed: bool | None
    said: str
    seconds: float = 0.0


@dataclass(frozen=True)
class CanaryReport:
    """What the canary tried, in order; after a stage that failed nothing more was."""

    target: str
    stages: tuple[CanaryStage, ...]

    @property
    def failed(self) -> CanaryStage | None:
        """The stage that lost the option, if one did."""
        return next((stage for stage in self.stages if stage.passed is False), None)

    @property
    def passed(self) -> bool:
        """Whether controls arrive."""
        return self.failed is None

    def check(self) -> CanaryReport:
        """This report. Raises CanaryError where a stage failed."""
        if not self.passed:
            raise CanaryError(self)
        return self

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        stages = [
            {"name": one.name, "passed": one.passed, "said": one.said, "seconds": round(one.seconds, 3)}
            for one in self.stages
        ]
        return {"target": self.target, "passed": self.passed, "stages": stages}


class _Lost(Exception):
    """Ends the canary at its stage, with what to do."""


class _LeftOut(Exception):
    """A stage that cannot be tried here."""


def canary(target: Target, *, measure: bool = True, constraints: Iterable[str] = ()) -> CanaryReport:
    """Whether controls reach what is timed.

    `baseline`: the target builds with no controls. `controls`: the baseline's own level, given explicitly,
    gives the very same code. `build`: the lowest level gives other code, and building it changes nothing of
    what was built before. `cache`: built again, each gives again what it gave. `measure`: the lowest level is
    slower by more than 5%. `highest`: for ptxas and its like, the highest level is as fast as the baseline
    within 5%. `sample`: a random configuration goes through the whole objective and has a legal score.

    Args:
        target: what is to be searched.
        measure: False where nothing can be timed here: the canary then judges by the binaries alone.
        constraints: those of the search: they must let the baseline through.

    """
    return _run(target.name, _target_stages(target, measure, tuple(constraints)))


def canary_of_objective(
    objective: Callable[[Any], Any], search_space: Any, provider: CompilerSearchSpace, *, name: str = ""
) -> CanaryReport:
    """The same for an objective that shows nothing but its scores, lower being better.

    `baseline`: `{}` has a legal score. `measure`: the lowest level is slower by more than 5%. `cache`: `{}`
    has the first score again, after another configuration was measured. `highest` and `sample` as in
    `canary`. Each score is the median of three calls, taken in turns. In a list, other spaces get the default
    of their parameters.
    """
    search = Search(objective, search_space)
    said = name or getattr(objective, "__name__", type(objective).__name__)
    return _run(said, _objective_stages(objective, search, provider))


_Stage = tuple[str, Callable[[], str]]


def _run(target: str, stages: Iterable[_Stage]) -> CanaryReport:
    found: list[CanaryStage] = []
    for name, attempt in stages:
        began = time.monotonic()
        passed: bool | None = True
        try:
            said = attempt()
        except _Lost as error:
            passed, said = False, str(error)
        except _LeftOut as error:
            passed, said = None, str(error)
        except StageFailure as error:
            passed, said = False, f"{error.failure_kind}: {error}"
            if error.failure_kind == "noisy":
                said += "; nothing is known of the controls yet: try again when the machine is quiet"
        found.append(CanaryStage(name, passed, said, time.monotonic() - began))
        if passed is False:
            break
    return CanaryReport(target, tuple(found))


# -- of a target -------------------------------------------------------------------------------------------


def _target_stages(target: Target, measure: bool, constraints: tuple[str, ...]) -> list[_Stage]:
    provider = target.provider
    objective = ControlsObjective(target, constraints=constraints)
    built: dict[str, Artifact] = {}
    contents: dict[str, bytes] = {}

    def make(what: str) -> Artifact:
        config = {} if what == "no controls" else _config(target, _level(provider, what))
        return target.build(config)

    def baseline() -> str:
        built["no controls"] = made = make("no controls")
        contents["no controls"] = made.path.read_bytes()
        try:
            objective.features(made)
        except StageFailure as error:
            raise _Lost(f"the baseline itself is shut out: {error}; loosen the constraint") from error
        return f"built without controls, code {made.code_key[:12]}"

    def explicit() -> str:
        made = built["baseline"] = make("baseline")
        words = " ".join(provider.levels["baseline"])
        if made.code_key != built["no controls"].code_key:
            raise _Lost(
                f"the baseline's own level, {words}, given explicitly makes other code "
                f"({made.code_key[:12]}) than no controls ({built['no controls'].code_key[:12]}): "
                "that is not what the target is compiled with, or its options come in another order; name "
                "the right level to the provider"
            )
        return f"{words} makes the same code as no controls"

    def lowest() -> str:
        made = built["lowest"] = make("lowest")
        words = " ".join(provider.levels["lowest"])
        if made.code_key == built["no controls"].code_key:
            raise _Lost(
                f"{words} makes the same code as no controls: the option is lost on its way to "
                f"{provider.tool}, or what was built before is served again; give each build a fresh cache, "
                "or a key that includes the controls"
            )
        return f"{words} makes other code, {made.code_key[:12]}"

    def cache() -> str:
        first = built["no controls"]
        if first.path.read_bytes() != contents["no controls"]:
            raise _Lost(
                f"building the lowest level overwrote {first.path}, where the baseline was: give each "
                "configuration a path of its own"
            )
        for what in ("no controls", "lowest"):
            again = make(what)
            if again.code_key != built[what].code_key:
                raise _Lost(
                    f"built again with {what}, the code is another ({again.code_key[:12]}, before "
                    f"{built[what].code_key[:12]}): a stale cache, or a build that does not repeat itself; "
                    "then no verdict can be shared"
                )
        return "built again, both are what they were"

    seconds: dict[str, float] = {}

    def slower() -> str:
        if not measure:
            raise _LeftOut("nothing is timed here: binaries alone were compared")
        seconds["no controls"] = _timed(target, built["no controls"])
        seconds["lowest"] = _timed(target, built["lowest"])
        return _slower(seconds["lowest"], seconds["no controls"], " ".join(provider.levels["lowest"]))

    def highest() -> str:
        made = make("highest")
        words = " ".join(provider.levels["highest"])
        if made.code_key == built["no controls"].code_key:
            return f"{words} makes the same code as no controls"
        if provider.tool not in _HIGHEST_IS_BASELINE:
            raise _LeftOut(f"{words} is not the baseline of {provider.tool}: it may be faster or slower")
        if not measure:
            raise _LeftOut(f"{words} makes other code than no controls, and nothing is timed here")
        return _close(_timed(target, made), seconds["no controls"], words)

    def sample() -> str:
        return _sample(objective, Search(objective, objective.search_space), measure)

    return [
        ("baseline", baseline),
        ("controls", explicit),
        ("build", lowest),
        ("cache", cache),
        ("measure", slower),
        ("highest", highest),
        ("sample", sample),
    ]


def _timed(target: Target, artifact: Artifact) -> float:
    """Its seconds; noise, which says nothing of the controls, is given other chances."""
    for _ in range(_REPEATS - 1):
        try:
            return target.measure(artifact)
        except StageFailure as error:
            if error.failure_kind != "noisy":
                raise
    return target.measure(artifact)


def _level(provider: CompilerSearchSpace, name: str) -> str:
    levels: dict[str, Level] = {"lowest": "lowest", "baseline": "baseline", "highest": "highest"}
    return provider.level(levels[name])


def _config(target: Target, controls: str) -> Any:
    """Controls beside the default of the target's parameters."""
    return controls if target.parameters is None else [dict(target.parameters.default), controls]


def _sample(objective: ControlsObjective, search: Search, measure: bool) -> str:
    failures = []
    for _ in range(_SAMPLES):
        (config,) = search.sample(1)
        try:
            artifact = objective.build(config)
            objective.features(artifact)
            if not measure:
                return f"a random configuration was built, code {artifact.code_key[:12]}"
            return f"a random configuration scored {_legal(objective.measure(artifact)):.6g}"
        except StageFailure as error:
            failures.append(f"{error.failure_kind}: {error}"[:300])
    raise _Lost(f"none of {_SAMPLES} random configurations has a score; the last ended as {failures[-1]}")


# -- of any objective --------------------------------------------------------------------------------------


def _objective_stages(
    objective: Callable[[Any], Any], search: Search, provider: CompilerSearchSpace
) -> list[_Stage]:
    mixed = search.search_space.providers.keys() != {""}
    scores: dict[str, float] = {}

    def config(level: Level) -> Any:
        hexed = provider.level(level)
        if not mixed:
            return hexed
        made = search.search_space.config(search.search_space.space.default)
        parts = list(made) if isinstance(made, list) else []
        for where, one in search.search_space.providers.items():
            parts[int(where)] = hexed if one is provider else None
        return parts

    def score(given: Any) -> float:
        return statistics.median(_legal(_called(objective, given)) for _ in range(_REPEATS))

    def baseline() -> str:
        scores["baseline"] = score({})
        return f"{{}} scores {scores['baseline']:.6g}"

    def slower() -> str:
        scores["lowest"] = score(config("lowest"))
        return _slower(scores["lowest"], scores["baseline"], " ".join(provider.levels["lowest"]))

    def cache() -> str:
        again = score({})
        if again > math.sqrt(scores["lowest"] * scores["baseline"]):
            raise _Lost(
                f"{{}} scored {scores['baseline']:.6g}, and {again:.6g} after the lowest level was measured: "
                "what was built before is served again; give each build a fresh cache and a fresh path"
            )
        return f"{{}} scores {again:.6g} again"

    def highest() -> str:
        words = " ".join(provider.levels["highest"])
        if provider.tool not in _HIGHEST_IS_BASELINE:
            raise _LeftOut(f"{words} is not the baseline of {provider.tool}: it may be faster or slower")
        return _close(score(config("highest")), scores["baseline"], words)

    def sample() -> str:
        for _ in range(_SAMPLES):
            (drawn,) = search.sample(1)
            value = _called(objective, drawn)
            if value != math.inf:  # INVALID_SCORE: of this configuration, perhaps rightly
                return f"a random configuration scored {_legal(value):.6g}"
        raise _Lost(f"none of {_SAMPLES} random configurations has a score")

    return [
        ("baseline", baseline),
        ("measure", slower),
        ("cache", cache),
        ("highest", highest),
        ("sample", sample),
    ]


def _called(objective: Callable[[Any], Any], config: Any) -> Any:
    """What an objective returns. Raises _Lost, with what to do about it, for what it raises."""
    try:
        return objective(config)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise _Lost(
            f"the objective raised {reason[:300]}, for {repr(config)[:80]}: "
            f"{remedy('raised', reason, config)}"
        ) from error


def _legal(value: Any) -> float:
    """A score as a number. Raises _Lost for what is none."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:
        raise _Lost(
            f"the objective returned {value!r:.80}, which is no time: return seconds, or INVALID_SCORE where "
            "a configuration fails; the baseline and the levels must have a score"
        )
    return float(value)


def _slower(lowest: float, baseline: float, words: str) -> str:
    ratio = _legal(lowest) / _legal(baseline)
    if not ratio > EFFECT:
        raise _Lost(
            f"{words} takes {ratio:.3f} of the baseline's time, and should be slower by more than 5%: "
            "what is timed is not what was built (a stale binary, or one that was loaded before), or the "
            "objective leaves its controls unused"
        )
    return f"{words} takes {ratio:.2f} of the baseline's time"


def _close(highest: float, baseline: float, words: str) -> str:
    ratio = _legal(highest) / _legal(baseline)
    if not 1 / EFFECT < ratio < EFFECT:
        raise _Lost(
            f"{words} takes {ratio:.3f} of the baseline's time, and should be within 5% of it: something "
            "besides the level changes with the controls, or times are too noisy to search by"
        )
    return f"{words} takes {ratio:.3f} of the baseline's time"
