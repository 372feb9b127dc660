"""GCC's options are asked of GCC, reach it by a file, and change what it makes."""

from __future__ import annotations

import ctypes
import random
import subprocess
from pathlib import Path

import pytest

from kernelwright.controls import compiler_arguments
from kernelwright.controls import Controls
from kernelwright.controls import encode_controls
from kernelwright.controls import GccSearchSpace
from kernelwright.controls import load_compiler_config
from kernelwright.controls import save_compiler_config
from kernelwright.errors import NoCompilerError
from kernelwright.errors import SpaceError
from kernelwright.errors import UnknownNameError
from kernelwright.space import SearchSpace

SOURCE = """
int dot(const int *a, const int *b, int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}
"""

SUM = """
extern "C" float sum(const float *in, int n) {
  float sum = 0;
  for (int i = 0; i < n; i++) sum += in[i] / 3 + in[i] * in[i];
  return sum;
}
"""


@pytest.fixture(scope="module")
def gcc() -> GccSearchSpace:
    return GccSearchSpace()


def _assembly(folder: Path, *arguments: str, options: str | None = None) -> str:
    source = folder / "dot.cpp"
    source.write_text(SOURCE)
    command = ["g++", "-O2", *arguments, "-S", "-o", "-", str(source)]
    if options is not None:
        path = folder / f"{abs(hash(options))}.acf"
        save_compiler_config(path, options)
        command.insert(2, f"@{path}")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_it_offers_the_options_that_gcc_lists(gcc: GccSearchSpace) -> None:
    names = gcc.space().parameters
    listed = subprocess.run(
        ["g++", "-Q", "--help=optimizers"], capture_output=True, text=True, check=True
    ).stdout
    assert len(names) > 100
    assert {"-O", "-funroll-loops", "-ftree-vectorize", "--param=max-unroll-times"} <= names.keys()
    assert all(name in listed for name in names if name.startswith("-f"))


def test_options_that_change_results_are_offered_on_request_alone(gcc: GccSearchSpace) -> None:
    assert not {"-ffinite-math-only", "-fassociative-math", "-ffp-contract"} & gcc.space().parameters.keys()
    unsafe = GccSearchSpace(unsafe_math=True, params=False).space().parameters
    assert {"-ffinite-math-only", "-fassociative-math", "-ffp-contract"} <= unsafe.keys()
    for never in (
        "-fpack-struct",
        "-fshort-enums",
        "-fstack-protector-all",
        "-fprofile-reorder-functions",
        "-finline-atomics",
    ):
        assert never not in unsafe


def test_what_is_rendered_is_parsed(gcc: GccSearchSpace) -> None:
    rng = random.Random(1)
    for _ in range(30):
        configuration = gcc.space().sample(rng)
        text = gcc.render(configuration)
        assert gcc.parse(text) == configuration
        assert bytes.fromhex(text).decode().splitlines()[0] == "kernelwright-controls 1 gcc"


def test_gcc_takes_every_option_that_is_offered(gcc: GccSearchSpace, tmp_path: Path) -> None:
    """All of them, each with a value of its own, in a few calls."""
    rng = random.Random(2)
    space = gcc.space()
    for _ in range(4):
        configuration = {name: one.inner.sample(rng) for name, one in space.parameters.items()}  # type: ignore[attr-defined]
        assert "dot" in _assembly(tmp_path, options=gcc.render(configuration))


def test_no_option_offered_changes_results(tmp_path: Path) -> None:
    """Of the widest space, each with a value of its own, a few times: a sum of floats keeps its last bit."""
    wide = GccSearchSpace(variant="wide")
    (tmp_path / "sum.cpp").write_text(SUM)

    def computed(name: str, *arguments: str) -> float:
        command = ["g++", "-O3", *arguments, "-shared", "-fPIC", "sum.cpp", "-o", name]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        function = ctypes.CDLL(str(tmp_path / name)).sum
        function.restype = ctypes.c_float
        values = random.Random(0)
        return float(function((ctypes.c_float * 1000)(*(values.random() for _ in range(1000))), 1000))

    expected = computed("plain.so")
    assert computed("unsafe.so", "-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math") != expected
    rng = random.Random(1)
    for number in range(3):
        configuration = {name: one.inner.sample(rng) for name, one in wide.space().parameters.items()}  # type: ignore[attr-defined]
        save_compiler_config(tmp_path / "candidate.acf", wide.render(configuration))
        assert computed(f"{number}.so", "@candidate.acf") == expected


def test_options_reach_the_compiler_by_a_file(tmp_path: Path) -> None:
    """The canary: what a configuration says changes the code, and nothing does so that says nothing."""
    plain = _assembly(tmp_path)
    vectors = GccSearchSpace(options=["-ftree-vectorize", "-funroll-loops"], params=False)
    unrolled = vectors.render({"-O": "3", "-ftree-vectorize": False, "-funroll-loops": True})
    assert compiler_arguments(unrolled) == ["-O3", "-fno-tree-vectorize", "-funroll-loops"]
    assert _assembly(tmp_path, options=unrolled) != plain
    assert _assembly(tmp_path, options=unrolled) == _assembly(tmp_path, *compiler_arguments(unrolled))
    assert _assembly(tmp_path, options=encode_controls(Controls("gcc", ()))) == plain


def test_where_everything_is_knocked_out_the_objective_gets_the_baseline(gcc: GccSearchSpace) -> None:
    search_space = SearchSpace(gcc)
    nothing = dict.fromkeys(search_space.space.parameters)
    assert search_space.space.contains(nothing)
    assert search_space.config(nothing) == {}
    assert search_space.config({**nothing, "-O": "3"}) == gcc.render({**nothing, "-O": "3"})


def test_a_saved_configuration_can_be_parsed_again(tmp_path: Path, gcc: GccSearchSpace) -> None:
    configuration = gcc.space().sample(random.Random(3))
    save_compiler_config(tmp_path / "best", gcc.render(configuration))
    assert gcc.parse(load_compiler_config(tmp_path / "best")) == configuration


def test_what_is_not_of_this_space_is_said(gcc: GccSearchSpace) -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean '-funroll-loops'"):
        GccSearchSpace(options=["-funrol-loops"])
    with pytest.raises(SpaceError, match="options of clang cannot be"):
        gcc.parse(encode_controls(Controls("clang", ("-O3",))))
    with pytest.raises(SpaceError, match="'-fmagic' is not among the options"):
        gcc.parse(encode_controls(Controls("gcc", ("-fmagic",))))
    with pytest.raises(SpaceError, match="a vendor's control file"):
        gcc.parse("00ff")


def test_without_gcc_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(NoCompilerError, match="there is no compiler 'g--'; name the path"):
        GccSearchSpace("g--")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoCompilerError, match=r"none is here \(found: no compiler\): install one"):
        GccSearchSpace()
    other = tmp_path / "g++"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    with pytest.raises(NoCompilerError, match="does not say what its optimizers are"):
        GccSearchSpace(other)
