"""Triton: its options as a search space, how they arrive, and real cubins for sm_90 without a GPU."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import random
from pathlib import Path
from typing import Any
from typing import ClassVar

import cloudpickle
import pytest

from kernelwright.controls import _framework_target
from kernelwright.controls import adapter
from kernelwright.controls import Artifact
from kernelwright.controls import BuildFailure
from kernelwright.controls import Controls
from kernelwright.controls import ControlsError
from kernelwright.controls import encode_controls
from kernelwright.controls import KernelRun
from kernelwright.controls import PairedTime
from kernelwright.controls import TritonAdapter
from kernelwright.controls import TritonSearchSpace
from kernelwright.controls import TritonTarget
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.process import Limits
from kernelwright.search import StageFailure
from kernelwright.space import Choice
from kernelwright.space import Space

VARIANTS = ("default", "attention", "memory_bound", "wide")
KERNELS = Path(__file__).parents[2] / "examples" / "kernels" / "triton_kernels.py"


def controls(*options: str) -> str:
    return encode_controls(Controls("triton", options))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))


def target(**more: object) -> TritonTarget:
    return TritonTarget(
        f"{KERNELS}:silu_and_mul",
        signature={"x": "*bf16", "out": "*bf16", "width": "i32"},
        constants={"BLOCK": 1024},
        divisible=["x", "out", "width"],
        **more,  # type: ignore[arg-type]
    )


@functools.cache
def wide() -> TritonSearchSpace:
    return TritonSearchSpace(variant="wide", unsafe_math=True)


@functools.cache
def names(variant: str) -> set[str]:
    return set(TritonSearchSpace(variant=variant).space().parameters)  # type: ignore[arg-type]


# -- the search space --------------------------------------------------------------------------------------


def test_the_space_is_what_this_triton_and_its_ptxas_have() -> None:
    from triton.backends.nvidia.compiler import CUDAOptions

    space = wide()
    found = set(space.space().parameters)
    known = {field.name for field in dataclasses.fields(CUDAOptions)}
    assert {name for name in found if not name.startswith("-")} <= known
    assert {"num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "--opt-level"} <= found
    assert not found & {"debug", "launch_pdl", "sanitize_overflow", "--maxrregcount", "--gpu-name"}
    assert space.version.startswith("triton ")
    assert "ptxas " in space.version
    assert space.pin()["version"] == space.version


def test_what_changes_results_is_left_out_unless_asked_for() -> None:
    unsafe = {"enable_fp_fusion", "enable_reflect_ftz", "--optimize-float-atomics"}
    assert unsafe <= set(wide().space().parameters)
    for variant in VARIANTS:
        assert not unsafe & names(variant)


def test_variants_are_about_different_things() -> None:
    assert "--def-load-cache" in names("memory_bound") - names("attention")
    assert "num_stages" in names("attention") - names("memory_bound")
    assert names("default") | names("attention") | names("memory_bound") <= names("wide")


def test_every_configuration_is_read_back() -> None:
    space = wide()
    draw = random.Random(0)
    for _ in range(50):
        configuration = space.space().sample(draw)
        assert space.parse(space.render(configuration)) == configuration


def test_an_option_that_they_lack_is_refused_by_name() -> None:
    with pytest.raises(UnknownNameError, match="num_warps"):
        TritonSearchSpace(options=["num_warp"])
    assert list(TritonSearchSpace(options=["maxnreg"]).space().parameters) == ["maxnreg"]
    with pytest.raises(UnknownNameError, match="num_stages"):
        TritonSearchSpace(options=["num_ctas"], arch=80)


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("num_warps = 8", "name=value"),
        ("#num_warps=8", "no comments"),
        ("-O 0", "-O0"),
        ("maxnreg=", "name=value"),
        ("--gpu-name=sm_80", "what is built"),
        ("name='x'", "name=value"),
    ],
)
def test_what_is_no_option_is_refused_with_its_place(option: str, why: str) -> None:
    with pytest.raises(ControlsError, match=why) as caught:
        controls("num_warps=4", option)
    assert caught.value.line == 3


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(ControlsError, match="given before"):
        controls("num_warps=4", "num_warps=8")
    with pytest.raises(ControlsError, match="given before"):
        controls("-O0", "--opt-level=3")


# -- the adapter -------------------------------------------------------------------------------------------


def test_options_become_keywords_of_a_launch(tmp_path: Path) -> None:
    given = controls("num_warps=8", "enable_fp_fusion=false", "--opt-level=0", "--def-load-cache=cg")
    injection = adapter("triton").inject(given, tmp_path)
    assert injection.keywords == {
        "num_warps": 8,
        "enable_fp_fusion": False,
        "ptx_options": "--opt-level=0 --def-load-cache=cg",
    }
    assert injection.environment["TRITON_ALWAYS_COMPILE"] == "1"
    assert injection.files == ()
    assert adapter("triton").inject({}, tmp_path).keywords == {}


def test_each_injection_has_a_cache_of_its_own(tmp_path: Path) -> None:
    folders = [
        Path(adapter("triton").inject(controls("num_warps=8"), tmp_path).environment["TRITON_CACHE_DIR"])
        for _ in range(2)
    ]
    assert folders[0] != folders[1]
    assert all(folder.is_dir() and not list(folder.iterdir()) for folder in folders)


def test_the_ptxas_that_was_named_is_the_one_for_every_architecture(tmp_path: Path) -> None:
    environment = TritonAdapter("/opt/ptxas").isolation(tmp_path)
    assert environment["TRITON_PTXAS_PATH"] == environment["TRITON_PTXAS_BLACKWELL_PATH"] == "/opt/ptxas"


def test_options_of_another_tool_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ControlsError, match="options of gcc cannot reach triton"):
        adapter("triton").inject(encode_controls(Controls("gcc", ("-O2",))), tmp_path)


def test_a_vendors_file_needs_a_ptxas_that_takes_one(tmp_path: Path) -> None:
    old = tmp_path / "ptxas"
    old.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.8, V12.8.93'; echo '--opt-level'\n")
    old.chmod(0o755)
    with pytest.raises(ControlsError, match=r"does not take .* 13\.3"):
        TritonAdapter(old).inject(b"\0a vendor's".hex(), tmp_path)


def test_a_vendors_file_reaches_ptxas_by_a_fresh_path(tmp_path: Path) -> None:
    injections = [adapter("triton").inject(b"\0a vendor's".hex(), tmp_path) for _ in range(2)]
    [first], [second] = (one.files for one in injections)
    assert first != second
    assert first.read_bytes() == b"\0a vendor's"
    assert injections[0].keywords == {"ptx_options": f"--apply-controls={first}"}
    with pytest.raises(ControlsError, match="has a blank"):
        adapter("triton").inject(b"\0a vendor's".hex(), tmp_path / "a folder")


# -- real cubins -------------------------------------------------------------------------------------------


def test_options_arrive_as_the_artifacts_show(tmp_path: Path) -> None:
    made = target()
    baseline = made.build({})
    explicit = made.build(made.provider.level("baseline"))
    lowest = made.build(made.provider.level("lowest"))
    assert baseline.code_key == explicit.code_key != lowest.code_key
    assert baseline.path == explicit.path
    assert baseline.path.read_bytes()[:4] == b"\x7fELF"
    assert baseline.resources["threads"] == 128
    assert baseline.resources["spills"] == 0
    # And Triton's own: twice the warps, and registers capped.
    other = made.build(controls("num_warps=8", "maxnreg=24"))
    assert other.resources["threads"] == 256
    assert int(other.resources["registers"]) <= 24 < int(baseline.resources["registers"])
    # Nothing is left of what was compiled but the distinct binaries.
    kept = sorted(path.name for path in baseline.path.parent.parent.iterdir())
    assert kept == sorted(one.code_key for one in (baseline, lowest, other))


def test_parameters_of_the_kernel_beside_controls() -> None:
    made = target(
        parameters=Space({"BLOCK": Choice([1024, 2048], default=1024), "num_warps": Choice([4, 8])})
    )
    small = made.build([{"BLOCK": 1024, "num_warps": 4}, None])
    large = made.build([{"BLOCK": 2048, "num_warps": 8}, controls("--opt-level=3")])
    assert small.code_key == made.build({}).code_key != large.code_key
    assert large.resources["threads"] == 256


def test_what_the_compiler_refuses_is_a_typed_failure() -> None:
    with pytest.raises(BuildFailure, match="Unknown option '-no-such'") as caught:
        target().build(controls("--no-such=1"))
    assert caught.value.status == "build_failed"
    assert "Repro command" in caught.value.log
    with pytest.raises(BuildFailure, match="Invalid compiler controls file") as caught:
        target().build(b"\0no control file".hex())
    assert caught.value.status == "build_failed"


def test_a_compiler_that_does_not_end_is_a_typed_failure() -> None:
    with pytest.raises(BuildFailure, match="time limit") as caught:
        target(build_limits=Limits(wall_s=0.05)).build({})
    assert caught.value.status == "build_timeout"


def test_a_compiler_that_crashes_is_a_typed_failure(tmp_path: Path) -> None:
    broken = tmp_path / "ptxas"
    broken.write_text(
        "#!/bin/sh\ncase $1 in --version) echo 'Cuda compilation tools, release 13.5, V13.5.37';;\n"
        "--help) echo '--opt-level <N>  (-O)';; *) kill -SEGV $$;; esac\n"
    )
    broken.chmod(0o755)
    made = target(provider=TritonSearchSpace(options=["num_warps"]))
    made.provider.compiler = broken
    with pytest.raises(BuildFailure) as caught:
        made.build({})
    assert caught.value.status == "compiler_crashed"


# -- measuring ---------------------------------------------------------------------------------------------


def test_a_target_is_sent_to_other_processes_and_says_what_it_is() -> None:
    made = cloudpickle.loads(cloudpickle.dumps(target()))
    assert made.name == "silu_and_mul sm_90 (triton)"
    described = made.describe()
    assert described["kind"] == "triton"
    assert described["provider"]["version"] == made.provider.version


def test_no_kernel_and_no_launch_are_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"path/of/file\.py:function"):
        TritonTarget("silu_and_mul", signature={})
    with pytest.raises(StageFailure, match="no `run`") as caught:
        target().measure(Artifact(tmp_path / "kernel.cubin", "key"))
    assert caught.value.failure_kind == "unsupported"


class FakeBench:
    """In the place of a GPU: says what it was asked, and that the candidate is twice as fast."""

    asked: ClassVar[list[str]] = []

    def __init__(self, run: KernelRun, architecture: str, load: Any) -> None:
        self.load = load

    def alone(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def check(self, path: Path, kernel: str, constants: dict[str, Any]) -> None:
        self.asked.append(f"check {kernel} {constants['BLOCK']}")

    def race(self, baseline: Any, candidate: Any) -> PairedTime:
        self.asked.append(f"race {baseline[2]['BLOCK']} {candidate[2]['BLOCK']}")
        return PairedTime(2e-6, 4e-6, 2.0, 1.9, 2.1, 21)


def test_what_is_measured_was_checked_and_is_compared_with_the_baseline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_framework_target, "FrameworkBench", FakeBench)
    monkeypatch.setattr(FakeBench, "asked", [])
    run = KernelRun(list, list, [1], (1,), (1,))
    made = target(run=run, parameters=Space({"BLOCK": Choice([1024, 2048], default=1024)}))
    baseline, other = made.build({}), made.build([{"BLOCK": 2048}, None])
    assert made.measure(other) == pytest.approx(2e-6)
    assert FakeBench.asked == ["check silu_and_mul 2048", "race 1024 2048"]
    # Equal code has the baseline's time, whatever noise says.
    assert made.measure(baseline) == made.calibrate() == 4e-6


def test_what_is_launched_is_the_artifact_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.compiler import CompiledKernel

    launched: list[Any] = []

    def launch(kernel: CompiledKernel, grid: tuple[int, ...]) -> Any:
        return lambda *words: launched.append((kernel.kernel, kernel.metadata.num_warps, grid, words))

    monkeypatch.setattr(CompiledKernel, "__getitem__", launch)
    made = target()
    built = made.build(controls("num_warps=8", "--opt-level=0"))
    made._load(built.path.parent, ["x", "out", 4096], (16384, 4))()
    assert launched == [(built.path.read_bytes(), 8, (16384, 4, 1), ("x", "out", 4096, 1024))]


def test_measuring_needs_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    made = target(run=KernelRun(list, list, [1], (1,), (1,)))
    with pytest.raises(StageFailure) as caught:
        made.measure(Artifact(tmp_path / "kernel.cubin", "key"))
    assert caught.value.failure_kind == "unsupported"
