"""`kernelwright doctor` says which compilers for GPUs are here, in which version, and what each lacks."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.cli import _doctor_cuda
from kernelwright.cli._app import app
from kernelwright.machine import _cuda_tools
from kernelwright.machine import find_cuda_tool

NAMES = ["ptxas", "nvcc", "tileiras", "Triton", "cuTile", "Helion", "CuTe DSL", "FlashInfer"]


def _found(**versions: str) -> dict[str, _doctor_cuda.Check]:
    """What is said where these distributions are installed and no other."""

    def version_of(name: str) -> str:
        known = {key.replace("_", "-"): value for key, value in versions.items()}
        if name not in known:
            raise importlib.metadata.PackageNotFoundError(name)
        return known[name]

    return {check.name: check for check in _doctor_cuda.gpu_compilers(version_of)}


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toolkit as it was before 13.3, and nothing besides."""
    monkeypatch.setattr(_cuda_tools, "_packages", lambda name: [])
    monkeypatch.setattr(_cuda_tools, "_USUAL", tmp_path / "usual")
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    for name in ("CUDA_PATH", "KERNELWRIGHT_CUDA", "TRITON_PTXAS_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    for name in ("ptxas", "nvcc", "tileiras"):
        path = tmp_path / "bin" / name
        said = "'release 13.0, V13.0.88' || echo '--opt-level <N>  (-O)'"
        path.write_text(f"#!/bin/sh\n[ $1 = --version ] && echo {said}\n")
        path.chmod(0o755)
    return tmp_path


def test_what_is_here_is_shown_with_its_version() -> None:
    found = _doctor_cuda.gpu_compilers()
    assert [check.name for check in found] == NAMES
    assert not any(check.required for check in found)
    by_name = {check.name: check for check in found}
    for name in ("ptxas", "nvcc", "tileiras"):
        tool = find_cuda_tool(name)
        assert by_name[name].ok
        assert by_name[name].found.startswith(f"{tool.version} ({tool.path}")
    assert by_name["Triton"].found.startswith(importlib.metadata.version("triton"))
    assert "its own" in by_name["Triton"].found


def test_what_an_old_toolkit_lacks_is_said_with_what_to_do(toolkit: Path) -> None:
    found = _found(triton="3.5.0", cuda_tile="1.7.0")
    remedy = "13.3 or newer has: pip install 'kernelwright[cuda-toolchain]'"
    assert found["ptxas"].found.endswith(f"ptxas 13.0.88 has no --apply-controls, {remedy}")
    assert f"its ptxas has no --apply-controls, {remedy}" in found["nvcc"].found
    assert "it lacks nvlink or libnvvm" in found["nvcc"].found
    assert "it needs libnvvm, libdevice in" in found["tileiras"].found
    assert found["cuTile"].found == "1.7.0"


def test_what_is_not_here_is_said_with_what_to_install(
    toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_HOME")
    found = _found(flashinfer_python="0.7.4", flashinfer_cubin="0.7.4")
    for name in ("ptxas", "nvcc", "tileiras"):
        assert (found[name].ok, found[name].found) == (False, "none that can be used")
        assert found[name].remedy is not None
        assert "pip install 'kernelwright[cuda-toolchain]'" in found[name].remedy
    assert found["Helion"].remedy == "pip install helion"
    assert found["CuTe DSL"].remedy == "pip install nvidia-cutlass-dsl"
    assert "flashinfer-cubin 0.7.4 has kernels compiled before" in found["FlashInfer"].found
    assert "pip uninstall flashinfer-cubin" in found["FlashInfer"].found
    assert "it needs nvcc to compile" in found["FlashInfer"].found


def test_tritons_ptxas_is_the_one_that_it_is_told(toolkit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(toolkit / "bin" / "ptxas"))
    said = _found(triton="3.9.0")["Triton"].found
    assert "ptxas 13.0.88, by TRITON_PTXAS_PATH; that has no --apply-controls: 13.3 or newer has" in said
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(toolkit / "nowhere"))
    assert "its ptxas cannot be used (there is no program" in _found(triton="3.9.0")["Triton"].found


def test_the_command_shows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CACHE", "DATA", "RUNS"):
        monkeypatch.setenv(f"KERNELWRIGHT_{name}", str(tmp_path / name.lower()))
    shown = CliRunner().invoke(app, ["doctor", "--no-measure"]).stdout
    assert "GPU compilers" in shown
    assert [name for name in NAMES if name not in shown] == []
    document = json.loads(CliRunner().invoke(app, ["doctor", "--no-measure", "--json"]).stdout)
    assert [one["name"] for one in document["gpu_compilers"]] == NAMES
