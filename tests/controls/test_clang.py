"""Clang's options are asked of clang, reach it by a file, and change what it makes, not what it computes."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from kernelwright import space
from kernelwright.controls import ClangSearchSpace
from kernelwright.controls import compiler_arguments
from kernelwright.controls import Controls
from kernelwright.controls import encode_controls
from kernelwright.controls import GccSearchSpace
from kernelwright.controls import save_compiler_config
from kernelwright.errors import NoCompilerError
from kernelwright.errors import SpaceError
from kernelwright.errors import UnknownNameError
from kernelwright.space import SearchSpace

pytestmark = pytest.mark.skipif(shutil.which("clang++") is None, reason="there is no clang++ here")

SOURCE = """
extern "C" float sum(const float *in, int n) {
  float sum = 0;
  for (int i = 0; i < n; i++) sum += in[i] / 3 + in[i] * in[i];
  return sum;
}
"""


@pytest.fixture(scope="module")
def clang() -> ClangSearchSpace:
    return ClangSearchSpace()


def _sum(folder: Path, options: str | None = None) -> tuple[bytes, float]:
    """The library, compiled with -O3 and these behind it, and what it computes."""
    (folder / "sum.cpp").write_text(SOURCE)
    arguments = []
    if options is not None:
        save_compiler_config(folder / "candidate.acf", options)
        arguments = ["@candidate.acf"]
    library = folder / f"{random.Random(str(options)).random()}.so"
    command = ["clang++", "-O3", *arguments, "-shared", "-fPIC", "sum.cpp", "-o", str(library)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    function = ctypes.CDLL(str(library)).sum
    function.restype = ctypes.c_float
    rng = random.Random(0)
    values = (ctypes.c_float * 1000)(*(rng.random() for _ in range(1000)))
    return library.read_bytes(), float(function(values, 1000))


def test_it_offers_what_this_clang_lists(clang: ClangSearchSpace) -> None:
    names = clang.space().parameters
    known = {"-O", "-funroll-loops", "-fvectorize", "-mllvm -unroll-count", "-mllvm -inline-threshold"}
    assert known <= names.keys()
    said = subprocess.run(
        ["clang++", "-mllvm", "-help-hidden", "-x", "c++", "-c", "/dev/null", "-o", "/dev/null"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in names:
        if name.startswith("-mllvm"):
            assert f"{name.removeprefix('-mllvm ')}" in said


def test_clang_takes_every_option_and_none_changes_results(tmp_path: Path) -> None:
    """Of the widest space, each with a value of its own, a few times: the sum keeps its last bit."""
    wide = ClangSearchSpace(variant="wide")
    plain, expected = _sum(tmp_path)
    rng = random.Random(1)
    for _ in range(4):
        configuration = {name: one.inner.sample(rng) for name, one in wide.space().parameters.items()}  # type: ignore[attr-defined]
        made, computed = _sum(tmp_path, wide.render(configuration))
        assert made != plain
        assert computed == expected


def test_options_that_change_results_are_offered_on_request_alone(
    clang: ClangSearchSpace, tmp_path: Path
) -> None:
    changing = {"-mllvm -force-vector-width", "-ffp-contract", "-fassociative-math", "-freciprocal-math"}
    assert not changing & ClangSearchSpace(variant="wide").space().parameters.keys()
    unsafe = ClangSearchSpace(unsafe_math=True)
    assert changing <= unsafe.space().parameters.keys()
    _, expected = _sum(tmp_path)
    width = unsafe.render({"-O": "3", "-mllvm -force-vector-width": 8})
    assert _sum(tmp_path, width)[1] != expected
    assert unsafe.space().parameters.keys() > clang.space().parameters.keys()


def test_what_is_rendered_is_parsed(clang: ClangSearchSpace) -> None:
    rng = random.Random(1)
    for _ in range(20):
        configuration = clang.space().sample(rng)
        assert clang.parse(clang.render(configuration)) == configuration
    config = clang.render({"-O": "3", "-fvectorize": False, "-mllvm -unroll-runtime": True})
    assert compiler_arguments(config) == ["-O3", "-fno-vectorize", "-mllvm", "-unroll-runtime=true"]


@pytest.mark.parametrize("kind", [GccSearchSpace, ClangSearchSpace])
def test_variants_are_about_parts_of_the_widest(kind: type[GccSearchSpace] | type[ClangSearchSpace]) -> None:
    names = {
        variant: kind(variant=variant).space().parameters.keys()
        for variant in ("default", "attention", "memory_bound", "wide")
    }
    for one in ("attention", "memory_bound"):
        assert len(names[one]) < len(names["default"]) < len(names["wide"])
    assert all(names[one] <= names["wide"] for one in names)
    assert names["attention"] - names["memory_bound"]
    assert names["memory_bound"] - names["attention"]
    with pytest.raises(UnknownNameError, match="unknown variant of a compiler's search space 'fast'"):
        kind(variant="fast")  # type: ignore[arg-type]


def test_the_version_is_part_of_a_searchs_definition(clang: ClangSearchSpace) -> None:
    mine = SearchSpace([{"tile": space.choice([8, 16])}, clang])
    assert SearchSpace([{"tile": space.choice([8, 16])}, ClangSearchSpace()]).fingerprint == mine.fingerprint
    assert clang.version in str(mine.to_json())
    newer = ClangSearchSpace()
    newer.version = "clang 99.0.0 (x86_64-pc-linux-gnu)"
    other = SearchSpace([{"tile": space.choice([8, 16])}, newer])
    assert other.fingerprint != mine.fingerprint
    assert SearchSpace.from_json(mine.to_json(), {"1": clang}).fingerprint == mine.fingerprint
    with pytest.raises(SpaceError, match=r"clang 99.*and it was of .*clang \d"):
        SearchSpace.from_json(mine.to_json(), {"1": newer})


def test_what_is_not_of_this_space_is_said(clang: ClangSearchSpace) -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean '-mllvm -unroll-count'"):
        ClangSearchSpace(options=["-mllvm -unrol-count"])
    chosen = ClangSearchSpace(options=["-mllvm -unroll-count"])
    assert list(chosen.space().parameters) == ["-O", "-mllvm -unroll-count"]
    with pytest.raises(SpaceError, match="options of gcc cannot be a configuration of Clang's search space"):
        clang.parse(encode_controls(Controls("gcc", ("-O3",))))
    with pytest.raises(NoCompilerError, match=r"is g\+\+ .*, and not Clang; name the path of a clang"):
        ClangSearchSpace("g++")
