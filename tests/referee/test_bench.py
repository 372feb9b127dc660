"""The Python-called bench: who is asked, how each is called, what is concluded."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import kernelwright as kw
from kernelwright import dispatch
from kernelwright.errors import BackendUnavailableError
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.files import as_plain
from kernelwright.process import ChildGarbled
from kernelwright.process import ChildTimeout
from kernelwright.process import End
from kernelwright.referee import _bench_runner
from kernelwright.referee import _peers
from kernelwright.referee import bench
from kernelwright.referee import BenchRow
from kernelwright.referee import Comparison
from kernelwright.referee import Mode
from kernelwright.referee import Regime
from kernelwright.referee import Status
from kernelwright.referee._bench_child import Session
from kernelwright.referee._bench_runner import BenchSettings
from kernelwright.referee._bench_runner import compare_sides

QUICK: dict[str, Any] = {
    "workloads": ["3x64"],
    "dtypes": ["fp32"],
    "budget_s": 0.03,
    "cold_bytes": 1 << 20,
}

EXAMPLE = str(Path(__file__).parents[2] / "benchmarks" / "peers" / "as_in_models.py")


class Rounds:
    """Sessions in this process, one for each contestant: begin, some blocks, finish; as children would."""

    def __init__(self, operator: str, peers: list[str], regime: Regime, mode: Mode = Mode.WARM) -> None:
        self.sessions = {name: Session() for name in ("kernelwright", *peers)}
        ring = os.memfd_create("ring")
        os.ftruncate(ring, 1 << 30)
        for name in self.sessions:
            self.ask(
                name,
                do="setup",
                side=name,
                contestants=len(self.sessions),
                operator=operator,
                dtype="fp32",
                regime=regime,
                backend=None,
                ring=ring,
                cold_bytes=1 << 20,
                llc_bytes=1 << 18,
                available_bytes=1 << 30,
                seed=3,
                threads=None,
                path=[],
            )
        begun = {
            name: self.ask(name, do="begin", sizes=[3, 64], mode=mode, fill=name == "kernelwright")
            for name in self.sessions
        }
        os.close(ring)
        self.begin = begun["kernelwright"]
        self.sides = {name: reply["side"] for name, reply in begun.items()}
        self.times: dict[str, list[float]] = {}
        self.place = 0

    def ask(self, name: str = "kernelwright", /, **message: Any) -> dict[str, Any]:
        return self.sessions[name].answer(message)

    def blocks(self, count: int) -> None:
        """So many blocks of each contestant that takes part, in turn."""
        for _ in range(count):
            for name, side in self.sides.items():
                if side["status"] == Status.PASSED:
                    reply = self.ask(name, do="block", calls=side["calls"], lead=1, place=self.place)
                    self.times.setdefault(name, []).append(reply["ns"])
                    self.place += reply["used"]

    def judged(self, blocks: int = 4) -> dict[str, Any]:
        self.blocks(blocks)
        return {name: self.ask(name, do="finish") for name in self.times}


def peer_file(folder: Path, body: str) -> str:
    path = folder / "peer.py"
    path.write_text(f"import torch\n{body}\n")
    return str(path)


@pytest.fixture(autouse=True)
def _same_thread_count() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class TestSession:
    @pytest.mark.parametrize("regime", list(Regime))
    @pytest.mark.parametrize("mode", list(Mode))
    @pytest.mark.parametrize("operator", ["rms_norm", "softmax", "silu_and_mul"])
    def test_both_sides_are_timed_and_judged(self, operator: str, mode: Mode, regime: Regime) -> None:
        rounds = Rounds(operator, ["eager"], regime, mode)
        judgements = rounds.judged()
        assert {name: len(times) for name, times in rounds.times.items()} == {"kernelwright": 4, "eager": 4}
        assert all(not found["problem"] and found["checked"] >= 3 for found in judgements.values())

    def test_forms_say_what_a_call_does_about_its_output(self) -> None:
        for operator, form in {"softmax": "out=", "rms_norm": "allocates, pages kept mapped"}.items():
            sides = Rounds(operator, ["eager"], Regime.PREALLOCATED).sides
            assert (sides["kernelwright"]["form"], sides["eager"]["form"]) == ("out=", form)
        assert Rounds("softmax", ["eager"], Regime.ALLOCATING).sides["eager"]["form"] == "allocates"

    def test_calls_are_made_under_inference_mode(self, tmp_path: Path) -> None:
        body = (
            "def softmax(x):\n"
            "    assert torch.is_inference_mode_enabled()\n"
            "    return torch.softmax(x, -1)\n"
            "operators = {'softmax': softmax}"
        )
        name = peer_file(tmp_path, body)
        assert Rounds("softmax", [name], Regime.ALLOCATING).sides[name]["status"] == Status.PASSED

    @pytest.mark.parametrize("regime", list(Regime))
    def test_an_operator_that_is_wrong_has_no_time(
        self, regime: Regime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def zeros(x: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
            return torch.zeros_like(x) if out is None else out.zero_()

        monkeypatch.setattr(kw.ops, "softmax", zeros)
        rounds = Rounds("softmax", ["eager"], regime)
        assert rounds.sides["kernelwright"]["status"] == Status.WRONG
        assert "element" in rounds.sides["kernelwright"]["reason"]

    def test_an_operator_that_writes_nothing_is_wrong_though_others_wrote_there(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        diligent = [True]

        def lazy(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
            return torch.softmax(x, -1, out=out) if diligent else out

        monkeypatch.setattr(kw.ops, "softmax", lazy)
        rounds = Rounds("softmax", ["eager"], Regime.PREALLOCATED)
        assert rounds.sides["kernelwright"]["status"] == Status.PASSED
        diligent.clear()
        assert rounds.judged(40)["kernelwright"]["problem"]

    def test_an_operator_that_changes_its_input_is_wrong(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def in_place(x: torch.Tensor) -> torch.Tensor:
            result = torch.softmax(x, -1)
            x[0, 0] += 1.0
            return result

        monkeypatch.setattr(kw.ops, "softmax", in_place)
        sides = Rounds("softmax", ["eager"], Regime.ALLOCATING).sides
        assert sides["kernelwright"]["reason"] == "the call changed its input x"

    def test_an_output_must_lie_in_out_or_in_memory_of_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kw.ops, "softmax", lambda x, out: torch.softmax(x, -1))
        side = Rounds("softmax", ["eager"], Regime.PREALLOCATED).sides["kernelwright"]
        assert (side["status"], side["reason"]) == (
            Status.WRONG,
            "the output is not in the memory of out=",
        )
        monkeypatch.setattr(kw.ops, "softmax", lambda x: x.copy_(torch.softmax(x, -1)))
        side = Rounds("softmax", ["eager"], Regime.ALLOCATING).sides["kernelwright"]
        assert (side["status"], side["reason"]) == (
            Status.WRONG,
            "the output shares memory with the input x",
        )

    def test_an_operator_that_raises_is_said_to(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kw.ops, "softmax", lambda x: 1 // 0)
        side = Rounds("softmax", ["eager"], Regime.ALLOCATING).sides["kernelwright"]
        assert side["status"] == Status.CRASHED
        assert side["reason"].startswith("ZeroDivisionError")

    def test_a_peer_that_raises_or_is_wrong_takes_no_part(self, tmp_path: Path) -> None:
        body = "operators = {'softmax': lambda x: 1 // 0, 'rms_norm': lambda x, weight, eps: x}"
        name = peer_file(tmp_path, body)
        assert Rounds("softmax", [name], Regime.ALLOCATING).sides[name]["status"] == Status.UNSUPPORTED
        assert Rounds("rms_norm", [name], Regime.ALLOCATING).sides[name]["status"] == Status.WRONG
        side = Rounds("silu_and_mul", [name], Regime.ALLOCATING).sides[name]
        assert "has no silu_and_mul; it has rms_norm, softmax" in side["reason"]

    def test_buffers_that_do_not_fit_are_the_status_of_the_row(self) -> None:
        rounds = Rounds("softmax", ["eager"], Regime.ALLOCATING)
        answer = rounds.ask(do="begin", sizes=[1 << 15, 1 << 12], mode=Mode.COLD, fill=True)
        assert answer["status"] == Status.UNSUPPORTED
        assert "available" in answer["reason"]

    def test_what_served_is_told(self) -> None:
        served = Rounds("softmax", ["eager"], Regime.ALLOCATING).begin["served_by"]
        assert served["backend"] == kw.explain("softmax", torch.zeros(3, 64)).backend


class TestPeers:
    @pytest.mark.parametrize("operator", ["rms_norm", "softmax", "silu_and_mul"])
    def test_the_example_of_a_peer_file_is_right(self, operator: str) -> None:
        rounds = Rounds(operator, [EXAMPLE], Regime.ALLOCATING)
        assert rounds.sides[EXAMPLE]["status"] == Status.PASSED
        assert not rounds.judged()[EXAMPLE]["problem"]

    def test_a_function_of_a_module_is_a_peer_with_its_out(self) -> None:
        spec = dispatch.spec("softmax")
        arguments = {"x": torch.randn(2, 8)}
        recipe = _peers.peer("kernelwright.ops:softmax", spec, arguments, Regime.PREALLOCATED)
        assert recipe.call(Regime.PREALLOCATED) == "function(x, out=out)"
        assert recipe.call(Regime.ALLOCATING) == "function(x)"

    def test_a_peer_file_may_say_that_it_is_not_available(self, tmp_path: Path) -> None:
        name = peer_file(tmp_path, "operators = {}\ndef unavailable():\n    return 'needs a licence'")
        with pytest.raises(_peers.PeerUnsupportedError, match="needs a licence"):
            _peers.peer(name, dispatch.spec("softmax"), {"x": torch.zeros(1, 1)}, Regime.ALLOCATING)

    def test_a_peer_file_whose_package_is_missing_is_unsupported(self, tmp_path: Path) -> None:
        name = peer_file(tmp_path, "import no_such_package_anywhere")
        with pytest.raises(_peers.PeerUnsupportedError, match="no_such_package_anywhere"):
            _peers.peer(name, dispatch.spec("softmax"), {"x": torch.zeros(1, 1)}, Regime.ALLOCATING)

    def test_compile_without_headers_or_compiler_is_unsupported_with_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        assert _peers.compile_problem() is None or shutil.which("g++") is None
        monkeypatch.setattr(shutil, "which", lambda name: None)
        assert "install g++" in str(_peers.compile_problem())
        monkeypatch.setattr("sysconfig.get_paths", lambda: {"include": str(tmp_path)})
        assert "Python.h" in str(_peers.compile_problem())
        sides = Rounds("softmax", ["eager", "compile"], Regime.ALLOCATING).sides
        assert sides["compile"]["status"] == Status.UNSUPPORTED
        assert "python3-dev" in sides["compile"]["reason"]
        assert sides["kernelwright"]["status"] == Status.PASSED

    @pytest.mark.parametrize("regime", list(Regime))
    def test_compile_is_right_with_and_without_out(self, regime: Regime) -> None:
        problem = _peers.compile_problem()
        if problem:
            pytest.skip(problem)
        rounds = Rounds("rms_norm", ["compile"], regime)
        assert rounds.sides["compile"]["status"] == Status.PASSED, rounds.sides
        assert not rounds.judged()["compile"]["problem"]


class TestNames:
    @pytest.mark.parametrize(
        ("change", "error", "said"),
        [
            ({"operators": "rms_nrom"}, UnknownNameError, "did you mean 'rms_norm'"),
            ({"dtypes": ["bf61"]}, UnknownNameError, "did you mean 'bf16'"),
            ({"workloads": ["3by64"]}, UnknownNameError, "workload of softmax"),
            ({"workloads": ["3"]}, UsageError, "rowsxhidden"),
            ({"against": ["eagre"]}, UnknownNameError, "did you mean 'eager'"),
            ({"against": []}, UsageError, "at least one peer"),
            ({"against": ["nowhere/peer.py"]}, UsageError, "no such file"),
            ({"modes": ["clod"]}, UnknownNameError, "did you mean 'cold'"),
            ({"regimes": ["alloc"]}, UnknownNameError, "allocating"),
            ({"backend": "cpuu"}, UnknownNameError, "did you mean 'cpu'"),
            ({"backend": "cutile"}, BackendUnavailableError, "cutile"),
            ({"budget_s": 0.0}, UsageError, "above zero"),
            ({"processes": 0}, UsageError, "at least 1"),
        ],
    )
    def test_bad_input_is_refused_before_anything_is_measured(
        self, change: dict[str, Any], error: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> None:
            raise AssertionError("a child was started")

        monkeypatch.setattr(_bench_runner, "Template", refuse)
        arguments = {"operators": "softmax", **QUICK, **change}
        with pytest.raises(error, match=said):
            bench(arguments.pop("operators"), **arguments)


class ScriptedChild:
    """Answers like a bench child, with times that were made up; `script` changes an answer."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.killed = False
        self.side = ""
        self.asked = ""

    def send(self, message: dict[str, Any]) -> None:
        self.asked = message["do"]
        self.side = message.get("side", self.side)

    def receive(self, timeout_s: float) -> dict[str, Any]:
        side = {"name": self.side, "status": "passed", "reason": "", "form": "", "calls": 9, "lead": 1}
        answers: dict[str, dict[str, Any]] = {
            "setup": {},
            "begin": {"status": "passed", "reason": "", "side": side},
            "block": {"ns": 100.0, "calls": 9, "lead": 1, "used": 10},
            "finish": {"problem": "", "checked": 4},
        }
        return {"ok": True, **(self.script(self) or answers[self.asked])}

    def cpu_ns(self) -> int:
        return 0

    def runnable(self) -> int:
        return 0

    def kill(self) -> None:
        self.killed = True


Script = Callable[[ScriptedChild], dict[str, Any] | None]


def as_ever(_: ScriptedChild) -> None:
    return None


class TestChildren:
    @pytest.fixture
    def started(self, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[ScriptedChild]]:
        """Children that follow a script: `started(script)` is the list of those that were started."""

        def follow(script: Script) -> list[ScriptedChild]:
            children: list[ScriptedChild] = []

            class Template:
                def __init__(self, *_: object, **__: object) -> None:
                    pass

                def child(self, *_: object, **__: object) -> ScriptedChild:
                    children.append(ScriptedChild(script))
                    return children[-1]

                def close(self) -> None:
                    pass

            monkeypatch.setattr(_bench_runner, "Template", Template)
            return children

        return follow

    @staticmethod
    def row(**options: Any) -> BenchRow:
        kept = {"modes": ["warm"], "regimes": ["allocating"], "against": ["eager"]}
        (row,) = bench("softmax", **{**QUICK, **kept, **options}).rows
        return row

    def test_each_contestant_has_one_of_its_own(self, started: Any) -> None:
        children = started(as_ever)
        assert self.row(against=["eager", "compile"]).status is Status.PASSED
        assert [child.side for child in children] == ["kernelwright", "eager", "compile"]
        assert all(child.killed for child in children)

    def test_blocks_are_asked_for_in_an_order_drawn_anew_from_one_ring(self, started: Any) -> None:
        asked: list[str] = []
        places: list[int] = []

        def note(child: ScriptedChild) -> None:
            if child.asked == "block":
                asked.append(child.side)

        started(note)
        real = ScriptedChild.send

        def send(child: ScriptedChild, message: dict[str, Any]) -> None:
            places.extend([message["place"]] if message["do"] == "block" else [])
            real(child, message)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ScriptedChild, "send", send)
            self.row()
        rounds = {tuple(asked[start : start + 2]) for start in range(0, len(asked), 2)}
        assert rounds == {("kernelwright", "eager"), ("eager", "kernelwright")}
        assert places == list(range(0, 10 * len(places), 10))

    def test_one_that_is_late_to_start_is_ended(self, started: Any) -> None:
        def late(_: ScriptedChild) -> None:
            raise ChildTimeout("no answer")

        children = started(late)
        assert self.row().status is Status.HUNG
        assert all(child.killed for child in children)

    def test_who_writes_to_the_channel_is_found_out_and_the_row_has_no_time(self, started: Any) -> None:
        def garbled(child: ScriptedChild) -> None:
            if child.asked == "block" and child.side == "kernelwright":
                raise ChildGarbled("the child sent bytes that are not JSON")

        children = started(garbled)
        row = self.row()
        assert (row.status, row.time) == (Status.CHEATED, None)
        assert "channel" in row.reason
        assert all(child.killed for child in children)

    def test_none_outlives_a_bench_that_whoever_watches_ends(self, started: Any) -> None:
        children = started(as_ever)
        seen = []

        def enough(row: BenchRow) -> None:
            seen.append(children[-1].killed)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt) as caught:
            self.row(on_row=enough)
        assert caught.tb is not None, "the frames of the bench are alive, and so what they refer to"
        assert (seen, {child.killed for child in children}) == ([False], {True})

    def test_a_peer_that_failed_in_one_process_has_no_contest(self, started: Any) -> None:
        failed: list[str] = []

        def without_peer(child: ScriptedChild) -> dict[str, Any] | None:
            if child.asked == "begin" and child.side == "eager" and not failed:
                failed.append("once")
                side = {"name": "eager", "status": "unsupported", "reason": "no memory", "form": ""}
                return {"status": "passed", "reason": "", "side": {**side, "calls": 0, "lead": 0}}
            return None

        started(without_peer)
        (peer,) = self.row(processes=2).peers
        assert (peer.contest, peer.status, peer.reason) == (None, Status.UNSUPPORTED, "no memory")

    def test_a_peer_that_dies_takes_no_further_part_and_the_others_go_on(self, started: Any) -> None:
        blocks: list[str] = []

        def dies(child: ScriptedChild) -> None:
            if child.asked == "block":
                blocks.append(child.side)
                if child.side == "compile" and blocks.count("compile") == 3:
                    raise ChildTimeout("it has not answered")

        started(dies)
        row = self.row(against=["eager", "compile"])
        contests = {peer.name: peer for peer in row.peers}
        assert row.status is Status.PASSED
        assert contests["eager"].contest is not None
        assert (contests["compile"].status, contests["compile"].contest) == (Status.HUNG, None)
        assert blocks.count("compile") == 3


class TestStatistics:
    settings = BenchSettings(against=("eager",))

    def test_pairs_of_one_process_are_compared(self) -> None:
        comparison, ratio, _ = compare_sides([([2.0] * 10, [1.0] * 10)], self.settings)
        assert (comparison, ratio) == (Comparison.FASTER, pytest.approx(2.0))

    def test_of_several_processes_each_counts_as_one(self) -> None:
        # Every process is sure of itself, and they disagree: nothing can be concluded.
        pairs = [([ratio] * 50, [1.0] * 50) for ratio in (0.7, 1.4, 0.8, 1.3, 1.0)]
        comparison, ratio, (low, high) = compare_sides(pairs, self.settings)
        assert comparison is Comparison.AMBIGUOUS
        assert low < 0.9 < ratio < 1.1 < high

    def test_times_that_jump_between_quanta_decide_nothing(self) -> None:
        jumps = [(2.0, 1.0) if number % 3 else (400.0, 1.0) for number in range(60)]
        found = compare_sides([([one for one, _ in jumps], [other for _, other in jumps])], self.settings)
        assert found[0] is Comparison.FASTER
        wild = [(1.2 if number < 30 else 40.0, 1.0) for number in range(60)]
        found = compare_sides([([one for one, _ in wild], [other for _, other in wild])], self.settings)
        assert found[2][0] > 1.0
        assert found[0] is Comparison.AMBIGUOUS


def test_a_peer_whose_process_dies_loses_its_own_rows_only(tmp_path: Path) -> None:
    body = (
        "import os, signal\n"
        "def softmax(x):\n"
        "    if x.shape[0] == 2:\n"
        "        os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    return torch.softmax(x, -1)\n"
        "operators = {'softmax': softmax}"
    )
    report = bench(
        "softmax",
        against=[peer_file(tmp_path, body)],
        modes=["warm"],
        regimes=["allocating"],
        **{**QUICK, "workloads": ["2x64", "3x64"]},
    )
    first, second = report.rows
    (peer,) = first.peers
    assert (peer.status, peer.contest) == (Status.CRASHED, None)
    assert "SIGSEGV" in peer.reason
    assert first.status is second.status is Status.PASSED
    assert second.better is not None


def test_an_operator_whose_process_dies_is_the_status_of_the_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours is a peer's file here, under the name of ours: there is no operator of ours that dies."""
    body = "import os\noperators = {'softmax': lambda x: os.abort()}"
    name = peer_file(tmp_path, body)
    monkeypatch.setattr(_bench_runner, "OURS", name)
    row = TestChildren.row(against=["eager"])
    assert row.status is Status.CRASHED
    assert "SIGABRT" in row.reason


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (End.TIMED_OUT, Status.HUNG),
        (End.OUT_OF_MEMORY, Status.OUT_OF_MEMORY),
        (End.SIGNALLED, Status.CRASHED),
    ],
)
def test_how_a_child_ended_is_a_status(end: End, status: Status) -> None:
    assert _bench_runner._status_of(end) is status


@pytest.mark.serial
def test_a_bench_has_every_row_with_its_verdict_and_what_it_means() -> None:
    seen: list[str] = []
    report = bench(
        ["softmax", "rms_norm"], against=["eager"], on_row=lambda row: seen.append(row.operator), **QUICK
    )
    assert seen == ["softmax"] * 4 + ["rms_norm"] * 4
    assert {(row.mode, row.regime) for row in report.rows} == {
        (mode, kind) for mode in Mode for kind in Regime
    }
    for row in report.rows:
        assert row.status is Status.PASSED, row.reason
        assert row.better is not None
        assert row.better.interval[0] <= row.better.ratio <= row.better.interval[1]
        assert row.comparison in set(Comparison)
        assert row.time is not None
        assert row.time.median_ns > 100
        assert {"load_before", "steal", "threads", "affinity"} <= set(row.conditions)
    for mean in report.means:
        ratios = [row.better.ratio for row in report.rows if row.operator == mean.operator and row.better]
        assert mean.ratio == pytest.approx(math.exp(sum(map(math.log, ratios)) / 4))
    plain = report.as_dict()
    assert plain == as_plain(plain)
    assert set(plain["meaning"]) == {"cold", "warm", "allocating", "preallocated"}
    assert plain["rows"][0]["better"] == "eager"


@pytest.mark.serial
def test_a_deliberately_slow_peer_loses_and_a_fast_one_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = (
        "import time\n"
        "def softmax(x):\n"
        "    time.sleep(0.002)\n"
        "    return torch.softmax(x, -1)\n"
        "operators = {'softmax': softmax}"
    )
    name = peer_file(tmp_path, body)
    report = bench("softmax", against=[name, "eager"], modes=["warm"], regimes=["allocating"], **QUICK)
    (row,) = report.rows
    contests = {peer.name: peer.contest for peer in row.peers}
    assert contests[name] is not None
    assert contests[name].comparison is Comparison.FASTER
    assert contests[name].ratio > 20
    assert row.better is contests["eager"]


def test_pages_stay_mapped_where_peers_without_out_are_compared_preallocated(tmp_path: Path) -> None:
    """Once warm, a call that allocates 33 MiB faults its pages in again only in the allocating regime."""
    notes = tmp_path / "faults"
    body = (
        "import resource\n"
        "def softmax(x):\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "    result = torch.softmax(x, -1)\n"
        "    after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        f"    open({str(notes)!r}, 'a').write(f'{{after - before}}\\n')\n"
        "    return result\n"
        "operators = {'softmax': softmax}"
    )
    faults = {}
    for regime in Regime:
        notes.write_text("")
        bench(
            "softmax",
            against=[peer_file(tmp_path, body)],
            modes=["warm"],
            regimes=[regime],
            **{**QUICK, "workloads": ["2112x4096"]},
        )
        faults[regime] = sorted(int(line) for line in notes.read_text().split())
    typical = {regime: counts[len(counts) // 2] for regime, counts in faults.items()}
    assert typical[Regime.ALLOCATING] > 1000
    assert typical[Regime.PREALLOCATED] < 50
