"""What a search found is judged again, from nothing; a win is what is left of it then."""

from __future__ import annotations

import importlib.util
import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelwright.controls import BaselineFailedError
from kernelwright.controls import Candidate
from kernelwright.controls import choose_finalists
from kernelwright.controls import Finalist
from kernelwright.controls import GccSearchSpace
from kernelwright.controls import judge_in_rounds
from kernelwright.controls import judge_together
from kernelwright.controls import minimize_controls
from kernelwright.controls import NativeTarget
from kernelwright.controls import validate_target
from kernelwright.controls import Validation
from kernelwright.controls import ValidationError
from kernelwright.errors import FileFormatError
from kernelwright.errors import NoScoreError
from kernelwright.errors import UsageError
from kernelwright.referee import Comparison
from kernelwright.referee import Status
from kernelwright.search import Evaluation
from kernelwright.search import Failure
from kernelwright.search import SearchResult

_spec = importlib.util.spec_from_file_location("toy_target", Path(__file__).with_name("toy_target.py"))
assert _spec is not None
assert _spec.loader is not None
toy = importlib.util.module_from_spec(_spec)
sys.modules["toy_target"] = toy
_spec.loader.exec_module(toy)

FASTER, SAME, AMBIGUOUS = Comparison.FASTER, Comparison.SAME, Comparison.AMBIGUOUS


def candidates(**configs: Any) -> list[Candidate]:
    return [Candidate(name, config, number) for number, (name, config) in enumerate(configs.items(), 1)]


ALL = candidates(
    fast=toy.options("-funroll-loops"),
    twin=toy.options("-funroll-loops", "-fipa-pta"),
    idle=toy.options("-fipa-pta"),
    wrong=toy.options(toy.WRONG),
    crash=toy.options(toy.BROKEN),
)


def by_name(found: Validation) -> dict[str, Finalist]:
    return {one.name: one for one in found.finalists}


def test_finalists_are_judged_once_a_binary_against_no_controls(tmp_path: Path) -> None:
    target = toy.Judged(tmp_path)
    found = validate_target(target, ALL)
    said = {name: (one.status, one.comparison, one.shares) for name, one in by_name(found).items()}
    assert said == {
        "fast": (Status.PASSED, FASTER, None),
        "twin": (Status.PASSED, FASTER, "fast"),
        "idle": (Status.PASSED, SAME, "baseline"),
        "wrong": (Status.WRONG, None, None),
        "crash": (Status.BUILD_FAILED, None, None),
    }
    assert target.judged == ["-funroll-loops", toy.WRONG]
    assert by_name(found)["crash"].reason.startswith("compiler_crashed: internal compiler error")
    assert found.winner is not None
    assert (found.winner.name, found.winner.number) == ("fast", 1)
    assert found.winner.ratio == pytest.approx(1.25)
    assert found.sentence.startswith("fast is better than no controls: 1.250 × [1.238, 1.262], of 5")
    assert found.provenance == target.provenance()


def test_what_breaks_the_result_never_wins(tmp_path: Path) -> None:
    found = validate_target(toy.Judged(tmp_path), [ALL[3]])
    assert found.winner is None
    assert found.sentence == "no improvement: none of 1 finalist is proven better than no controls"


def test_all_is_built_where_nothing_was_built_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "mine"))
    target = toy.Judged(tmp_path)
    validate_target(target, ALL[:1])
    validate_target(target, ALL[:1])
    first, second = target.caches[0], target.caches[-1]
    assert len({*target.caches}) == 2
    assert str(tmp_path / "mine") not in target.caches
    assert not Path(first).exists()
    assert not Path(second).exists()
    assert os.environ["KERNELWRIGHT_CACHE"] == str(tmp_path / "mine")


def test_many_finalists_are_held_to_one_level(tmp_path: Path) -> None:
    """Alone it is proven; as one of six chances it is not (Holm)."""
    narrow = toy.Judged(tmp_path, half_width=0.15)
    alone = validate_target(narrow, ALL[:1])
    assert by_name(alone)["fast"].comparison is FASTER
    chances = {f"c{place}": [{"unroll": place}, None] for place in (1, 2)}
    several = toy.Judged(tmp_path, half_width=0.15, parameters=True)
    names = ["-funroll-loops", "-ftree-vectorize", "-fgcse"]
    mixes = [pair for count in (1, 2) for pair in itertools.combinations(names, count)]
    chances |= {"+".join(mix): [{}, toy.options(*mix)] for mix in mixes}
    together = by_name(validate_target(several, candidates(**chances)))
    assert together["-funroll-loops"].comparison is AMBIGUOUS
    assert together["-funroll-loops"].p is not None
    assert together["-funroll-loops"].p > 0.05


def test_a_target_that_measures_itself_is_measured_in_fresh_processes(tmp_path: Path) -> None:
    found = by_name(validate_target(toy.Toy(tmp_path), ALL, rounds=6))
    assert (found["fast"].comparison, found["fast"].ratio) == (FASTER, pytest.approx(1.25))
    assert (found["twin"].shares, found["twin"].comparison) == ("fast", FASTER)
    assert found["idle"].comparison is SAME
    assert (found["wrong"].status, found["wrong"].reason) == (Status.WRONG, "wrong: off by one")
    assert found["crash"].status is Status.BUILD_FAILED


def test_without_a_baseline_nothing_is_validated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise toy.BuildFailure("build_failed", "no")

    monkeypatch.setattr(toy.Judged, "build", broken)
    with pytest.raises(ValidationError, match="toy does not build without controls: no"):
        validate_target(toy.Judged(tmp_path), ALL)


def test_a_validation_is_kept_and_read(tmp_path: Path) -> None:
    found = validate_target(toy.Judged(tmp_path), ALL)
    path = found.save(tmp_path / "validation.json")
    assert Validation.load(path) == found
    path.write_text(path.read_text().replace('"finalists"', '"others"'))
    with pytest.raises(FileFormatError, match="no validation"):
        Validation.load(path)


# -- any objective -----------------------------------------------------------------------------------------


def in_rounds(evaluate: Callable[[Any], Any], count: int = 2, **options: Any) -> dict[str, Finalist]:
    chosen = [Candidate(str(number), number) for number in range(1, count + 1)]
    found, estimates = judge_in_rounds(evaluate, chosen, {}, **options)
    return {one.name: one for one in judge_together(found, estimates)}


def number_of(config: Any) -> int:
    return config if config != {} else 0


def noisy(sd: float, seed: int = 0) -> Callable[[Any], tuple[float]]:
    draw = toy.random.Random(seed)
    return lambda config: ((10.0 - number_of(config)) * draw.gauss(1.0, sd),)


def test_an_objective_is_evaluated_in_turns_with_the_baseline() -> None:
    asked: list[Any] = []

    def objective(config: Any) -> tuple[float]:
        asked.append(config)
        return noisy(0.01, len(asked))(config)

    found = in_rounds(objective, rounds=8)
    assert len(asked) == 24
    assert all({*map(number_of, asked[start : start + 3])} == {0, 1, 2} for start in range(0, 24, 3))
    assert len({tuple(map(number_of, asked[start : start + 3])) for start in range(0, 24, 3)}) > 1
    assert found["2"].comparison is FASTER
    assert found["2"].ratio == pytest.approx(1.25, rel=0.02)


def test_no_better_is_an_answer() -> None:
    draw = toy.random.Random(3)
    found = in_rounds(lambda _: (draw.gauss(1.0, 0.002),), rounds=12)
    assert {one.comparison for one in found.values()} <= {SAME, AMBIGUOUS}
    exact = in_rounds(lambda _: (1.0,))
    assert {(one.comparison, one.ratio, one.interval) for one in exact.values()} == {(SAME, 1.0, (1.0, 1.0))}


def test_what_answers_always_the_same_is_asked_three_times() -> None:
    asked: list[Any] = []
    found = in_rounds(lambda config: (asked.append(config) or 10.0 - number_of(config),), count=1)
    assert (found["1"].comparison, found["1"].ratio) == (FASTER, pytest.approx(10 / 9))
    assert len(asked) == 6


def test_where_more_is_better_the_ratio_says_so() -> None:
    found = in_rounds(lambda config: (0.0, 10.0 + number_of(config)), direction="max", objective=1)
    assert found["2"].ratio == pytest.approx(1.2)
    assert in_rounds(lambda config: (10.0 + number_of(config),))["2"].comparison is Comparison.SLOWER


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("timeout", Status.HUNG),
        ("raised", Status.CRASHED),
        ("out_of_memory", Status.OUT_OF_MEMORY),
        ("build_failed", Status.BUILD_FAILED),
        ("invalid_score", Status.WRONG),
        ("skipped", Status.UNSUPPORTED),
        ("wrong", Status.WRONG),
        ("something of a plugin", Status.CRASHED),
    ],
)
def test_who_fails_once_has_a_status_of_the_referee(kind: str, status: Status) -> None:
    asked: list[Any] = []

    def objective(config: Any) -> Any:
        asked.append(config)
        failed = config == 2 and asked.count(2) == 2
        return Failure(kind, "so") if failed else noisy(0.01, len(asked))(config)

    found = in_rounds(objective, rounds=6)
    assert (found["2"].status, found["2"].comparison, found["2"].reason) == (status, None, f"{kind}: so")
    assert found["1"].comparison is FASTER
    assert asked.count(2) == 2


def test_what_cannot_be_compared_is_said() -> None:
    jumping = itertools.cycle([1.0, 1.0, 2.0, 0.5, 3.0])
    found = in_rounds(lambda _: (next(jumping),), rounds=20)
    assert {one.status for one in found.values()} == {Status.NOISY}
    negative = in_rounds(lambda config: (1.0 - number_of(config),))
    assert negative["1"].status is Status.UNSUPPORTED
    assert "have no ratio" in negative["1"].reason
    with pytest.raises(BaselineFailedError, match="no score for the baseline: raised x"):
        in_rounds(lambda config: Failure("raised", "x") if config == {} else (1.0,))
    with pytest.raises(UsageError, match="6 rounds are needed at least; got 5"):
        in_rounds(lambda _: (1.0,), rounds=5)


def evaluation(number: int, identity: str, *scores: float) -> Evaluation:
    features = {"features": {"identity": identity}}
    return Evaluation(number, {}, f"config {number}", scores or None, metadata=features)


def test_finalists_are_the_best_of_distinct_binaries() -> None:
    result = SearchResult([evaluation(1, "a", 3.0), evaluation(2, "b", 1.0), evaluation(3, "b", 1.1)])
    assert [one.name for one in choose_finalists(result, top=2)] == ["#2", "#1"]
    two = SearchResult(
        [evaluation(1, "a", 3.0, 1.0), evaluation(2, "b", 1.0, 3.0), evaluation(3, "c", 4.0, 4.0)],
        num_objectives=2,
    )
    assert [one.name for one in choose_finalists(two, pareto=True)] == ["#2", "#1"]
    with pytest.raises(NoScoreError):
        choose_finalists(SearchResult([evaluation(1, "a")]))


# -- the fewest options ------------------------------------------------------------------------------------


def test_only_the_options_that_make_the_win_are_left(tmp_path: Path) -> None:
    idle = ["-fipa-pta", "-fweb", "-ftracer"]
    config = [{"unroll": 2}, toy.options("-funroll-loops", "-ftree-vectorize", *idle)]
    found = minimize_controls(toy.Toy(tmp_path, parameters=True), config)
    assert found.settings == {"-funroll-loops": True}
    assert set(found.inert) == {*idle}
    assert set(found.dropped) == {"-ftree-vectorize", "unroll"}
    assert found.config == [{}, toy.options("-funroll-loops")]
    assert (found.won, found.share, found.complete) == (True, 1.0, True)
    assert found.win == pytest.approx(2e-4)
    assert found.binaries < found.builds


def test_two_that_both_help_both_stay(tmp_path: Path) -> None:
    config = toy.options("-funroll-loops", "-fgcse", "-fweb")
    found = minimize_controls(toy.Toy(tmp_path), config)
    assert found.config == toy.options("-funroll-loops", "-fgcse")
    assert (found.inert, found.dropped, found.share) == (("-fweb",), (), None)


def test_where_nothing_in_the_binary_changed_there_is_no_win(tmp_path: Path) -> None:
    found = minimize_controls(toy.Toy(tmp_path), toy.options("-fweb", "-ftracer"))
    assert (found.won, found.config, found.evaluations) == (False, {}, 0)
    assert set(found.inert) == {"-fweb", "-ftracer"}


def test_a_vendors_file_is_kept_or_dropped_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opaque = b"\x00vendor".hex()
    plain = toy.Toy.build
    fast = toy.options("-funroll-loops")
    monkeypatch.setattr(
        toy.Toy, "build", lambda self, config: plain(self, fast if config == opaque else config)
    )
    found = minimize_controls(toy.Toy(tmp_path), opaque)
    assert (found.won, found.config) == (True, opaque)


@pytest.mark.serial
def test_a_kernel_of_ours_is_judged_by_the_referee() -> None:
    """The lowest level is never taken for better; the same binary is the same without a race."""
    target = NativeTarget("silu_and_mul", "64x1024", GccSearchSpace(params=False))
    found = by_name(
        validate_target(
            target,
            candidates(slow=[{}, toy.options("-O0")], same=[{}, toy.options("-O3")]),
            budget_s=0.3,
            processes=2,
        )
    )
    target.close()
    assert (found["same"].comparison, found["same"].shares) == (SAME, "baseline")
    assert found["slow"].status in (Status.PASSED, Status.NOISY)
    assert found["slow"].comparison in (Comparison.SLOWER, AMBIGUOUS, None)
