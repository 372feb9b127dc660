"""PTX and CUDA sources are built under controls with no GPU; what is known of the binary prunes them."""

from __future__ import annotations

import pickle
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.controls import BuildFailure
from kernelwright.controls import canary
from kernelwright.controls import Controls
from kernelwright.controls import ControlsObjective
from kernelwright.controls import CudaTarget
from kernelwright.controls import encode_controls
from kernelwright.controls import KernelRun
from kernelwright.controls import NvccSearchSpace
from kernelwright.controls import PtxasSearchSpace
from kernelwright.controls import PtxTarget
from kernelwright.controls import resources_of
from kernelwright.controls import target_from
from kernelwright.controls import VendorFiles
from kernelwright.errors import UsageError
from kernelwright.machine import find_cuda_tool
from kernelwright.process import Limits
from kernelwright.search import INVALID_SCORE
from kernelwright.search import Search
from kernelwright.search import Skip
from kernelwright.search import StageFailure
from kernelwright.space import choice
from kernelwright.space import Space

KERNELS = Path(__file__).parents[2] / "examples" / "kernels"
SPACE = Space({"BLOCK": choice([256, 128]), "UNROLL": choice([2, 4])})

Ptx = Callable[[str], Path]


def _capped(provider: PtxasSearchSpace, registers: int) -> str:
    nothing = dict.fromkeys(provider.space().parameters)
    return provider.render({**nothing, "--maxrregcount": registers})


@pytest.fixture(scope="module")
def ptxas() -> PtxasSearchSpace:
    return PtxasSearchSpace()


@pytest.fixture(scope="module")
def nvcc() -> NvccSearchSpace:
    return NvccSearchSpace(options=["--maxrregcount", "-Xptxas=--opt-level"])


@pytest.mark.parametrize("kernel", ["rms_norm", "matmul"])
def test_the_canary_lives_on_ptx(
    kernel: str, kernel_ptx: Ptx, ptxas: PtxasSearchSpace, tmp_path: Path
) -> None:
    target = PtxTarget(kernel_ptx(kernel), kernel, ptxas, folder=tmp_path)
    report = canary(target, measure=False).check()
    assert [stage.name for stage in report.stages if stage.passed] == [
        "baseline",
        "controls",
        "build",
        "cache",
        "highest",
        "sample",
    ]


def test_the_canary_lives_on_cuda(nvcc: NvccSearchSpace, tmp_path: Path) -> None:
    target = CudaTarget(KERNELS / "matmul.cu", "matmul", nvcc, folder=tmp_path)
    assert canary(target, measure=False).check().passed


def test_a_target_that_loses_its_controls_is_caught(
    kernel_ptx: Ptx, ptxas: PtxasSearchSpace, tmp_path: Path
) -> None:
    class Deaf(PtxTarget):
        def build(self, config):  # type: ignore[no-untyped-def]
            return super().build({})

    report = canary(Deaf(kernel_ptx("rms_norm"), "rms_norm", ptxas, folder=tmp_path), measure=False)
    assert report.failed is not None
    assert (report.failed.name, "the option is lost" in report.failed.said) == ("build", True)


def test_what_spills_is_pruned_with_no_run(kernel_ptx: Ptx, ptxas: PtxasSearchSpace, tmp_path: Path) -> None:
    target = PtxTarget(kernel_ptx("spills"), "spills", ptxas, folder=tmp_path)
    objective = ControlsObjective(target, constraints=["spills == 0"])
    fits = objective.build(_capped(ptxas, 128))
    assert objective.features(fits)["spills"] == 0
    with pytest.raises(Skip, match=r"spills == 0 does not hold: \{'spills': 984\}") as pruned:
        objective.features(objective.build(_capped(ptxas, 32)))
    assert pruned.value.failure_kind == "pruned"
    assert pruned.value.features["registers"] == 32


def test_identical_binaries_are_recognised_and_counted(
    kernel_ptx: Ptx, ptxas: PtxasSearchSpace, tmp_path: Path
) -> None:
    target = PtxTarget(kernel_ptx("rms_norm"), "rms_norm", ptxas, folder=tmp_path)
    objective = ControlsObjective(target)
    for config in Search(objective, ptxas).sample(12):
        assert objective(config) == INVALID_SCORE  # nothing can be timed without a `run`
    counts = objective.counts
    assert counts.evaluations == 12
    assert 1 < counts.distinct < 12
    assert len(list(tmp_path.glob("*.cubin"))) == counts.distinct
    assert not list(tmp_path.glob("build-*"))


def test_parameters_of_the_kernel_are_macros(nvcc: NvccSearchSpace, tmp_path: Path) -> None:
    target = CudaTarget(KERNELS / "rms_norm.cu", "rms_norm", nvcc, parameters=SPACE, folder=tmp_path)
    plain, explicit = target.build({}), target.build([{"BLOCK": 256, "UNROLL": 2}, None])
    assert plain == explicit or plain.code_key == explicit.code_key
    other = target.build([{"BLOCK": 128, "UNROLL": 4}, nvcc.level("baseline")])
    assert other.code_key != plain.code_key
    assert (plain.resources["threads"], other.resources["threads"]) == (256, 128)
    assert resources_of(other.path).features() == other.resources


def test_link_time_optimisation_is_made_in_two_steps(tmp_path: Path) -> None:
    provider = NvccSearchSpace(options=["--dlink-time-opt", "--maxrregcount"])
    assert "--dlink-time-opt" in provider.space().parameters
    target = CudaTarget(KERNELS / "matmul.cu", "matmul", provider, folder=tmp_path)
    linked = target.build(provider.render({"--dlink-time-opt": "on", "--maxrregcount": None}))
    capped = target.build(provider.render({"--dlink-time-opt": "on", "--maxrregcount": 64}))
    assert linked.resources["registers"] > capped.resources["registers"] == 64


def test_how_it_is_launched_sharpens_what_is_known(
    kernel_ptx: Ptx, ptxas: PtxasSearchSpace, tmp_path: Path
) -> None:
    run = KernelRun(list, list, [], grid=[1], block=[32, 2], shared=100 << 10)
    made = PtxTarget(kernel_ptx("spills"), "spills", ptxas, run=run, folder=tmp_path).build({})
    assert (made.resources["threads"], made.resources["occupancy"]) == (64, 0.0625)


# -- failures ----------------------------------------------------------------------------------------------


def test_a_source_that_does_not_compile_is_build_failed(
    ptxas: PtxasSearchSpace, nvcc: NvccSearchSpace, tmp_path
) -> None:
    wrong = tmp_path / "wrong.ptx"
    wrong.write_text(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { nonsense; }\n")
    with pytest.raises(BuildFailure, match="error") as failure:
        PtxTarget(wrong, "k", ptxas, folder=tmp_path).build({})
    assert failure.value.status == "build_failed"
    source = tmp_path / "wrong.cu"
    source.write_text("nonsense\n")
    with pytest.raises(BuildFailure, match="error") as failure:
        CudaTarget(source, "k", nvcc, folder=tmp_path).build({})
    assert failure.value.status == "build_failed"
    assert not list(tmp_path.glob("*.cubin"))


def test_a_newer_ptx_than_ptxas_reads_is_build_failed(ptxas: PtxasSearchSpace, tmp_path: Path) -> None:
    source = tmp_path / "new.ptx"
    source.write_text(".version 99.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n")
    with pytest.raises(BuildFailure, match=r"Unsupported .version 99.0") as failure:
        PtxTarget(source, "k", ptxas, folder=tmp_path).build({})
    assert failure.value.status == "build_failed"


def test_a_kernel_that_is_not_there_is_said(nvcc: NvccSearchSpace, tmp_path: Path) -> None:
    with pytest.raises(BuildFailure, match="has no kernel 'norm'; it has: rms_norm"):
        CudaTarget(KERNELS / "rms_norm.cu", "norm", nvcc, folder=tmp_path).build({})


def _impostor(folder: Path, does: str) -> Path:
    """A ptxas that says its version and does something else when it is to compile."""
    real = find_cuda_tool("ptxas")
    path = folder / "ptxas"
    path.write_text(f"#!/bin/sh\ncase $1 in --version|--help) exec {real.path} $1;; esac\n{does}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("does", "status"),
    [
        ("kill -SEGV $$", "compiler_crashed"),
        ("echo 'ptxas fatal   : (C7600) Internal error' >&2; exit 255", "compiler_crashed"),
        ("echo 'ptxas fatal   : (C7602) Insufficient registers (128)' >&2; exit 255", "build_failed"),
        ("exec sleep 600", "build_timeout"),
    ],
)
def test_a_compiler_that_crashes_or_hangs_is_typed(
    does: str, status: str, kernel_ptx: Ptx, ptxas: PtxasSearchSpace, tmp_path: Path
) -> None:
    provider = pickle.loads(pickle.dumps(ptxas))
    provider.compiler = _impostor(tmp_path, does)
    target = PtxTarget(
        kernel_ptx("rms_norm"), "rms_norm", provider, folder=tmp_path, build_limits=Limits(wall_s=2.0)
    )
    with pytest.raises(BuildFailure) as failure:
        target.build({})
    assert failure.value.status == failure.value.failure_kind == status
    assert not list(tmp_path.glob("build-*"))


def test_measuring_says_what_is_missing(kernel_ptx: Ptx, ptxas: PtxasSearchSpace, tmp_path: Path) -> None:
    target = PtxTarget(kernel_ptx("rms_norm"), "rms_norm", ptxas, folder=tmp_path)
    with pytest.raises(StageFailure, match="was given no `run`") as failure:
        target.measure(target.build({}))
    assert failure.value.failure_kind == "unsupported"


def test_what_makes_no_sense_is_said(kernel_ptx: Ptx, ptxas: PtxasSearchSpace, nvcc: NvccSearchSpace) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        PtxTarget("nowhere.ptx", "k", ptxas)
    with pytest.raises(UsageError, match="PTX is compiled by ptxas, not by nvcc"):
        PtxTarget(kernel_ptx("rms_norm"), "rms_norm", nvcc)
    with pytest.raises(UsageError, match="CUDA sources are compiled by nvcc, not by ptxas"):
        CudaTarget(KERNELS / "rms_norm.cu", "rms_norm", ptxas)
    target = PtxTarget(kernel_ptx("rms_norm"), "rms_norm", ptxas)
    with pytest.raises(UsageError, match="is a hex string or"):
        target.build([{}, ptxas.level("lowest")])
    with pytest.raises(UsageError, match="options of gcc cannot reach ptxas"):
        target.build(encode_controls(Controls("gcc", ("-O3",))))


def test_a_vendors_file_can_be_a_candidate(kernel_ptx: Ptx, tmp_path: Path) -> None:
    """One that is no such file is refused by ptxas itself, which alone reads it."""
    (tmp_path / "O3.acf").write_bytes(bytes(range(256)))
    files = VendorFiles(tmp_path / "O3.acf")
    target = PtxTarget(kernel_ptx("rms_norm"), "rms_norm", files, folder=tmp_path / "made")
    assert target.build(files.render({"file": None})).code_key == target.build({}).code_key
    with pytest.raises(BuildFailure, match="Invalid compiler controls file") as failure:
        target.build(files.render({"file": files.names[0]}))
    assert failure.value.status == "build_failed"


# -- elsewhere ---------------------------------------------------------------------------------------------


def test_a_target_travels_to_another_process(
    kernel_ptx: Ptx, ptxas: PtxasSearchSpace, tmp_path: Path
) -> None:
    target = PtxTarget(kernel_ptx("rms_norm"), "rms_norm", ptxas, folder=tmp_path)
    there = pickle.loads(pickle.dumps(ControlsObjective(target, constraints=["spills == 0"])))
    assert there.build({}).code_key == target.build({}).code_key


def test_a_target_is_made_again_from_a_journal(
    kernel_ptx: Ptx, ptxas: PtxasSearchSpace, tmp_path: Path
) -> None:
    target = PtxTarget(kernel_ptx("rms_norm"), "rms_norm", ptxas, folder=tmp_path)
    again = target_from(target.describe())
    assert again.describe() == target.describe()
    assert again.provider.version == ptxas.version
    launched = PtxTarget(kernel_ptx("rms_norm"), "rms_norm", ptxas, run=KernelRun(list, list, [], [1], [1]))
    with pytest.raises(UsageError, match="Python, which no journal keeps; name the file"):
        target_from(launched.describe())
