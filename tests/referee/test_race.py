"""How fast: planted kernels raced natively; what is clocked is judged as well."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from kernelwright.errors import UsageError
from kernelwright.ops import RmsNormSpec
from kernelwright.referee import _native_result
from kernelwright.referee import Comparison
from kernelwright.referee import confirm
from kernelwright.referee import Mode
from kernelwright.referee import NativeEntrant
from kernelwright.referee import NativeJudge
from kernelwright.referee import Patience
from kernelwright.referee import RaceResult
from kernelwright.referee import RefereeError
from kernelwright.referee import Regime
from kernelwright.referee import Status
from kernelwright.referee import time_native
from kernelwright.referee._child import KernelFailure
from kernelwright.referee._native_result import Ran
from kernelwright.referee._native_result import Rules
from kernelwright.referee._race import Race as RaceOfOne
from kernelwright.referee.contract._floor import Floor

pytestmark = pytest.mark.serial

Planted = Callable[[str], NativeEntrant]
Race = Callable[..., RaceResult]
_ATTEMPTS = 4
MODES = [(mode, regime) for mode in Mode for regime in Regime]


@pytest.fixture
def raced(judge: NativeJudge, planted: Planted, spec: RmsNormSpec, describe: Any) -> Race:
    def run(
        baseline: str,
        *names: str,
        sizes: tuple[int, int] = (1, 2048),
        decides: bool = False,
        **options: Any,
    ) -> RaceResult:
        """With `decides`, each contest has to have an answer."""
        options.setdefault("budget_s", 0.3)
        workload = spec.workload(*sizes, dtype=options.pop("dtype", torch.float32))
        entrants = [planted(name) for name in names]
        # On a busy machine a race may end without a comparison, which is right and not what is tested.
        for _ in range(_ATTEMPTS):
            result = judge.race(spec, workload, planted(baseline), entrants, describe=describe, **options)
            noisy = [one.reason for one in result.verdicts.values() if one.status is Status.NOISY]
            if decides:
                noisy += [
                    f"{name} is {one.ratio:.3g} times as fast, {one.interval}"
                    for name, one in result.contests.items()
                    if one.comparison is Comparison.AMBIGUOUS
                ]
            if not noisy:
                return result
        pytest.skip(f"the machine cannot time anything now: {noisy[0]}")

    return run


@pytest.mark.parametrize(("mode", "regime"), MODES)
def test_work_done_twice_is_slower(raced: Race, mode: Mode, regime: Regime) -> None:
    result = raced("honest_scalar", "honest_half_speed", decides=True, mode=mode, regime=regime)
    contest = result.contests["honest_half_speed"]
    assert contest.comparison is Comparison.SLOWER
    assert contest.interval[0] <= contest.ratio <= contest.interval[1] < 1.0
    assert (contest.mode, contest.regime, contest.workload) == (mode, regime, "1x2048:fp32")
    assert not result.verdicts


def test_a_kernel_is_not_faster_than_itself(
    judge: NativeJudge, planted: Planted, spec: RmsNormSpec, describe: Any
) -> None:
    one = planted("honest_scalar")
    twin = NativeEntrant("twin", one.library, one.symbol)
    # An interval misses what it is for now and then, by its level; not time and again.
    for _ in range(_ATTEMPTS):
        result = judge.race(spec, spec.workload(1, 2048), one, [twin], describe=describe, mode=Mode.WARM)
        contest = result.contests.get("twin")
        if contest is not None and contest.comparison in (Comparison.SAME, Comparison.AMBIGUOUS):
            break
    if contest is None:
        pytest.skip(f"the machine cannot time anything now: {result.verdicts['twin'].reason}")
    assert contest.comparison in (Comparison.SAME, Comparison.AMBIGUOUS)
    assert contest.ratio == pytest.approx(1.0, abs=0.1)


def test_baseline_and_entrant_can_change_places(raced: Race) -> None:
    there = raced("honest_scalar", "honest_half_speed", mode=Mode.WARM, decides=True)
    again = raced("honest_half_speed", "honest_scalar", mode=Mode.WARM, decides=True)
    forth, back = there.contests["honest_half_speed"], again.contests["honest_scalar"]
    assert back.comparison is Comparison.FASTER
    assert back.ratio == pytest.approx(1 / forth.ratio, rel=0.3)


@pytest.mark.parametrize(("mode", "regime"), MODES)
@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("skips_when_timed", Status.CHEATED, "is right when it is called once and nothing is timed"),
        ("remembers_pointers", Status.CHEATED, "the output of a timed call is wrong"),
        ("all_zeros", Status.WRONG, "the output of a timed call is wrong"),
        ("changes_input", Status.WRONG, "changed its input x in a timed call"),
        ("writes_outside", Status.WRONG, "wrote past the ends of its buffer out in a timed call"),
        ("crashes_when_timed", Status.CRASHED, "SIGABRT"),
    ],
)
def test_who_cheats_or_dies_on_the_clock_has_no_contest(
    raced: Race, name: str, status: Status, words: str, mode: Mode, regime: Regime
) -> None:
    result = raced("honest_scalar", name, "honest_half_speed", mode=mode, regime=regime)
    verdict = result.verdicts[name]
    assert (verdict.status, words in verdict.reason) == (status, True), verdict.reason
    assert set(result.contests) == {"honest_half_speed"}, "the others race on"


@pytest.mark.parametrize("mode", [Mode.COLD, Mode.WARM])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("memo_by_fingerprint", "the output of a timed call is wrong"),
        ("skips_every_other", "is right when it is called once and nothing is timed"),
        ("works_on_after_return", "left work running after the call returned"),
        ("never_stops_working", "left work running for a quarter of a second after its calls had returned"),
        ("burns_meanwhile", "went on working while others were timed"),
        ("patches_the_clock", "changed the code of libc"),
        ("defines_the_clock", "its library defines clock_gettime"),
        ("writes_its_own_times", "the child's clock saw"),
    ],
)
def test_who_deceives_the_clock_is_a_cheat_by_the_name_of_the_act(
    raced: Race, name: str, words: str, mode: Mode
) -> None:
    result = raced("honest_scalar", name, sizes=(4, 2048), mode=mode)
    verdict = result.verdicts[name]
    assert (verdict.status, words in verdict.reason) == (Status.CHEATED, True), verdict.reason


@pytest.mark.parametrize("mode", [Mode.COLD, Mode.WARM])
def test_no_call_meets_contents_that_an_earlier_one_met(raced: Race, mode: Mode) -> None:
    """A memory of all contents is never wrong; it never finds anything either."""
    contest = raced("honest_scalar", "memo_by_contents", sizes=(4, 2048), mode=mode).contests[
        "memo_by_contents"
    ]
    assert contest.ratio < 0.95


@pytest.mark.parametrize("name", ["honest_pool", "honest_openmp", "honest_workspace", "honest_lazy"])
def test_honest_threads_and_memory_are_no_offence(raced: Race, name: str) -> None:
    result = raced("honest_scalar", name, sizes=(16, 1024))
    assert not [one for one in result.verdicts.values() if one.status is not Status.NOISY]


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("closes_descriptors", Status.CRASHED, "closed its channel to the referee"),
        ("kills_its_group", Status.CRASHED, "SIGKILL"),
        ("exits", Status.CRASHED, "ended its process itself with exit code 0"),
    ],
)
def test_acts_against_its_process_in_a_race_end_the_entrant_alone(
    raced: Race, name: str, status: Status, words: str
) -> None:
    result = raced("honest_scalar", name, "honest_half_speed")
    verdict = result.verdicts[name]
    assert (verdict.status, words in verdict.reason) == (status, True), verdict.reason
    assert set(result.contests) == {"honest_half_speed"}


def test_a_time_below_the_floor_is_impossible(raced: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native_result, "find_floor", lambda *_, **__: Floor(6000.0, "moving 16 KiB"))
    # The baseline reads its rows twice; as if that alone were possible.
    result = raced("honest_half_speed", "honest_scalar", sizes=(4, 2048), mode=Mode.WARM)
    assert result.verdicts["honest_scalar"].status is Status.IMPOSSIBLE
    assert "moving 16 KiB takes at least 6 µs" in result.verdicts["honest_scalar"].reason


def test_an_endless_loop_is_given_up_and_the_others_race_on(
    planted: Planted, spec: RmsNormSpec, describe: Any
) -> None:
    with NativeJudge(patience=Patience(silent_s=1.5)) as judge:
        result = judge.race(
            spec,
            spec.workload(1, 256),
            planted("honest_scalar"),
            [planted("loops"), planted("honest_half_speed")],
            describe=describe,
            budget_s=0.2,
        )
    assert result.verdicts["loops"].status is Status.HUNG
    assert set(result.contests) == {"honest_half_speed"}


def test_a_kernel_that_refuses_is_unsupported(raced: Race) -> None:
    assert raced("honest_scalar", "refuses").verdicts["refuses"].status is Status.UNSUPPORTED


@pytest.mark.parametrize("baseline", ["crashes_when_timed", "refuses", "no_work"])
def test_with_a_broken_baseline_there_is_no_race(raced: Race, baseline: str) -> None:
    with pytest.raises(RefereeError, match=f"baseline {baseline}"):
        raced(baseline, "honest_scalar")


def test_conditions_tell_how_it_was_measured(raced: Race) -> None:
    conditions = (
        raced("honest_scalar", "honest_half_speed", sizes=(64, 1024)).contests["honest_half_speed"].conditions
    )
    for name in ("load_before", "steal", "threads", "affinity", "arena_bytes", "llc_bytes", "seed", "caches"):
        assert name in conditions
    assert conditions["judged_calls"] >= 2
    assert conditions["rounds"] >= 8
    assert conditions["flush_to_zero"] is False


def test_names_must_tell_entrants_apart(raced: Race) -> None:
    with pytest.raises(UsageError, match="names of their own"):
        raced("honest_scalar", "honest_openmp", "honest_openmp")


@pytest.mark.parametrize("sizes", [(0, 64), (1, 1), (3, 46)])
def test_tiny_workloads_can_be_raced(raced: Race, sizes: tuple[int, int]) -> None:
    result = raced("honest_scalar", "honest_openmp", sizes=sizes, budget_s=0.1)
    assert "honest_openmp" in result.contests


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_large_workloads_share_contents_and_are_judged(raced: Race, dtype: torch.dtype) -> None:
    result = raced("honest_openmp", "no_work", "honest_scalar", sizes=(2100, 2048), dtype=dtype, budget_s=0.1)
    assert result.verdicts["no_work"].status is Status.WRONG
    assert "honest_scalar" in result.contests


def test_confirmation_checks_and_races_in_every_mode_and_regime(
    planted: Planted, spec: RmsNormSpec, describe: Any
) -> None:
    for _ in range(3):
        verdict = confirm(
            spec,
            spec.workload(1, 2048),
            planted("honest_half_speed"),
            planted("honest_scalar"),
            describe=describe,
            budget_s=0.2,
        )
        if verdict.status is not Status.NOISY and all(one.ratio > 1.1 for one in verdict.contests):
            break
    if verdict.status is Status.NOISY:
        pytest.skip(f"the machine cannot time anything now: {verdict.reason}")
    assert verdict.status is Status.PASSED, verdict.reason
    assert [(contest.mode, contest.regime) for contest in verdict.contests] == MODES
    assert {contest.comparison for contest in verdict.contests} <= {Comparison.FASTER, Comparison.AMBIGUOUS}
    assert min(contest.ratio for contest in verdict.contests) > 1.1
    assert {contest.conditions["process_pairs"] for contest in verdict.contests} == {3}


@pytest.mark.parametrize(
    ("name", "status"), [("wrong_tail", Status.WRONG), ("crashes_when_timed", Status.CRASHED)]
)
def test_confirmation_of_a_wrong_kernel_has_no_times(
    planted: Planted, spec: RmsNormSpec, describe: Any, name: str, status: Status
) -> None:
    verdict = confirm(
        spec, spec.workload(1, 250), planted("honest_scalar"), planted(name), describe=describe, budget_s=0.1
    )
    assert verdict.status is status
    assert not verdict.contests


def test_a_single_kernel_can_be_timed(planted: Planted, spec: RmsNormSpec, describe: Any) -> None:
    entrant = planted("honest_scalar")
    arguments = spec.inputs(spec.workload(4, 1024), torch.Generator().manual_seed(0))

    def time(rows: int) -> float:
        part = {**arguments, "x": arguments["x"][:rows]}
        call = describe(part, torch.empty(rows, 1024))
        return time_native(entrant.library, entrant.symbol, call, budget_s=0.1).median_ns

    # The nearest of a few: what else the machine does is not what is tested.
    ratios = [time(4) / time(1) for _ in range(3)]
    assert min(ratios, key=lambda one: abs(one - 4)) == pytest.approx(4, rel=0.5)


def test_a_kernel_that_fails_cannot_be_timed(planted: Planted, spec: RmsNormSpec, describe: Any) -> None:
    entrant = planted("crashes")
    arguments = spec.inputs(spec.workload(1, 64), torch.Generator().manual_seed(0))
    with pytest.raises(RefereeError, match=re.escape("SIGSEGV")):
        time_native(entrant.library, entrant.symbol, describe(arguments, torch.empty(1, 64)))


@pytest.fixture
def race_of_one(spec: RmsNormSpec) -> RaceOfOne:
    rules = Rules(Mode.WARM, Regime.PREALLOCATED, 0.1, 0, 0.01, 1, Patience())
    return RaceOfOne(
        SimpleNamespace(drop_baseline=lambda: None),  # type: ignore[arg-type]
        SimpleNamespace(workload=spec.workload(1, 64)),  # type: ignore[arg-type]
        rules,
    )


BASELINE, ENTRANT = (NativeEntrant(name, Path("k.so"), "kw") for name in ("default", "one"))


def failing(times: int, status: Status, run: int) -> Callable[..., Ran]:
    """An attempt that fails at first."""
    left = [KernelFailure(status, "died of SIGSEGV", {"run": run}) for _ in range(times)]

    def attempt(contestants: list[NativeEntrant]) -> Ran:
        if left:
            raise left.pop()
        return Ran({one.name: np.ones(3) for one in contestants}, {})

    return attempt


def test_a_baseline_that_fails_in_company_once_has_another_try(
    race_of_one: RaceOfOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race_of_one, "_attempt", failing(1, Status.CRASHED, 0))
    monkeypatch.setattr(race_of_one, "_alone", lambda entrant: None)
    assert set(race_of_one.times(BASELINE, [ENTRANT]).columns) == {"default", "one"}


def test_a_baseline_that_fails_again_ends_the_race(
    race_of_one: RaceOfOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race_of_one, "_attempt", failing(2, Status.CRASHED, 0))
    monkeypatch.setattr(race_of_one, "_alone", lambda entrant: None)
    with pytest.raises(RefereeError, match="baseline default died of SIGSEGV"):
        race_of_one.times(BASELINE, [ENTRANT])


@pytest.mark.parametrize(
    ("failures", "status", "alone", "expected"),
    [
        (1, Status.HUNG, None, None),
        (2, Status.HUNG, None, Status.NOISY),
        (2, Status.CRASHED, None, Status.CRASHED),
        (1, Status.CRASHED, Status.CRASHED, Status.CRASHED),
        (1, Status.HUNG, Status.HUNG, Status.HUNG),
    ],
)
def test_a_death_in_company_is_looked_into_alone(
    race_of_one: RaceOfOne,
    monkeypatch: pytest.MonkeyPatch,
    failures: int,
    status: Status,
    alone: Status | None,
    expected: Status | None,
) -> None:
    found = None if alone is None else KernelFailure(alone, "died of SIGSEGV", {})
    monkeypatch.setattr(race_of_one, "_attempt", failing(failures, status, 1))
    monkeypatch.setattr(race_of_one, "_alone", lambda entrant: found)
    verdicts = race_of_one.times(BASELINE, [ENTRANT]).verdicts
    assert (verdicts["one"].status if verdicts else None) == expected
