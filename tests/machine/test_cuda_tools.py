"""The CUDA tool used is the one asked for, else that of KERNELWRIGHT_CUDA, else the newest one here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.errors import NoCompilerError
from kernelwright.errors import UnknownNameError
from kernelwright.machine import _cuda_tools
from kernelwright.machine import cuda_help
from kernelwright.machine import find_cuda_tool
from kernelwright.machine import find_cuda_tools

Tool = Callable[[Path, str], Path]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Nothing is here; returns what puts a ptxas of some version into a folder."""
    monkeypatch.setattr(_cuda_tools, "_packages", lambda name: [tmp_path / name])
    monkeypatch.setattr(_cuda_tools, "_USUAL", tmp_path / "usual")
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/bin:/usr/bin")
    for name in ("CUDA_HOME", "CUDA_PATH", "KERNELWRIGHT_CUDA"):
        monkeypatch.delenv(name, raising=False)

    def add(folder: Path, version: str) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "ptxas"
        said = f"Cuda compilation tools, release {version.rpartition('.')[0]}, V{version}"
        path.write_text(
            f"#!/bin/sh\n[ $1 = --version ] && echo '{said}' && exit 0\necho '--opt-level  (-O)'\n"
        )
        path.chmod(0o755)
        return path

    return add


def test_the_newest_one_is_used_wherever_it_is(tool: Tool, tmp_path: Path) -> None:
    wheel = tool(tmp_path / "nvidia" / "cu13" / "bin", "13.5.37")
    tool(tmp_path / "path", "13.0.88")
    tool(tmp_path / "triton" / "backends" / "nvidia" / "bin", "12.9.86")
    found = find_cuda_tool("ptxas")
    assert (found.path, found.version, found.release, found.source) == (
        wheel,
        "13.5.37",
        (13, 5, 37),
        "wheels",
    )
    assert [one.source for one in find_cuda_tools("ptxas")] == ["wheels", "PATH", "Triton's own"]
    newer = tool(tmp_path / "path", "13.10.1")
    assert find_cuda_tool("ptxas").path == newer


def test_of_two_alike_the_wheels_are_used(tool: Tool, tmp_path: Path) -> None:
    tool(tmp_path / "path", "13.5.37")
    wheel = tool(tmp_path / "nvidia" / "cu13" / "bin", "13.5.37")
    assert find_cuda_tool("ptxas").path == wheel


def test_the_one_asked_for_is_used(tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path / "path", "13.5.37")
    home = tool(tmp_path / "home" / "bin", "13.0.88")
    assert find_cuda_tool("ptxas", home).path == home
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert {one.source for one in find_cuda_tools("ptxas")} == {"PATH", "CUDA_HOME"}
    monkeypatch.setenv("KERNELWRIGHT_CUDA", str(tmp_path / "home"))
    assert (find_cuda_tool("ptxas").path, find_cuda_tool("ptxas").source) == (home, "KERNELWRIGHT_CUDA")
    assert find_cuda_tool("ptxas").beside("nvcc") is None
    assert find_cuda_tool("ptxas").beside("ptxas") == home


def test_one_that_is_replaced_is_asked_again(tool: Tool, tmp_path: Path) -> None:
    tool(tmp_path / "path", "13.0.88")
    assert find_cuda_tool("ptxas").version == "13.0.88"
    tool(tmp_path / "path", "13.0.1")
    assert find_cuda_tool("ptxas").version == "13.0.1"
    assert "--opt-level" in cuda_help(find_cuda_tool("ptxas"))


def test_what_is_not_there_is_said_with_what_to_install(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        NoCompilerError, match=r"no ptxas was found: pip install 'kernelwright\[cuda-toolchain\]'"
    ):
        find_cuda_tool("ptxas")
    with pytest.raises(NoCompilerError, match="there is no program 'nowhere'; name the path of ptxas"):
        find_cuda_tool("ptxas", "nowhere")
    with pytest.raises(UnknownNameError, match="unknown CUDA tool 'ptx'; did you mean 'ptxas'"):
        find_cuda_tool("ptx")
    with pytest.raises(NoCompilerError, match="is no ptxas: it does not say its version"):
        find_cuda_tool("ptxas", "/bin/true")
    monkeypatch.setenv("KERNELWRIGHT_CUDA", str(tmp_path))
    with pytest.raises(NoCompilerError, match=r"KERNELWRIGHT_CUDA is .* and there is no ptxas in it"):
        find_cuda_tool("ptxas")
