"""From times to a contest or a verdict; pairs of processes are scripted, their times made up."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.files import as_plain
from kernelwright.machine import Ceiling
from kernelwright.machine import Ceilings
from kernelwright.referee import Comparison
from kernelwright.referee import Contest
from kernelwright.referee import Mode
from kernelwright.referee import Regime
from kernelwright.referee import Status
from kernelwright.referee import Verdict
from kernelwright.referee.contract import _bench
from kernelwright.referee.contract import _confirm
from kernelwright.referee.contract._bench import bench_contract
from kernelwright.referee.contract._confirm import Contenders
from kernelwright.referee.contract._confirm import contest
from kernelwright.referee.contract._race import Found
from kernelwright.referee.contract._race import Ground
from kernelwright.referee.contract._race import Paces
from kernelwright.referee.contract._race import PairFacts
from kernelwright.referee.contract._rounds import Plan
from kernelwright.referee.contract._rounds import Series

X = torch.arange(8.0)


class Reference:
    """Doubles its input; refuses what is not sorted when told to."""

    def __init__(self, *, fussy: bool = False) -> None:
        self.fussy = fussy
        self.seeds: list[int] = []
        self.contract = SimpleNamespace(workloads=("default",), shares=False)

    def make(self, call: dict[str, Any]) -> Any:
        self.seeds.append(call["seed"])
        return self._made([X + call["seed"] % 7])

    def answer(self, workload: str, trees: Any, tensors: Any) -> Any:
        if self.fussy and bool((tensors[0].diff() < 0).any()):
            return _confirm.Refusal("not sorted")
        return self._made(list(tensors))

    def _made(self, tensors: list[torch.Tensor]) -> Any:
        rule = SimpleNamespace(peer=2 * tensors[0], expected=2 * tensors[0])
        expected = SimpleNamespace(leaves=(SimpleNamespace(rule=rule),), nbytes=32, shares_input=False)
        return SimpleNamespace(arguments=({"t": "tensor"},), tensors=tuple(tensors), expected=expected)


FACTS = SimpleNamespace(name="default", seconds=0.001, nbytes=64, mutated=())


class Script:
    """Plays the pairs: in process `n` the candidate is `ratios[n]` times as fast, all blocks with `noise`;
    the baseline's second block takes `bias` times its first."""

    def __init__(
        self, *ratios: float, noise: float = 0.002, bias: float = 1.0, rounds: int = 12, start_s: float = 0.01
    ) -> None:
        self.ratios, self.noise, self.bias, self.rounds = ratios, noise, bias, rounds
        self.start_s = start_s
        self.grounds: list[Ground] = []
        self.known: list[Paces | None] = []
        self.plans: list[Plan] = []
        self.base_ns = 1e6

    def __call__(self, ground: Ground, draws: Any, seed: int, *, paces: Paces | None) -> Script:
        self.grounds.append(ground)
        self.known.append(paces)
        self.paces = Paces((1e6, 1e6), float(len(self.known)))
        self.facts = PairFacts(started_s=self.start_s, warmups=60, clock={"caches": "as they were"})
        return self

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def start(self) -> tuple[float, float]:
        return 0.01, 0.01

    def run(self, series: Series, process: int, plan: Plan, *, budget_s: float) -> None:
        self.plans.append(plan)
        random = np.random.default_rng(process)
        for _ in range(self.rounds):
            a, b, c = self.base_ns * np.exp(self.noise * random.standard_normal(3))
            series.add(process, a, c / self.ratios[min(process, len(self.ratios) - 1)], b * self.bias)
        self.facts.rounds = self.rounds


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Contest | Verdict]:
    def play(script: Script, *, reference: Reference | None = None, **options: Any) -> Contest | Verdict:
        monkeypatch.setattr(_confirm, "Pair", script)

        def nobody() -> Any:
            raise AssertionError("a process was started")

        usual: dict[str, Any] = {"mode": Mode.WARM, "threads": 1, "seed": 5}
        try:
            return contest(
                Contenders("baseline.py", "my.kernel", nobody, nobody),
                reference or Reference(),  # type: ignore[arg-type]
                FACTS,  # type: ignore[arg-type]
                **{**usual, **options},
            )
        except Found as found:
            return found.verdict

    return play


Play = Callable[..., Any]


def test_a_contest_says_who_was_compared_and_how(play: Play) -> None:
    found = play(Script(2.0))
    assert (found.candidate, found.baseline, found.workload) == ("my.kernel", "baseline.py", "default")
    assert (found.mode, found.regime) == (Mode.WARM, Regime.ALLOCATING)
    assert found.comparison is Comparison.FASTER
    assert found.ratio == pytest.approx(2.0, rel=0.01)
    assert found.interval[0] <= found.ratio <= found.interval[1]
    assert found.blocks == 36
    facts = found.conditions
    assert facts["processes"] == 3
    assert len(facts["ratios"]) == 3
    assert facts["ended"] == "3 processes agree"
    assert facts["caches"] == "as they were"
    assert as_plain(facts) == facts


def test_processes_that_disagree_leave_it_open_and_more_are_run(play: Play) -> None:
    found = play(Script(1.04, 1.07, 1.12, 1.02, 0.8))
    assert found.comparison is Comparison.AMBIGUOUS
    assert found.conditions["processes"] == 5


def test_what_one_pair_found_out_the_next_one_knows(play: Play) -> None:
    script = Script(1.5)
    play(script)
    assert [known and known.overhead_ns for known in script.known] == [None, 1.0, 2.0]


def test_clearly_slower_takes_one_process(play: Play) -> None:
    found = play(Script(0.5))
    assert found.comparison is Comparison.SLOWER
    assert found.conditions["processes"] == 1


def test_equal_times_are_the_same(play: Play) -> None:
    assert play(Script(1.0, noise=0.001)).comparison is Comparison.SAME


def test_a_baseline_that_differs_from_itself_is_noise_and_no_comparison(play: Play) -> None:
    found = play(Script(1.03, bias=1.05))
    assert found.status is Status.NOISY
    assert found.reason.startswith("workload default, warm: the baseline differs from itself: ratio 0.95")
    assert found.evidence["conditions"]["baseline_against_itself"]["ratio"] == pytest.approx(0.952, abs=0.01)


def test_each_pair_runs_on_inputs_of_its_own(play: Play) -> None:
    reference = Reference()
    play(Script(2.0), reference=reference)
    assert len(set(reference.seeds)) == len(reference.seeds) >= 3 * 4


def test_single_elements_are_left_alone_where_the_reference_does_not_take_that(play: Play) -> None:
    assert play(Script(2.0)).conditions["single_changes"] is True
    script = Script(2.0)
    assert play(script, reference=Reference(fussy=True)).conditions["single_changes"] is False
    assert not any(ground.single for ground in script.grounds)


def test_slow_starts_mean_fewer_processes_which_is_said(play: Play) -> None:
    found = play(Script(2.0, start_s=25.0), left_s=20.0)
    assert found.conditions["processes"] == 1
    assert found.conditions["left_out"].startswith("1 of 3 processes: starting takes 25 s")


def test_the_older_gate_decides_where_it_is_asked_to(play: Play) -> None:
    script = Script(2.0, rounds=34)
    found = play(script, gate="welch")
    assert found.comparison is Comparison.FASTER
    assert found.conditions["gate"] == {"name": "welch", "not_held": []}
    assert script.grounds[0].rule.least == 34
    assert script.grounds[0].rule.warmups == 50
    # A clear loss takes one process, but that gate has no answer to fewer trials than it asks for.
    assert play(Script(0.5, rounds=34), gate="welch").comparison is Comparison.SLOWER
    few = play(Script(2.0, rounds=10), gate="welch")
    assert few.comparison is Comparison.AMBIGUOUS
    assert "30 trials; 100 are asked for" in few.conditions["gate"]["not_held"]


def rates(value: float) -> tuple[Ceilings, str]:
    entries = [Ceiling("copy", value, value, value, "B/s", 1, "baseline", "", level="L1")]
    return Ceilings("here", tuple(entries)), "made up"


def test_less_time_than_moving_the_data_takes_is_impossible(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 64 bytes at this rate take 0.75 ms with the margin; the candidate takes 0.5.
    monkeypatch.setattr(_confirm, "ceilings_here", lambda: rates(64 / 1.5e-3))
    found = play(Script(2.0))
    assert found.status is Status.IMPOSSIBLE
    assert "a call took" in found.reason
    assert found.evidence["floor"]["ceilings"] == "made up"


def test_a_baseline_that_is_below_the_floor_itself_shows_that_there_is_none(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_confirm, "ceilings_here", lambda: rates(64 / 6e-3))
    found = play(Script(2.0))
    assert found.comparison is Comparison.FASTER
    assert found.conditions["floor"]["floor_ns"] is None


def test_nobody_gets_no_processes(play: Play) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        play(Script(1.0), processes=0)


class Judge:
    """A judge whose check says what it is told to."""

    def __init__(self, status: Status = Status.PASSED) -> None:
        self.reference = SimpleNamespace(
            contract=SimpleNamespace(workloads=("small", "large")),
            describe=lambda name, seeds: replace_name(name),
        )
        self.budget_s = 60.0
        self.threads = 1
        self.draw = SimpleNamespace(getrandbits=lambda bits: 7)
        self.status = status

    def check(self, *, budget_s: float | None = None) -> Verdict:
        return Verdict(self.status, "as told", evidence={"cases": 3})


def replace_name(name: str) -> Any:
    return SimpleNamespace(**{**vars(FACTS), "name": name})


class TestBench:
    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Mode, float]]:
        asked: list[tuple[str, Mode, float]] = []
        template = Contest(
            "k", "b", "w", Mode.WARM, Regime.ALLOCATING, Comparison.SAME, 1.0, (1.0, 1.0), None, None, 5
        )  # type: ignore[arg-type]

        def compare(contenders: Any, reference: Any, facts: Any, **options: Any) -> Contest:
            asked.append((facts.name, options["mode"], options["left_s"]))
            return replace(template, workload=facts.name, mode=options["mode"])

        monkeypatch.setattr(_confirm, "contest", compare)
        monkeypatch.setattr(_bench, "contenders_of", lambda judge: None)
        return asked

    def test_every_workload_is_raced_in_every_mode_within_the_time_there_is(self, asked: list[Any]) -> None:
        found = bench_contract(Judge(), ["warm", "cold"], budget_s=40.0)  # type: ignore[arg-type]
        assert found.status is Status.PASSED
        assert found.evidence == {"cases": 3}
        assert [one[:2] for one in asked] == [
            (name, mode) for name in ("small", "large") for mode in (Mode.WARM, Mode.COLD)
        ]
        assert asked[0][2] == pytest.approx(10.0, abs=0.5)
        assert len(found.contests) == 4

    def test_nothing_is_raced_that_is_not_right(self, asked: list[Any]) -> None:
        found = bench_contract(Judge(Status.WRONG))  # type: ignore[arg-type]
        assert (found.status, found.contests, asked) == (Status.WRONG, (), [])

    def test_a_verdict_instead_of_a_contest_keeps_what_the_check_saw(
        self, asked: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: Any, **__: Any) -> Contest:
            raise Found(Verdict(Status.NOISY, "too noisy", evidence={"ratio": 1.0}))

        monkeypatch.setattr(_confirm, "contest", refuse)
        found = bench_contract(Judge())  # type: ignore[arg-type]
        assert (found.status, found.evidence) == (Status.NOISY, {"cases": 3, "ratio": 1.0})

    def test_bad_words_are_refused_before_anything_runs(self, asked: list[Any]) -> None:
        with pytest.raises(UnknownNameError, match="did you mean 'warm'"):
            bench_contract(Judge(), ["wram"])  # type: ignore[arg-type]
        with pytest.raises(UnknownNameError, match="welch"):
            bench_contract(Judge(), gate="welsh")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="at least one mode"):
            bench_contract(Judge(), [])  # type: ignore[arg-type]
        assert not asked


def test_ratios_are_finite_or_said_not_to_be_known(play: Play) -> None:
    found = play(Script(2.0, rounds=2), processes=1)
    assert found.comparison is Comparison.AMBIGUOUS
    assert found.interval == (0.0, math.inf)
