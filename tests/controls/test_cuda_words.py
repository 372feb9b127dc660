"""Options of ptxas and nvcc: what is one, what contradicts what, and what is the target's to say."""

from __future__ import annotations

import pytest

from kernelwright.controls import compiler_arguments
from kernelwright.controls import Controls
from kernelwright.controls import ControlsError
from kernelwright.controls import decode_controls
from kernelwright.controls import encode_controls
from kernelwright.controls import load_compiler_config
from kernelwright.controls import save_compiler_config


@pytest.mark.parametrize(
    ("tool", "options"),
    [
        ("ptxas", ("-O3", "-dlcm=cg", "--maxrregcount=64", "--override-directive-values")),
        ("nvcc", ("--maxrregcount=64", "-Xptxas=-O1", "-Xptxas=--def-load-cache=cg", "--ftz=false")),
        ("nvcc", ("-Xptxas=--fmad=false", "--fmad=true")),  # two compilers
    ],
)
def test_options_are_written_down_and_read(tool: str, options: tuple[str, ...], tmp_path) -> None:
    config = encode_controls(Controls(tool, options))
    assert decode_controls(config) == Controls(tool, options)
    assert compiler_arguments(config) == list(options)
    save_compiler_config(tmp_path / "x", config)
    assert load_compiler_config(tmp_path / "x") == config


@pytest.mark.parametrize(
    ("tool", "options", "said"),
    [
        ("ptxas", ("-O 0",), "write '-O0'"),
        ("ptxas", ("# levels", "-O0"), "takes # for a file's name"),
        ("ptxas", ("--opt-level=1", "-O2"), "--opt-level was given before"),
        ("ptxas", ("-dlcm=ca", "--def-load-cache=cg"), "--def-load-cache was given before"),
        ("ptxas", ("-maxrregcount=32", "--maxrregcount=64"), "--maxrregcount was given before"),
        ("nvcc", ("-Xptxas=-O1", "-Xptxas=--opt-level=2"), "-Xptxas=--opt-level was given before"),
        ("nvcc", ("-dlto", "--lto"), "--dlink-time-opt was given before"),
        ("nvcc", ("-Xptxas=-O1,-dlcm=cg",), "is several options; write -Xptxas=… once for each"),
        ("nvcc", ("-Xptxas",), "is not how options for ptxas are written"),
        ("nvcc", ("--ptxas-options=-O1",), "is not how options for ptxas are written"),
        ("nvcc", ("-Xptxas=-O 1",), "write"),
    ],
)
def test_what_tools_would_misread_is_refused(tool: str, options: tuple[str, ...], said: str) -> None:
    with pytest.raises(ControlsError, match=said):
        encode_controls(Controls(tool, options))


@pytest.mark.parametrize(
    "option",
    [
        "-o=/x",
        "--output-file=/x",
        "-arch=sm_80",
        "--options-file=x",
        "-e=k",
        "-c",
        "--apply-controls=x",
        "-V",
    ],
)
def test_options_of_ptxas_that_say_what_is_built_are_refused(option: str) -> None:
    with pytest.raises(ControlsError, match="says what is built, which is the target's to say"):
        encode_controls(Controls("ptxas", (option,)))
    with pytest.raises(ControlsError, match="says what is built"):
        encode_controls(Controls("nvcc", (f"-Xptxas={option}",)))


@pytest.mark.parametrize(
    "option",
    [
        "-ccbin=/tmp/evil",
        "--compiler-bindir=/tmp/evil",
        "-Xcompiler=-fplugin=x.so",
        "-include=x.h",
        "-I/tmp",
        "-DBLOCK=1",
        "--run",
        "-o=x",
        "-odir=x",
        "-gencode=arch=compute_80",
        "--keep-dir=x",
        "-Xnvlink=x",
        "-cubin",
        "--ptx",
        "-dryrun",
        "--apply-controls=x",
        "-lfoo",
    ],
)
def test_options_of_nvcc_that_say_what_is_built_or_run_are_refused(option: str) -> None:
    with pytest.raises(ControlsError, match="says what is built, which is the target's to say"):
        encode_controls(Controls("nvcc", (option,)))
