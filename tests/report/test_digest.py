"""What a run comes to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelwright.machine import Ceilings
from kernelwright.report import _digest
from kernelwright.tuning import load_run


def test_the_headline_says_what_won_and_what_stands(make_run) -> None:
    assert _digest.headline(load_run(make_run("a"))) == (
        "A new configuration is proven faster than the default on 2 of 4 workloads; "
        "the default stands on 2 of 4 workloads."
    )
    assert _digest.headline(load_run(make_run("b", wins=False))) == "The default stands on all 4 workloads."
    assert _digest.headline(load_run(make_run("c", cut="verdict"))) == "Not decided: all 4 workloads."


def test_the_deciding_contest_is_the_confirmed_one_and_never_a_final(make_run) -> None:
    record = load_run(make_run())
    undecided, kept, *won = _digest.verdicts(record)
    assert [row.standing for row in won] == ["new winner", "new winner"]
    for row in won:
        assert row.against_default is not None
        assert row.against_default["stage"] == "confirmed"
        assert (row.against_default["mode"], row.against_default["regime"]) == ("cold", "preallocated")
    assert kept.standing == "default stands"
    assert kept.against_default is not None
    assert undecided.against_default is None
    assert all(row.against_torch is not None and row.against_torch["baseline"] == "torch" for row in won)


def test_a_final_stands_in_only_where_nothing_was_confirmed(make_run) -> None:
    record = load_run(make_run())
    result = record.results[1]
    result.contests = [contest for contest in result.contests if contest["stage"] == "final"]
    decisive = _digest.decisive(result)
    assert decisive is not None
    assert decisive["ratio"] == max(contest["ratio"] for contest in result.contests)
    assert _digest.versus(result, ("default",)) is None


def test_workloads_with_one_winner_share_a_card(make_run) -> None:
    (card,) = _digest.winner_cards(load_run(make_run()))
    assert [result.workload for result in card.results] == ["512x4096:bf16", "4096x4096:bf16"]
    assert card.difference == "accumulators=8 nontemporal_kib=256"
    assert card.details["compiler"] == "g++ 14.2.0"
    assert card.details["code_key"].endswith("31")
    assert not {"contests", "cached"} & set(card.details)
    seen = _digest.conditions(card.contests)
    assert seen == {
        "load_before": 1.5,
        "load_after": 1.75,
        "steal": 0.004,
        "threads": "2",
        "affinity": "0, 1",
    }
    assert _digest.conditions([]) == {}


def test_failures_are_grouped_by_kind_the_most_frequent_first(make_run) -> None:
    groups = _digest.failures(load_run(make_run()))
    assert [(group.status, len(group.evaluations)) for group in groups] == [
        ("build_failed", 2),
        ("crashed", 1),
        ("hung", 1),
        ("wrong", 1),
    ]


def test_the_best_so_far_never_falls_and_never_lies_below_the_default(make_run) -> None:
    record = load_run(make_run())
    for workload in record.workloads:
        steps = _digest.progress(record, workload)
        bests = [best for _, _, best in steps]
        assert bests == sorted(bests)
        assert bests[0] >= 1.0
        assert bests[-1] == max(value for _, value, _ in steps)


def test_effects_leave_out_failures_reused_verdicts_and_parameters_with_one_value(make_run) -> None:
    record = load_run(make_run())
    for one in record.evaluations:
        one.configuration["constant"] = 1
    effects = _digest.effects(record)
    assert "constant" not in effects
    assert list(effects["accumulators"]) == ["1", "2", "4", "8"]
    judged = sum(one.passed and one.reused is None for one in record.evaluations)
    assert sum(len(scores) for scores in effects["prefetch"].values()) == judged
    assert judged < len(record.evaluations)


def test_attained_bandwidth_is_bytes_over_time_beside_the_copy_of_memory(
    make_run, ceilings: Ceilings
) -> None:
    record = load_run(make_run())
    points = {(point.workload, point.who): point for point in _digest.attained(record, ceilings)}
    assert ("1x4096:bf16", "default") not in points
    assert ("32x4096:bf16", "winner") not in points
    default = points["4096x4096:bf16", "default"]
    assert default.nanoseconds == 2.4e6
    assert default.bandwidth == pytest.approx((2 * 4096 + 1) * 8192 / 2.4e-3)
    assert default.ceiling is not None
    assert (default.ceiling.level, default.ceiling.stores) == ("DRAM", "nontemporal")
    assert default.share == pytest.approx(default.bandwidth / 31e9)
    assert all(point.share is None for point in _digest.attained(record, None))


def test_the_ceiling_of_as_many_threads_is_taken_where_it_was_measured(ceilings: Ceilings) -> None:
    one_thread = [replace(one, threads=1, value=one.value / 2, p05=one.p05 / 2) for one in ceilings.entries]
    both = replace(ceilings, entries=(*ceilings.entries, *one_thread))
    cost = {"bytes_read": 100, "bytes_written": 100}
    chosen = {threads: _digest.copy_ceiling(both, cost, threads) for threads in (1, 2, 64, None)}
    assert {threads: one and one.threads for threads, one in chosen.items()} == {1: 1, 2: 2, 64: 2, None: 2}
    twice = _digest.copy_ceiling(both, {"bytes_read": 200, "bytes_written": 100}, 2)
    assert twice is not None
    assert twice.reads_per_write == 1, "two reads a write were not measured"


def test_a_roof_is_the_best_copy_of_its_level(ceilings: Ceilings) -> None:
    roofs = _digest.memory_roofs(ceilings)
    assert [roof.level for roof in roofs] == ["L1", "L2", "L3", "DRAM"]
    assert [roof.stores for roof in roofs] == ["plain", "plain", "plain", "nontemporal"]
    assert [roof.dtype for roof in _digest.compute_roofs(ceilings, "bf16")] == ["fp32", "bf16"]
    assert [roof.dtype for roof in _digest.compute_roofs(ceilings, "fp16")] == ["fp32"]


def test_the_command_repeats_the_run(make_run) -> None:
    assert _digest.command(load_run(make_run(workloads=["32x4096:bf16"], cut="verdict"))) == (
        "kernelwright tune rms_norm --workload 32x4096 --dtype bf16 --backend cpu --budget 60s --seed 7"
    )
