"""What a tuning run does, with a pipeline that knows the truth."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from standin import SPACE
from standin import StandIn

from kernelwright import dispatch
from kernelwright import machine
from kernelwright import settings
from kernelwright import winners
from kernelwright.errors import FileFormatError
from kernelwright.errors import JournalBusyError
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.referee import Status
from kernelwright.referee import Verdict
from kernelwright.search import Journal
from kernelwright.tuning import BestChanged
from kernelwright.tuning import Built
from kernelwright.tuning import Candidate
from kernelwright.tuning import EvaluationFinished
from kernelwright.tuning import load_run
from kernelwright.tuning import PhaseChanged
from kernelwright.tuning import run_ids
from kernelwright.tuning import RunOpened
from kernelwright.tuning import RunRecord
from kernelwright.tuning import tune
from kernelwright.tuning import Unbuilt
from kernelwright.tuning import WorkloadDecided
from kernelwright.tuning._budget import Budget

WORKLOADS = ["1x4096", "512x4096"]


def run(standin: StandIn, **asked: object) -> RunRecord:
    asked = {"workloads": WORKLOADS, "budget_s": 4.0, **asked}
    return tune("rms_norm", pipeline=lambda _: standin, **asked)  # type: ignore[arg-type]


def test_the_best_configuration_of_each_workload_is_confirmed_and_stored(standin: StandIn) -> None:
    record = run(standin)
    assert record.finished
    assert standin.closed
    small, large = record.results
    assert small.workload == "1x4096:bf16"
    assert small.winner is not None
    assert (small.winner["unroll"], small.winner["rows"], small.winner["kind"]) == (4, 1, "plain")
    assert large.winner is not None
    assert (large.winner["unroll"], large.winner["rows"], large.winner["kind"]) == (4, 3, "plain")
    for result in record.results:
        assert result.stored
        assert result.comparison == "faster"
        assert result.outcome.startswith(f"#{result.number} is faster than the default: faster, ")
        stored = winners.find("rms_norm", result.bucket)
        assert stored is not None
        assert stored.configuration == result.winner
        assert stored.machine == machine.fingerprint()
        assert stored.provenance == {"source": "source-1", "compiler": "gcc 13"}
        assert stored.evidence["run"] == record.id
        assert stored.evidence["code_key"]
        assert stored.evidence["ratio"] == pytest.approx(1.69 * (1.21 if result is large else 1.0))
        assert {(one["mode"], one["regime"]) for one in stored.evidence["contests"]} == {
            ("cold", "preallocated"),
            ("cold", "allocating"),
            ("warm", "preallocated"),
            ("warm", "allocating"),
        }
        assert result.contest("default") is not None
        assert (result.contest("torch") or {})["ratio"] == 1.5
        assert result.cost["bytes_read"] > 0


def test_evaluations_say_where_they_came_from_and_how_they_ended(standin: StandIn) -> None:
    record = run(standin)
    first = record.evaluations[0]
    assert (first.origin, first.status, first.score) == ("default", "passed", 1.0)
    assert first.configuration == SPACE.default
    origins = Counter(one.origin for one in record.evaluations)
    assert origins["default"] == 1
    assert origins["designed"] == 3
    assert origins["local"] > 5
    assert set(record.failures) == {"wrong", "crashed", "hung", "build_failed"}
    for one in record.evaluations:
        fault = {"zeros": "wrong", "crash": "crashed", "hang": "hung", "uncompilable": "build_failed"}
        assert one.status == fault.get(str(one.configuration["kind"]), "passed")
        assert one.passed == bool(one.ratios)
        assert one.passed or one.reason
        assert one.finished_s is not None
        assert one.finished_s >= one.started_s
    keys = [json.dumps(one.configuration, sort_keys=True) for one in record.evaluations]
    assert len(set(keys)) == len(keys)


def test_the_same_machine_code_is_judged_once(standin: StandIn) -> None:
    record = run(standin)
    reused = [one for one in record.evaluations if one.reused is not None]
    assert reused
    for one in reused:
        assert one.reused is not None
        original = record.evaluations[one.reused - 1]
        assert original.reused is None
        assert original.code_key == one.code_key
        assert (original.status, original.ratios) == (one.status, one.ratios)
    built = [one for one in record.evaluations if one.code_key]
    assert record.artifacts == len(built) - len(reused) == standin.counts["check"]


def test_every_ask_and_verdict_is_journaled_before_it_is_acted_on(standin: StandIn) -> None:
    seen: list[int] = []
    opened: list[RunRecord] = []
    plain_build = standin.build

    def build(candidates: Sequence[Candidate]) -> list[Built | Unbuilt]:
        on_disk = load_run(opened[0].folder)
        for one in candidates:
            assert any(record.configuration == one.configuration for record in on_disk.evaluations)
        return plain_build(candidates)

    def listen(event: object) -> None:
        if isinstance(event, RunOpened):
            opened.append(event.run)
        if isinstance(event, EvaluationFinished):
            on_disk = load_run(event.run.folder).evaluations[event.evaluation.number - 1]
            assert on_disk.status == event.evaluation.status != "pending"
            seen.append(on_disk.number)
        if isinstance(event, WorkloadDecided):
            assert load_run(event.run.folder).results[-1].workload == event.result.workload

    standin.build = build  # type: ignore[method-assign]
    record = run(standin, on_event=listen)
    assert sorted(seen) == [one.number for one in record.evaluations]


def test_nothing_is_built_between_measurements_of_a_batch(standin: StandIn) -> None:
    run(standin)
    first_final = standin.order.index("confirm")
    changes = sum(
        1
        for before, after in zip(standin.order[:first_final], standin.order[1:first_final], strict=False)
        if before != "build" and after == "build"
    )
    batches = len([1 for one in standin.order[:first_final] if one == "build"]) / 4
    assert changes <= batches + 3


def test_the_record_on_disk_is_the_record(standin: StandIn) -> None:
    record = run(standin)
    assert run_ids() == [record.id]
    assert load_run(settings.runs_dir() / record.id) == record


def test_the_same_seed_asks_the_same() -> None:
    asked = []
    for seed in (1, 1, 2):
        record = run(StandIn(), seed=seed)
        winners.forget("rms_norm")
        asked.append([one.configuration for one in record.evaluations][:20])
    assert asked[0] == asked[1]
    assert asked[0] != asked[2]


def test_events_tell_phases_and_bests(standin: StandIn) -> None:
    events: list[object] = []
    record = run(standin, on_event=events.append)
    phases = [str(event.phase) for event in events if isinstance(event, PhaseChanged)]
    assert phases[:2] == ["building", "screening"]
    assert phases[-4:] == ["racing finalists", "confirming", "racing torch", "finished"]
    bests = [event for event in events if isinstance(event, BestChanged) and event.workload == "1x4096:bf16"]
    ratios = [event.evaluation.ratios["1x4096:bf16"] for event in bests]
    assert ratios == sorted(ratios)
    assert bests[-1].evaluation is record.best("1x4096:bf16")


def test_the_default_stands_when_no_candidate_is_faster() -> None:
    record = run(StandIn(speed=lambda configuration, _: 0.9 if configuration["rows"] > 1 else 1.0))
    for result in record.results:
        assert result.winner is None
        assert not result.stored
        assert result.origin == "default"
        assert result.outcome.startswith("the default stands: ")
    assert winners.all_records() == ()


def test_a_win_that_does_not_repeat_in_a_fresh_process_is_not_stored() -> None:
    standin = StandIn(confirmed_effect=0.0)
    record = run(standin)
    for result in record.results:
        assert result.winner is None
        assert "was not confirmed (same, 1.000x" in result.outcome
    assert winners.all_records() == ()
    assert 2 <= standin.counts["confirm"] <= 4


def test_a_second_run_starts_from_the_stored_winner() -> None:
    first = run(StandIn())
    second = run(StandIn(), seed=9)
    assert second.evaluations[1].origin == "winner"
    stored = [result.winner for result in first.results]
    assert second.evaluations[1].configuration in stored
    for before, after in zip(first.results, second.results, strict=True):
        assert after.origin == "stored"
        assert after.winner == before.winner
        assert after.outcome.startswith("the stored winner stands: faster, ")
        assert not after.stored
        record = winners.find("rms_norm", after.bucket)
        assert record is not None
        assert record.evidence["run"] == first.id


def test_a_better_configuration_takes_the_stored_winner_s_place() -> None:
    run(StandIn(tested=space_with_unroll([1, 2])))
    second = run(StandIn())
    for result in second.results:
        assert result.origin == "new"
        assert result.stored
        assert (result.winner or {})["unroll"] == 4
        assert result.contest("stored winner") is not None


def space_with_unroll(values: list[int]) -> object:
    from kernelwright import space

    parameters = {**SPACE.parameters, "unroll": space.choice(values)}
    return space.Space(parameters, SPACE.constraints)


def test_a_stored_winner_that_lost_its_edge_is_removed() -> None:
    first = run(StandIn())
    slow = dict(first.results[0].winner or {})

    def changed(configuration, _):  # type: ignore[no-untyped-def]
        return 0.5 if all(configuration[name] == slow[name] for name in ("unroll", "rows", "kind")) else 1.0

    second = run(StandIn(speed=changed))
    assert second.results[0].outcome.startswith("the default stands: the stored winner was removed (slower")
    assert winners.find("rms_norm", second.results[0].bucket) is None


@pytest.mark.parametrize("when", ["confirmed", "screened"])
def test_a_stored_winner_survives_a_machine_too_busy_to_judge_it(when: str) -> None:
    first = run(StandIn())
    (workload, bucket, winner) = (
        getattr(first.results[0], name) for name in ("workload", "bucket", "winner")
    )

    class Busy(StandIn):
        def race(self, *args: Any, **options: Any) -> Any:
            contests, verdicts = super().race(*args, **options)
            if when == "screened":
                noisy = {name for name, built in args[2].items() if built.candidate.configuration == winner}
                verdicts = {**verdicts, **dict.fromkeys(noisy, Verdict(Status.NOISY, "too busy"))}
                contests = {name: contest for name, contest in contests.items() if name not in noisy}
            return contests, verdicts

        def confirm(self, *args: Any, **options: Any) -> Verdict:
            return Verdict(Status.NOISY, "too busy")

    second = run(Busy())
    result = next(one for one in second.results if one.workload == workload)
    assert (result.origin, result.winner, result.comparison) == ("stored", winner, None)
    assert "the stored winner stands, though it could not be confirmed this time (noisy" in result.outcome
    assert winners.find("rms_norm", bucket) is not None


def test_more_stored_winners_than_a_batch_are_judged_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = dispatch.spec("rms_norm")
    assert spec is not None
    workloads = [spec.workload(1 << power, 64, dtype=torch.bfloat16) for power in range(7)]
    plain = [one for one in SPACE.configurations() if one["kind"] == "plain" and one != SPACE.default]
    standin = StandIn()
    for workload, configuration in zip(workloads, plain, strict=False):
        here, provenance = machine.fingerprint(), standin.provenance("cpu")
        winners.store(
            winners.Record("rms_norm", workload.bucket, here, "cpu", configuration, provenance=provenance)
        )
    sizes: list[int] = []
    build = standin.build

    def counted(candidates: Sequence[Candidate]) -> list[Built | Unbuilt]:
        sizes.append(len(candidates))
        return build(candidates)

    monkeypatch.setattr(standin, "build", counted)
    record = run(standin, workloads=[workload.shape_name for workload in workloads], budget_s=2.0)
    asked = [one.configuration for one in record.evaluations if one.origin == "winner"]
    assert asked == plain[:7]
    assert max(sizes) <= 4


def test_winners_that_do_not_apply_are_left_aside_and_said() -> None:
    run(StandIn())
    second = run(StandIn(provenance="source-2"))
    assert all(one.origin != "winner" for one in second.evaluations)
    assert any("left aside: it was proven with source" in note for note in second.notes)
    run(StandIn(provenance="source-2"))
    third = run(StandIn(provenance="source-2", tested=space_with_unroll([1, 8])))
    assert any("outside today's space" in note for note in third.notes)


def test_a_wrong_default_ends_the_run_with_that_outcome() -> None:
    from kernelwright import space

    tested = space.Space({**SPACE.parameters, "kind": space.choice(["zeros", "plain"])})
    record = run(StandIn(tested=tested))
    assert record.finished
    assert len(record.evaluations) == 1
    assert all("the default itself failed (wrong): max error" in one.outcome for one in record.results)


def test_a_tiny_space_is_searched_to_its_end() -> None:
    from kernelwright import space

    tested = space.Space(
        {
            "unroll": space.choice([1, 2]),
            "rows": space.choice([1]),
            "kind": space.choice(["plain"]),
            "comment": space.flag(),
        }
    )
    record = run(StandIn(tested=tested), budget_s=30.0)
    assert len(record.evaluations) == 4
    assert "the whole space was searched" in record.notes
    assert record.results[0].winner is not None


@pytest.mark.parametrize("after", [1, 2, 9, 30, 60])
def test_ctrl_c_leaves_a_run_that_can_be_continued(after: int) -> None:
    interrupted = StandIn()
    interrupted.interrupt_after = after
    with pytest.raises(KeyboardInterrupt):
        run(interrupted)
    assert interrupted.closed
    (name,) = run_ids()
    before = load_run(settings.runs_dir() / name)
    assert not before.finished
    finished = {one.number: one for one in before.evaluations if one.status != "pending"}
    pending = {one.number: one.configuration for one in before.evaluations if one.status == "pending"}
    record = tune(run=name, pipeline=lambda _: StandIn())
    assert record.finished
    assert record.sittings == 2
    for number, one in finished.items():
        assert record.evaluations[number - 1] == one
    assert {number: record.evaluations[number - 1].configuration for number in pending} == pending
    assert all(one.status != "pending" for one in record.evaluations)
    assert all(result.winner for result in record.results)


def test_a_finished_run_is_not_done_again(standin: StandIn) -> None:
    record = run(standin)
    events: list[object] = []
    again = tune(run=record.id, pipeline=lambda _: pytest.fail("nothing to build"), on_event=events.append)
    assert again == record
    assert [event.result for event in events if isinstance(event, WorkloadDecided)] == record.results


def interrupted_run(after: int = 9) -> str:
    standin = StandIn()
    standin.interrupt_after = after
    with pytest.raises(KeyboardInterrupt):
        run(standin)
    return run_ids()[-1]


def test_what_cannot_be_continued_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    name = interrupted_run()
    with pytest.raises(UnknownNameError, match=f"known: {name}"):
        tune(run="20200101-000000-rms_norm-0000", pipeline=lambda _: StandIn())
    with pytest.raises(UsageError, match="tunes rms_norm, not softmax"):
        tune("softmax", run=name, pipeline=lambda _: StandIn())
    with pytest.raises(UsageError, match=r"space of rms_norm has changed .*; start a new run"):
        tune(run=name, pipeline=lambda _: StandIn(tested=space_with_unroll([1, 2])))  # type: ignore[arg-type]
    monkeypatch.setattr(machine, "fingerprint", lambda: "0" * 16)
    with pytest.raises(UsageError, match="begun on another machine"):
        tune(run=name, pipeline=lambda _: StandIn())


def test_a_run_that_is_going_on_cannot_be_continued() -> None:
    name = interrupted_run()
    with Journal(settings.runs_dir() / name / "journal.sqlite"), pytest.raises(JournalBusyError):
        tune(run=name, pipeline=lambda _: StandIn())


def test_a_broken_journal_is_set_aside_and_said() -> None:
    name = interrupted_run()
    path: Path = settings.runs_dir() / name / "journal.sqlite"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(FileFormatError, match="set aside as journal"):
        tune(run=name, pipeline=lambda _: StandIn())
    with pytest.raises(UnknownNameError):
        tune(run=name, pipeline=lambda _: StandIn())


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"operator": "rms_nrm"}, "unknown operator 'rms_nrm'; did you mean 'rms_norm'"),
        ({"workloads": ["big"]}, "unknown workload of rms_norm 'big'"),
        ({"workloads": ["1x2x3"]}, "sizes are rowsxhidden"),
        ({"workloads": ["0x64"]}, "is empty"),
        ({"dtype": "bf17"}, "unknown dtype 'bf17'; did you mean 'bf16'"),
        ({"dtype": "fp64"}, "unknown dtype of rms_norm 'fp64'"),
        ({"backends": ["cpux"]}, "unknown backend of rms_norm 'cpux'"),
        ({"budget_s": 0.0}, "above zero"),
    ],
)
def test_bad_input_names_what_is_near(asked: dict[str, object], says: str) -> None:
    asked = {"operator": "rms_norm", **asked}
    operator = str(asked.pop("operator"))
    with pytest.raises((UnknownNameError, UsageError), match=says):
        tune(operator, pipeline=lambda _: StandIn(), **asked)  # type: ignore[arg-type]
    assert run_ids() == []


def test_no_confirmation_begins_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "give_up_s", property(lambda budget: 0.0))
    late = StandIn()
    record = run(late)
    assert late.counts["confirm"] == 0
    said = [result.outcome for result in record.results]
    assert all(result.winner is None for result in record.results)
    assert any("no time was left to confirm #" in outcome for outcome in said), said
