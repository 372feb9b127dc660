"""Contests in real processes: what a candidate does only when it is timed is found out.

Nothing here hangs on how fast this machine is: candidates cheat, fail, or are faster by far.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelwright.process import Template
from kernelwright.referee import Comparison
from kernelwright.referee import Contest
from kernelwright.referee import Mode
from kernelwright.referee import RefereeError
from kernelwright.referee import Status
from kernelwright.referee import Verdict
from kernelwright.referee.contract._confirm import Contenders
from kernelwright.referee.contract._confirm import contest
from kernelwright.referee.contract._race import Found
from kernelwright.referee.contract._reference import Reference
from kernelwright.referee.contract._stage import Baseline
from kernelwright.referee.contract._stage import Candidate
from kernelwright.referee.contract._stage import Deadlines
from kernelwright.referee.contract._stage import Performer

DEADLINES = Deadlines(first_s=40.0, idle_s=6.0, call_s=40.0, batch_s=40.0)

SOFTMAX = """
import time
import torch

def get_inputs():
    return [torch.randn(8, 64)]

def get_reference_output(x):
    time.sleep(0.002)
    return torch.softmax(x, -1)
"""
IN_PLACE = """
import time
import torch

MUTATES = [0]

def get_inputs():
    return [torch.randn(8, 64), torch.rand(64)]

def get_reference_output(x, scale):
    time.sleep(0.002)
    return x.mul_(scale)
"""
HEAD = "import torch, time, threading, os\ncalls = [0]\n\ndef right(x):\n    return torch.softmax(x, -1)\n"
#: Calls that are right: the first one, and some of those that find out how long a call takes.
UNTIMED = 5


class Arena:
    """Candidates against a baseline: `run(source)` gives the contest, or the verdict instead of one."""

    def __init__(self, folder: Path, template: Template) -> None:
        self._folder = folder
        self._template = template
        self._number = 0

    def run(self, source: str, *, baseline: str = SOFTMAX, **options: Any) -> Contest | Verdict:
        self._number += 1
        folder = self._folder / str(self._number)
        (folder / "candidate").mkdir(parents=True)
        file = folder / "baseline.py"
        file.write_text(baseline)
        (folder / "candidate" / "__init__.py").write_text(HEAD + textwrap.dedent(source))
        opened = {
            "baseline": Baseline(file),
            "candidate": Candidate("candidate", "kernel", path=(folder,)),
        }

        def opener(name: str) -> Callable[[], Performer]:
            def start() -> Performer:
                performer = Performer(
                    opened[name],  # type: ignore[arg-type]
                    template=self._template,
                    deadlines=DEADLINES,
                    board_bytes=1 << 28,
                    keep_pages=True,
                )
                performer.load(threads=1)
                return performer

            return start

        contenders = Contenders("baseline.py", "candidate", opener("baseline"), opener("candidate"))
        usual: dict[str, Any] = {"mode": Mode.WARM, "processes": 1, "budget_s": 0.1, "threads": 1, "seed": 3}
        with Reference(file, template=self._template, board_bytes=1 << 28) as reference:
            facts = reference.describe(reference.contract.workloads[0], (1, 2))
            try:
                return contest(contenders, reference, facts, **{**usual, **options})
            except Found as found:
                return found.verdict

    def verdict(self, source: str, **options: Any) -> Verdict:
        found = self.run(source, **options)
        assert isinstance(found, Verdict), found.conditions
        return found

    def contest(self, source: str, **options: Any) -> Contest:
        found = self.run(source, **options)
        assert isinstance(found, Contest), found.reason
        return found


@pytest.fixture
def arena(tmp_path: Path, template: Template) -> Arena:
    return Arena(tmp_path, template)


@pytest.mark.serial
class TestContests:
    @pytest.mark.parametrize("mode", list(Mode))
    def test_an_honest_kernel_is_compared_with_all_that_was_seen(self, arena: Arena, mode: Mode) -> None:
        found = arena.contest("kernel = right", mode=mode, processes=2)
        assert found.comparison is Comparison.FASTER
        assert found.interval[0] > 5.0
        assert found.baseline_time.median_ns > 2_000_000
        facts = found.conditions
        assert facts["processes"] == len(facts["ratios"]) == len(facts["pairs"]) >= 2
        assert all(pair["judged_calls"] >= 1 for pair in facts["pairs"])
        assert {"load_before", "steal", "affinity", "mhz_before", "pressure", "missing"} <= set(facts)
        assert facts["clock"] == "the judge's, around whole blocks"
        assert ("caches" in facts["caches"]) == (mode is Mode.COLD)
        assert facts["overhead_ns"] > 1000
        assert facts["baseline_against_itself"]["rounds"] >= 8
        assert facts["floor"]["floor_ns"] < found.candidate_time.median_ns

    def test_one_that_is_clearly_slower_is_not_measured_for_long(self, arena: Arena) -> None:
        source = "def kernel(x):\n    time.sleep(0.02)\n    return right(x)"
        found = arena.contest(source, processes=3, budget_s=60.0)
        assert found.comparison is Comparison.SLOWER
        assert found.conditions["processes"] == 1
        assert found.conditions["ended"] == "clearly slower than the baseline"
        assert found.blocks < 20

    def test_calls_that_change_their_arguments_get_new_ones_each_time(self, arena: Arena) -> None:
        source = "def kernel(x, scale):\n    return x.mul_(scale)"
        found = arena.contest(source, baseline=IN_PLACE)
        assert found.comparison is Comparison.FASTER
        assert all(found.conditions["contents_distinct_in_a_block"])


class TestCheats:
    @pytest.mark.parametrize(
        ("name", "key"),
        [
            ("by place", "x.data_ptr()"),
            ("by some of the elements", "tuple(x.flatten()[::61].tolist())"),
            ("by shape", "tuple(x.shape)"),
        ],
    )
    def test_results_that_are_remembered_are_found(self, arena: Arena, name: str, key: str) -> None:
        source = f"""
            memory = {{}}

            def kernel(x):
                key = {key}
                if key not in memory:
                    memory[key] = right(x)
                return memory[key].clone()
            """
        found = arena.verdict(source)
        assert found.status is Status.CHEATED
        # What it was made for is recognised where the judge still knows those contents.
        assert "replay" in found.reason or "right when checked and wrong when timed" in found.reason

    @pytest.mark.parametrize(
        ("instead", "said"),
        [("torch.empty_like(x)", ""), ("torch.full_like(x, 0.25)", "0.25"), ("x.clone()", "x")],
    )
    def test_work_that_is_skipped_when_timed_is_found(self, arena: Arena, instead: str, said: str) -> None:
        source = f"""
            def kernel(x):
                calls[0] += 1
                return right(x) if calls[0] < {UNTIMED} or calls[0] % 4 == 0 else {instead}
            """
        found = arena.verdict(source)
        assert found.status is Status.CHEATED
        assert "wrong when timed" in found.reason
        assert said in found.reason

    def test_work_that_goes_on_after_the_last_call_is_found(self, arena: Arena) -> None:
        source = """
            def kernel(x):
                out = torch.zeros_like(x)
                calls[0] += 1
                if calls[0] < 20:
                    return out.copy_(right(x))

                def later():
                    time.sleep(0.05)
                    out.copy_(right(x))

                threading.Thread(target=later, daemon=True).start()
                return out
            """
        found = arena.verdict(source)
        assert found.status is Status.CHEATED
        assert "when timed" in found.reason

    @pytest.mark.serial
    def test_slowing_the_baseline_down_is_found(self, arena: Arena) -> None:
        source = """
            def kernel(x):
                if not calls[0] and not os.fork():
                    while True:
                        pass
                calls[0] += 1
                return right(x)
            """
        found = arena.verdict(source)
        assert found.status is Status.CHEATED
        assert "ms of processor time" in found.reason

    def test_a_clock_that_is_replaced_gains_nothing_and_is_an_act(self, arena: Arena) -> None:
        source = """
            def kernel(x):
                calls[0] += 1
                if calls[0] == 2:
                    time.perf_counter_ns = lambda: 0
                return right(x)
            """
        found = arena.verdict(source)
        assert found.status is Status.CHEATED
        assert "perf_counter_ns" in found.reason

    def test_time_that_cannot_be_is_impossible(self, arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
        from kernelwright.machine import Ceiling
        from kernelwright.machine import Ceilings
        from kernelwright.referee.contract import _confirm

        # To move all inputs and outputs takes 5 ms at such a rate, the output and a part of the inputs 0.4.
        slow = [
            Ceiling("read", 4e5, 4e5, 4e5, "B/s", 1, "baseline", "", level=level)
            for level in ("L1", "L2", "DRAM")
        ]
        monkeypatch.setattr(_confirm, "ceilings_here", lambda: (Ceilings("here", tuple(slow)), "made up"))
        baseline = SOFTMAX.replace("0.002", "0.02")
        source = "def kernel(x):\n    time.sleep(0.001)\n    return torch.softmax(x, -1)"
        found = arena.verdict(source, baseline=baseline)
        assert found.status is Status.IMPOSSIBLE
        assert "takes at least 4.48 ms here" in found.reason
        # Where a result hangs on a part of the inputs only, the rest need not be moved.
        part = ("softmax(x,", "softmax(x[:1],")
        arena.contest(source.replace(*part), baseline=baseline.replace(*part))


class TestFailures:
    def test_a_candidate_that_raises_when_timed_has_no_time(self, arena: Arena) -> None:
        source = """
            def kernel(x):
                calls[0] += 1
                if calls[0] > 30:
                    raise ValueError("no more")
                return right(x)
            """
        found = arena.verdict(source)
        assert found.status is Status.CRASHED
        assert "timed warm" in found.reason
        assert "no more" in found.reason

    def test_one_that_ends_its_process_is_said_to(self, arena: Arena) -> None:
        source = """
            def kernel(x):
                calls[0] += 1
                if calls[0] > 30:
                    os._exit(0)
                return right(x)
            """
        found = arena.verdict(source)
        assert found.status is Status.CRASHED
        assert "exit code 0" in found.reason

    def test_one_that_changes_its_input_is_wrong(self, arena: Arena) -> None:
        source = """
            def kernel(x):
                calls[0] += 1
                out = right(x)
                if calls[0] > 20:
                    x[0, 0] += 1.0
                return out
            """
        found = arena.verdict(source)
        assert found.status is Status.WRONG
        assert "changed its input x in a timed call" in found.reason

    def test_one_that_is_wrong_at_once_is_wrong_and_no_cheat(self, arena: Arena) -> None:
        found = arena.verdict("def kernel(x):\n    return torch.softmax(x, 0)")
        assert found.status is Status.WRONG

    def test_a_baseline_that_fails_is_the_harness_failing(self, arena: Arena) -> None:
        baseline = SOFTMAX.replace(
            "    time.sleep(0.002)", "    calls.append(1)\n    assert len(calls) < 100, 'worn out'"
        )
        with pytest.raises(RefereeError, match="worn out"):
            arena.run("kernel = right", baseline=baseline.replace("import time", "import time\ncalls = []"))
