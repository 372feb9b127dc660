"""Right or not: planted kernels through the real pipeline, built, loaded and called in a child."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernelwright.errors import BuildError
from kernelwright.ops import RmsNormSpec
from kernelwright.process import Limits
from kernelwright.referee import check
from kernelwright.referee import NativeEntrant
from kernelwright.referee import NativeJudge
from kernelwright.referee import Patience
from kernelwright.referee import Status
from kernelwright.referee import Verdict

Planted = Callable[[str], NativeEntrant]
Check = Callable[..., Verdict]

HONEST = ["honest_scalar", "honest_openmp", "honest_workspace", "honest_lazy", "honest_half_speed"]


@pytest.fixture
def checked(judge: NativeJudge, planted: Planted, spec: RmsNormSpec, describe: Any) -> Check:
    def run(name: str, dtype: torch.dtype = torch.float32, seed: int = 5, **options: Any) -> Verdict:
        workloads = [spec.workload(1, 512, dtype=dtype), spec.workload(32, 256, dtype=dtype)]
        return judge.check(spec, planted(name), describe=describe, workloads=workloads, seed=seed, **options)

    return run


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", HONEST)
def test_honest_kernels_pass(checked: Check, name: str, dtype: torch.dtype) -> None:
    verdict = checked(name, dtype)
    assert verdict.status is Status.PASSED, verdict.reason


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("all_zeros", Status.WRONG, "is 0, expected"),
        ("no_work", Status.WRONG, "never written"),
        ("wrong_scale", Status.WRONG, "exceeds"),
        ("wrong_tail", Status.WRONG, "never written"),
        ("writes_outside", Status.WRONG, "wrote outside of buffer out (0 bytes past its end"),
        ("writes_before", Status.CRASHED, "outside of buffer out (4 bytes before its start)"),
        ("reads_outside", Status.CRASHED, "outside of buffer x (0 bytes past its end"),
        ("changes_input", Status.WRONG, "changed its input x"),
        ("ignores_strides", Status.WRONG, "rows apart"),
        ("remembers_pointers", Status.WRONG, "called again with the same addresses"),
        ("nondeterministic", Status.NONDETERMINISTIC, "the same call on the same data"),
        ("flushes_denormals", Status.WRONG, "flush-to-zero"),
        ("crashes", Status.CRASHED, "SIGSEGV"),
        ("aborts", Status.CRASHED, "SIGABRT"),
        ("illegal_instruction", Status.CRASHED, "SIGILL"),
        ("exits", Status.CRASHED, "exit code 0"),
        ("kills_its_group", Status.CRASHED, "SIGKILL"),
        ("huge_allocation", Status.OUT_OF_MEMORY, "memory"),
        ("refuses", Status.UNSUPPORTED, "refuses the dtype"),
    ],
)
def test_planted_kernels_get_their_verdict(checked: Check, name: str, status: Status, words: str) -> None:
    verdict = checked(name)
    assert (verdict.status, words in verdict.reason) == (status, True), verdict.reason
    assert "fp32" in verdict.reason, "the reason names the workload"
    assert "seed" in verdict.reason, "and the seed"
    assert not verdict.contests


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        (
            "changes_controls_when_loaded",
            Status.WRONG,
            "loading its library changes the floating-point controls",
        ),
        ("crashes_when_loaded", Status.CRASHED, "SIGABRT while its library was loaded"),
        ("hangs_when_loaded", Status.HUNG, "made no progress for 1 s while its library was loaded"),
    ],
)
def test_what_a_library_does_when_it_is_loaded_counts(
    checked: Check, name: str, status: Status, words: str
) -> None:
    verdict = checked(name, limits=Limits(wall_s=1.0) if name.startswith("hangs") else None)
    assert (verdict.status, words in verdict.reason) == (status, True), verdict.reason


def test_rows_that_only_a_second_thread_would_compute_are_missed_on_one(
    planted: Planted, spec: RmsNormSpec, describe: Any
) -> None:
    workloads = [spec.workload(32, 256)]
    with NativeJudge(seed=1, threads=2) as judge:
        verdict = judge.check(
            spec, planted("wrong_on_one_thread"), describe=describe, workloads=workloads, seed=5
        )
    assert verdict.status is Status.WRONG, verdict.reason
    assert "one thread" in verdict.reason
    assert "never written" in verdict.reason


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("stops_its_group", "its process was stopped by a signal"),
        ("fork_bomb", "processes and threads"),
        ("floods_stdout", "it was writing to its standard output ('all outputs are right"),
    ],
)
def test_what_a_hung_kernel_was_seen_to_do_is_said(checked: Check, name: str, words: str) -> None:
    verdict = checked(name, limits=Limits(wall_s=1.0))
    assert (verdict.status, words in verdict.reason) == (Status.HUNG, True), verdict.reason
    assert checked("honest_scalar").status is Status.PASSED, "the next one is judged as if nothing had been"


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("closes_descriptors", Status.CRASHED, "closed its channel to the referee"),
        ("patches_the_clock", Status.CHEATED, "changed the code of libc"),
        ("defines_the_clock", Status.CHEATED, "defines clock_gettime"),
    ],
)
def test_acts_against_the_referee_have_their_verdict(
    checked: Check, name: str, status: Status, words: str
) -> None:
    verdict = checked(name)
    assert (verdict.status, words in verdict.reason) == (status, True), verdict.reason


def test_the_evidence_names_what_ran_and_what_guarded_it(checked: Check, planted: Planted) -> None:
    evidence = checked("honest_scalar").evidence
    assert evidence["code"] == hashlib.sha256(planted("honest_scalar").library.read_bytes()).hexdigest()
    for guard in ("process_group", "user", "pid_namespace", "read_only", "processes", "code"):
        assert isinstance(evidence["guards"][guard], str)


def test_an_endless_loop_hangs_for_as_long_as_one_is_patient(checked: Check) -> None:
    verdict = checked("loops", limits=Limits(wall_s=0.7))
    assert verdict.status is Status.HUNG
    assert "no progress for 0.7 s" in verdict.reason


def test_source_that_does_not_compile_is_a_build_error(planted: Planted) -> None:
    with pytest.raises(BuildError) as caught:
        planted("does_not_compile")
    assert caught.value.status == Status.BUILD_FAILED
    assert "fastest_rms_norm_ever" in str(caught.value)


def test_a_library_without_the_function_does_not_build_anything(
    judge: NativeJudge, planted: Planted, spec: RmsNormSpec, describe: Any
) -> None:
    entrant = NativeEntrant("misnamed", planted("honest_scalar").library, "kw_rms_nrom")
    verdict = judge.check(
        spec, entrant, describe=describe, workloads=[spec.workload(1, 64)], seed=0, edge=False
    )
    assert verdict.status is Status.BUILD_FAILED
    assert "kw_rms_nrom" in verdict.reason


def test_a_file_that_is_no_library_does_not_load(
    judge: NativeJudge, spec: RmsNormSpec, describe: Any, tmp_path: Any
) -> None:
    path = tmp_path / "kernel.so"
    path.write_bytes(b"not a library")
    entrant = NativeEntrant("broken", path, "kw_rms_norm")
    verdict = judge.check(
        spec, entrant, describe=describe, workloads=[spec.workload(1, 64)], seed=0, edge=False
    )
    assert verdict.status is Status.BUILD_FAILED
    assert "does not load" in verdict.reason


@pytest.mark.parametrize("name", ["crashes", "exits", "huge_allocation"])
def test_the_next_kernel_is_judged_as_if_nothing_had_happened(checked: Check, name: str) -> None:
    assert checked(name).status is not Status.PASSED
    assert checked("honest_openmp").status is Status.PASSED


def test_the_same_seed_gives_the_same_reason(planted: Planted, spec: RmsNormSpec, describe: Any) -> None:
    def reason(seed: int) -> str:
        return check(
            spec,
            planted("all_zeros"),
            describe=describe,
            workloads=[spec.workload(4, 64)],
            seed=seed,
            edge=False,
        ).reason

    assert reason(3) == reason(3)
    assert reason(3) != reason(4)


def test_without_edge_shapes_only_the_workloads_are_called(checked: Check) -> None:
    verdict = checked("wrong_tail", edge=False)
    assert verdict.status is Status.PASSED, "256 and 512 are multiples of sixteen"
    assert verdict.evidence["cases"] == 4


def test_the_evidence_says_how_much_was_done(checked: Check) -> None:
    evidence = checked("honest_openmp").evidence
    assert evidence["cases"] > 25
    assert evidence["runs"] > 2 * evidence["cases"]
    assert evidence["flush_to_zero"] is False
    assert evidence["refused"] == []
    (layout,) = evidence["not_called"]
    assert layout.startswith("transposed input: ")
    assert "x has no dense last dimension" in layout


def test_impatience_can_be_chosen_for_all_of_a_judge(
    planted: Planted, spec: RmsNormSpec, describe: Any
) -> None:
    with NativeJudge(patience=Patience(silent_s=0.3)) as judge:
        verdict = judge.check(
            spec, planted("loops"), describe=describe, workloads=[spec.workload(1, 64)], seed=0, edge=False
        )
    assert "0.3 s" in verdict.reason
