"""Helion, CuTe DSL, FlashInfer: what is injected, against call sites with the signatures of the real ones."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kernelwright.controls import adapter
from kernelwright.controls import BuildFailure
from kernelwright.controls import Controls
from kernelwright.controls import cute_controls
from kernelwright.controls import cute_options
from kernelwright.controls import encode_controls
from kernelwright.controls import helion_config
from kernelwright.controls import helion_launcher
from kernelwright.controls import NvccSearchSpace
from kernelwright.controls import PrebuiltKernelsError
from kernelwright.controls import PtxasSearchSpace
from kernelwright.controls import ScriptTarget
from kernelwright.controls import TritonSearchSpace
from kernelwright.errors import UsageError

VENDORS = b"\0a vendor's".hex()


def controls(tool: str, *options: str) -> str:
    return encode_controls(Controls(tool, options))


# -- Helion ------------------------------------------------------------------------------------------------


def test_helion_has_names_for_some_options_and_a_launcher_for_the_rest(tmp_path: Path) -> None:
    given = controls("triton", "num_warps=8", "maxnreg=64", "num_ctas=2", "--opt-level=0")
    injection = adapter("helion").inject(given, tmp_path)
    own = {"block_sizes": [1, 1024], "num_warps": 4}
    assert helion_config(own, injection.keywords) == {"block_sizes": [1, 1024], "num_warps": 8, "maxnreg": 64}

    launched: list[dict[str, Any]] = []

    def default_launcher(  # as helion.runtime.default_launcher of 1.5 has it
        triton_kernel: object,
        grid: tuple[int, ...],
        *args: object,
        num_warps: int,
        num_stages: int,
        ptx_options: str | None = None,
        launch_cooperative_grid: bool = False,
        **kwargs: Any,
    ) -> None:
        launched.append({"num_warps": num_warps, "ptx_options": ptx_options, **kwargs})

    launch = helion_launcher(injection.keywords, default_launcher)
    launch("kernel", (1,), "x", num_warps=8, num_stages=1, maxnreg=64)
    launch("kernel", (1,), "x", num_warps=8, num_stages=1, ptx_options="--apply-controls a.acf")
    assert launched == [
        {"num_warps": 8, "ptx_options": "--opt-level=0", "maxnreg": 64, "num_ctas": 2},
        {"num_warps": 8, "ptx_options": "--apply-controls a.acf --opt-level=0", "num_ctas": 2},
    ]
    helion_launcher({}, default_launcher)("kernel", (1,), num_warps=4, num_stages=1)
    assert launched[-1] == {"num_warps": 4, "ptx_options": None}


def test_helion_takes_a_vendors_file_by_its_own_name_for_it(tmp_path: Path) -> None:
    injection = adapter("helion").inject(VENDORS, tmp_path)
    assert injection.keywords == {"advanced_controls_file": str(injection.files[0])}
    assert helion_config({}, injection.keywords) == injection.keywords


def test_helion_keeps_neither_configurations_nor_binaries(tmp_path: Path) -> None:
    one, two = (
        adapter("helion").inject(controls("triton", "num_warps=8"), tmp_path).environment for _ in range(2)
    )
    assert one["HELION_SKIP_CACHE"] == one["TRITON_ALWAYS_COMPILE"] == "1"
    for name in ("HELION_CACHE_DIR", "TRITON_CACHE_DIR"):
        assert one[name] != two[name]


# -- CuTe DSL ----------------------------------------------------------------------------------------------


def test_cute_dsl_gets_one_text_of_ptxas_options(tmp_path: Path) -> None:
    given = controls("ptxas", "--opt-level=0", "--maxrregcount=32")
    injected = adapter("cute_dsl").inject(given, tmp_path).keywords
    assert injected == {"options": "--ptxas-options '--opt-level=0 --maxrregcount=32'"}
    assert cute_options(None, injected) == injected["options"]
    for own in ("--ptxas-options '-v'", '--ptxas-options="-v"', "--ptxas-options -v"):
        joined = cute_options(f"--opt-level 2 {own}", injected)
        assert shlex.split(joined) == [
            "--opt-level",
            "2",
            "--ptxas-options",
            "-v --opt-level=0 --maxrregcount=32",
        ]
    assert cute_options("--opt-level 2", {}) == "--opt-level 2"


def test_cute_dsl_takes_a_vendors_file_and_no_cache(tmp_path: Path) -> None:
    injection = adapter("cute_dsl").inject(VENDORS, tmp_path)
    assert injection.keywords["options"] == f"--ptxas-options '--apply-controls={injection.files[0]}'"
    assert injection.environment["CUTE_DSL_NO_CACHE"] == "1"
    assert injection.environment["CUTE_DSL_DISABLE_FILE_CACHING"] == "1"
    assert Path(injection.environment["CUTE_DSL_CACHE_DIR"]).is_dir()


class PtxasOptions:
    def __init__(self, value: str = "") -> None:
        self.value = value


class CompileCallable:
    """As cutlass.base_dsl.compiler of 4.8 has it: `cute.compile` is one, and `cute.compile[…]` another."""

    def __init__(self, options: Any = None) -> None:
        own = options if isinstance(options, PtxasOptions) else PtxasOptions()
        self._compile_options = type("CompileOptions", (), {"options": {PtxasOptions: own}})()

    def __getitem__(self, options: Any) -> CompileCallable:
        return CompileCallable(options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        text = kwargs.pop("options", None)
        return text or self._compile_options.options[PtxasOptions].value


@pytest.fixture
def compile_callable(monkeypatch: pytest.MonkeyPatch) -> Iterator[CompileCallable]:
    module = ModuleType("cutlass.base_dsl.compiler")
    module.CompileCallable = CompileCallable  # type: ignore[attr-defined]
    module.PtxasOptions = PtxasOptions  # type: ignore[attr-defined]
    for name in ("cutlass", "cutlass.base_dsl"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    before = CompileCallable.__call__
    yield CompileCallable()
    assert CompileCallable.__call__ is before


def test_calls_of_cute_compile_that_cannot_be_reached(compile_callable: CompileCallable) -> None:
    injected = {"options": "--ptxas-options '--opt-level=0'"}
    bracketed = compile_callable[PtxasOptions("'-v'")]
    with cute_controls(injected):
        assert compile_callable("kernel") == "--opt-level=0"
        assert compile_callable("kernel", options="--opt-level 2") == (
            "--opt-level 2 --ptxas-options '--opt-level=0'"
        )
        assert bracketed("kernel") == "-v --opt-level=0"
        with pytest.raises(ZeroDivisionError), cute_controls(injected):
            raise ZeroDivisionError
    assert compile_callable("kernel") == ""
    assert bracketed("kernel") == "'-v'"
    with cute_controls({}):
        assert compile_callable("kernel") == ""


# -- FlashInfer --------------------------------------------------------------------------------------------


def test_flashinfer_gets_flags_of_nvcc_and_a_workspace_of_its_own(tmp_path: Path) -> None:
    given = controls("nvcc", "--maxrregcount=64", "-Xptxas=--opt-level=0")
    one, two = (adapter("flashinfer").inject(given, tmp_path).environment for _ in range(2))
    flags = shlex.split(one["FLASHINFER_EXTRA_CUDAFLAGS"])  # as flashinfer.jit.cpp_ext reads them
    assert flags == ["--maxrregcount=64", "-Xptxas=--opt-level=0"]
    assert one["FLASHINFER_WORKSPACE_BASE"] != two["FLASHINFER_WORKSPACE_BASE"]
    assert not list(Path(one["FLASHINFER_WORKSPACE_BASE"]).iterdir())


def test_flashinfer_hands_a_vendors_file_to_ptxas(tmp_path: Path) -> None:
    injection = adapter("flashinfer").inject(VENDORS, tmp_path)
    flag = injection.environment["FLASHINFER_EXTRA_CUDAFLAGS"]
    assert flag == f"--ptxas-options=--apply-controls={injection.files[0]}"


@pytest.mark.parametrize("package", ["flashinfer_cubin", "flashinfer_jit_cache"])
def test_packages_of_binaries_are_refused(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{package}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PrebuiltKernelsError, match=f"pip uninstall {package.replace('_', '-')}"):
        adapter("flashinfer").inject(controls("nvcc", "--maxrregcount=64"), tmp_path)


def test_kernels_that_flashinfer_brings_compiled_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = tmp_path / "flashinfer" / "data" / "aot" / "norm"
    built.mkdir(parents=True)
    (tmp_path / "flashinfer" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert adapter("flashinfer").inject(controls("nvcc", "--maxrregcount=64"), tmp_path)
    (built / "norm.so").touch()
    with pytest.raises(PrebuiltKernelsError, match="comes with compiled kernels"):
        adapter("flashinfer").inject(controls("nvcc", "--maxrregcount=64"), tmp_path)


# -- targets of any of them --------------------------------------------------------------------------------

SCRIPT = """
import os, subprocess, sys
from pathlib import Path

PTX = '''
.version 7.8
.target sm_90
.address_size 64
.visible .entry add(.param .u64 at) {
  .reg .u64 %a<3>; .reg .f32 %f<3>;
  ld.param.u64 %a1, [at]; ld.global.f32 %f1, [%a1];
  add.f32 %f2, %f1, %f1; add.f32 %f2, %f2, %f1; st.global.f32 [%a1], %f2; ret;
}
'''

def build(options, out, constants):
    assert os.environ["CUTE_DSL_NO_CACHE"] == "1"
    (out / "add.ptx").write_text(PTX)
    words = options.get("options", "").removeprefix("--ptxas-options ").strip("'").split()
    command = ["PTXAS", "-arch=sm_90", *words, "add.ptx", "-o", "add.cubin"]
    done = subprocess.run(command, cwd=out, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
"""


def test_a_script_compiles_with_what_its_adapter_injects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    provider = PtxasSearchSpace(options=["--opt-level"])
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("PTXAS", str(provider.compiler)))
    made = ScriptTarget(f"{script}:build", provider, through="cute_dsl")
    baseline, explicit = made.build({}), made.build(provider.level("baseline"))
    lowest = made.build(provider.level("lowest"))
    assert baseline.code_key == explicit.code_key != lowest.code_key
    assert baseline.resources["spills"] == 0
    assert made.describe()["through"] == "cute_dsl"
    with pytest.raises(BuildFailure, match="Unknown option"):
        made.build(controls("ptxas", "--no-such=1"))


def test_a_script_is_given_options_of_the_tool_that_its_adapter_reaches(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with pytest.raises(UsageError, match="takes options of triton, not of ptxas"):
        ScriptTarget(f"{script}:build", PtxasSearchSpace(options=["--opt-level"]), through="helion")
    for through, provider in (
        ("helion", TritonSearchSpace(options=["num_warps"])),
        ("flashinfer", NvccSearchSpace(options=["--maxrregcount"])),
    ):
        assert ScriptTarget(f"{script}:build", provider, through=through).name.endswith(f"({through})")
