"""The compiler used is the one asked for, else g++, else clang++; without one, it is said what to install."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from kernelwright.errors import NoCompilerError
from kernelwright.machine import _compilers
from kernelwright.machine import find_compiler
from kernelwright.machine._compilers import find_compilers
from kernelwright.machine._gpus import detect_gpus
from kernelwright.machine._gpus import Gpu
from kernelwright.machine._gpus import parse_gpus

GCC = """g++ (Debian 12.2.0-14+deb12u1) 12.2.0
Copyright (C) 2022 Free Software Foundation, Inc."""
CLANG = """Debian clang version 14.0.6
Target: x86_64-pc-linux-gnu"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """An empty PATH to put made-up programs in; returns the function that does."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)

    def add(name: str, version: str, code: int = 0) -> Path:
        path = tmp_path / name
        path.write_text(
            f"#!/bin/sh\nif [ $1 = -dumpmachine ]; then echo some-target; exit {code}; fi\n"
            f"echo '{version}'\nexit {code}\n"
        )
        path.chmod(0o755)
        return path

    return add


def test_gcc_is_preferred(programs):
    path = programs("g++", GCC)
    programs("clang++", CLANG)
    found = find_compiler()
    assert (found.path, found.kind, found.version, found.target) == (path, "gcc", "12.2.0", "some-target")
    assert str(found) == "g++ 12.2.0 (some-target)"


def test_clang_serves_where_there_is_no_gcc(programs):
    programs("clang++", CLANG)
    found = find_compiler()
    assert (found.kind, found.version) == ("clang", "14.0.6")


def test_clang_serves_where_gcc_does_not_run(programs):
    programs("g++", GCC, code=1)
    programs("clang++", CLANG)
    assert find_compiler().kind == "clang"


def test_the_one_asked_for_is_used(programs, monkeypatch):
    programs("g++", GCC)
    other = programs("g++-11", GCC.replace("12.2.0", "11.4.0"))
    monkeypatch.setenv("CXX", "g++-11")
    assert (find_compiler().path, find_compiler().version) == (other, "11.4.0")
    assert [compiler.version for compiler in find_compilers()] == ["11.4.0", "12.2.0"]
    monkeypatch.setenv("CXX", str(other))
    assert find_compiler().path == other


def test_one_asked_for_that_is_not_there_is_an_error_even_if_others_are(programs, monkeypatch):
    programs("g++", GCC)
    monkeypatch.setenv("CXX", "g++ -m32")
    with pytest.raises(NoCompilerError, match=r"CXX is 'g\+\+ -m32'.*without flags"):
        find_compiler()


def test_one_asked_for_that_is_no_compiler_is_an_error(programs, monkeypatch):
    programs("tcc", "tcc version 0.9.27")
    monkeypatch.setenv("CXX", "tcc")
    with pytest.raises(NoCompilerError, match="neither GCC nor Clang"):
        find_compiler()


def test_without_any_the_error_says_what_to_install(programs):
    with pytest.raises(NoCompilerError, match=r"apt install g\+\+"):
        find_compiler()
    assert find_compilers() == ()


@pytest.fixture
def real(tmp_path, monkeypatch):
    """A copy of a real compiler driver, and how often a program was run."""
    path = shutil.which("g++") or shutil.which("clang++")
    if path is None:
        pytest.skip("neither g++ nor clang++ is installed")
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    copy = tmp_path / Path(path).name
    shutil.copy(Path(path).resolve(), copy)
    monkeypatch.setenv("CXX", str(copy))
    asked: list[str] = []
    run = _compilers.run

    def counted(argv, **options):
        asked.append(argv[1])
        return run(argv, **options)

    monkeypatch.setattr(_compilers, "run", counted)

    def fresh() -> _compilers.Compiler:
        """What a new process would find."""
        _compilers._inspect.cache_clear()
        return find_compiler()

    return copy, asked, fresh


def test_what_a_compiler_said_is_kept_until_its_program_changes(real):
    copy, asked, fresh = real
    first = fresh()
    assert len(asked) == 2
    assert fresh() == first
    assert len(asked) == 2
    os.utime(copy, ns=(1, 1))
    assert fresh() == first
    assert len(asked) == 4


@pytest.mark.parametrize("text", ["{", '{"schema": "other"}', "[]"])
def test_kept_answers_that_are_broken_are_asked_for_again(real, tmp_path, caplog, text):
    _, asked, fresh = real
    first = fresh()
    memory = tmp_path / "cache" / "machine" / "compilers.json"
    memory.write_text(text)
    assert fresh() == first
    assert len(asked) == 4
    assert "kept as" in caplog.text
    assert json.loads(memory.read_text())["compilers"]


def test_kept_answers_with_fields_missing_are_asked_for_again(real, tmp_path):
    copy, asked, fresh = real
    first = fresh()
    memory = tmp_path / "cache" / "machine" / "compilers.json"
    document = json.loads(memory.read_text())
    del document["compilers"][str(copy)]["kind"]
    memory.write_text(json.dumps(document))
    assert fresh() == first
    assert len(asked) == 4


def test_a_script_is_asked_each_time(programs):
    programs("g++", GCC)
    assert find_compiler().version == "12.2.0"
    programs("g++", GCC.replace("12.2.0", "13.1.0"))
    _compilers._inspect.cache_clear()
    assert find_compiler().version == "13.1.0"


def test_gpus_are_read_from_nvidia_smi(programs):
    assert detect_gpus() == ()
    programs("nvidia-smi", "NVIDIA H200, 143771, 550.54.15, 9.0")
    assert detect_gpus() == (Gpu("NVIDIA H200", 143771 << 20, "550.54.15", "9.0"),)


def test_a_driver_that_fails_means_no_gpus(programs):
    programs("nvidia-smi", "NVIDIA-SMI has failed because it couldn't communicate with the driver", code=9)
    assert detect_gpus() == ()


def test_lines_that_are_not_gpus_are_left_out():
    assert parse_gpus("A, [N/A], 1, 9.0\nnonsense\n\nB, 10, 2, 8.6\n") == (Gpu("B", 10 << 20, "2", "8.6"),)
