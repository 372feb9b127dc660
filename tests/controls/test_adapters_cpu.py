"""Options reach gcc and clang by a file of their own, and change what is compiled."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kernelwright.build import code_key
from kernelwright.controls import adapter
from kernelwright.controls import ClangSearchSpace
from kernelwright.controls import compiler_arguments
from kernelwright.controls import CompilerSearchSpace
from kernelwright.controls import Controls
from kernelwright.controls import ControlsError
from kernelwright.controls import encode_controls
from kernelwright.controls import GccSearchSpace
from kernelwright.controls import load_compiler_config
from kernelwright.errors import UnknownNameError
from kernelwright.search import BASELINE_CONFIG

SOURCE = """
extern "C" void scale(float *out, const float *in, int n) {
  for (int i = 0; i < n; i++) out[i] = 2 * in[i] + 1;
}
"""
SPACES: dict[str, type[CompilerSearchSpace]] = {"gcc": GccSearchSpace, "clang": ClangSearchSpace}


@pytest.fixture(params=["gcc", "clang"])
def tool(request: pytest.FixtureRequest) -> str:
    command = {"gcc": "g++", "clang": "clang++"}[request.param]
    if shutil.which(command) is None:
        pytest.skip(f"there is no {command} here")
    return str(request.param)


def _key(tool: str, folder: Path, config: Any) -> str:
    """The code key of the source, compiled with -O3 and a configuration behind it."""
    (folder / "scale.cpp").write_text(SOURCE)
    compiler = {"gcc": "g++", "clang": "clang++"}[tool]
    injection = adapter(tool).inject(config, folder / "controls")
    command = [compiler, "-O3", "-shared", "-fPIC", "-Wl,--build-id=none", "scale.cpp", "-o", "scale.so"]
    subprocess.run([*command, *injection.arguments], cwd=folder, check=True, capture_output=True)
    return code_key(folder / "scale.so")


def test_the_levels_prove_that_options_arrive(tool: str, tmp_path: Path) -> None:
    """The canary, by the binary alone: the baseline's own level changes nothing, the lowest everything."""
    provider = SPACES[tool]()  # type: ignore[call-arg]
    baseline = _key(tool, tmp_path, BASELINE_CONFIG)
    assert _key(tool, tmp_path, provider.level("baseline")) == baseline
    assert _key(tool, tmp_path, provider.level("highest")) == baseline
    assert _key(tool, tmp_path, provider.level("lowest")) != baseline
    with pytest.raises(UnknownNameError, match=r"unknown level of .* 'O3'.*baseline, highest, lowest"):
        provider.level("O3")  # type: ignore[arg-type]


def test_each_injection_has_a_file_of_its_own_that_can_be_read_again(tool: str, tmp_path: Path) -> None:
    config = encode_controls(Controls(tool, ("-O1", "-funroll-loops")))
    one, two = (adapter(tool).inject(config, tmp_path) for _ in range(2))
    assert one.files[0] != two.files[0]
    assert one.arguments == (f"@{one.files[0]}",)
    assert load_compiler_config(one.files[0]) == config
    assert (one.environment, one.keywords) == ({}, {})


def test_the_baseline_needs_nothing(tool: str, tmp_path: Path) -> None:
    injection = adapter(tool).inject(BASELINE_CONFIG, tmp_path / "controls")
    assert (injection.arguments, injection.files) == ((), ())
    assert not (tmp_path / "controls").exists()


def test_options_of_another_tool_are_refused(tmp_path: Path) -> None:
    config = encode_controls(Controls("clang", ("-O1",)))
    with pytest.raises(ControlsError, match="options of clang cannot reach gcc, which takes those of gcc"):
        adapter("gcc").inject(config, tmp_path)
    with pytest.raises(UnknownNameError, match=r"unknown adapter 'gc'; did you mean .*'gcc'"):
        adapter("gc")


def test_an_option_of_llvm_is_one_line_and_two_words(tmp_path: Path) -> None:
    config = encode_controls(Controls("clang", ("-O3", "-mllvm -unroll-count=8")))
    assert compiler_arguments(config) == ["-O3", "-mllvm", "-unroll-count=8"]
    assert bytes.fromhex(config).decode().splitlines()[2] == "-mllvm -unroll-count=8"
    if shutil.which("clang++") is not None:
        assert _key("clang", tmp_path, config) != _key("clang", tmp_path, BASELINE_CONFIG)
    for wrong in ("-mllvm  -unroll-count=8", "-mllvm", "-mllvm unroll", "-mllvm -a -b", "-funroll -x"):
        with pytest.raises(ControlsError, match="is not an option"):
            encode_controls(Controls("clang", (wrong,)))
    with pytest.raises(ControlsError, match="is not an option"):
        encode_controls(Controls("gcc", ("-mllvm -unroll-count=8",)))
