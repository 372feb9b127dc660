"""Options reach ptxas and nvcc by a fresh file each time; a vendor's file by --apply-controls."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.controls import adapter
from kernelwright.controls import Controls
from kernelwright.controls import ControlsError
from kernelwright.controls import cubin_key
from kernelwright.controls import encode_controls
from kernelwright.controls import Injection
from kernelwright.controls import NvccAdapter
from kernelwright.controls import PtxasAdapter
from kernelwright.controls._cuda_adapters import takes_vendor_files
from kernelwright.machine import find_cuda_tool

KERNEL = Path(__file__).parents[2] / "examples" / "kernels" / "rms_norm.cu"
LOWEST = {"ptxas": ("--opt-level=0",), "nvcc": ("-Xptxas=--opt-level=0",)}
BASELINE = {"ptxas": ("--opt-level=3",), "nvcc": ("-Xptxas=--opt-level=3",)}

Compile = Callable[[str, Injection], str]


def _config(tool: str, options: tuple[str, ...]) -> str:
    return encode_controls(Controls(tool, options))


@pytest.fixture
def compiled(kernel_ptx: Callable[[str], Path], tmp_path: Path) -> Compile:
    """The code key of what a tool makes with an injection."""

    def run(name: str, injection: Injection) -> str:
        out = tmp_path / "x.cubin"
        out.unlink(missing_ok=True)
        what = [kernel_ptx("rms_norm")] if name == "ptxas" else ["-cubin", KERNEL]
        command = [find_cuda_tool(name).path, "-arch=sm_90", *what, "-o", out, *injection.arguments]
        subprocess.run(command, check=True, env={**os.environ, **injection.environment})
        return cubin_key(out)

    return run


@pytest.mark.parametrize("name", ["ptxas", "nvcc"])
def test_the_canary_lives_by_the_binaries(name: str, compiled: Compile, tmp_path: Path) -> None:
    """O0, O3 and no controls, through the adapter into the real tool: O0 alone makes other code."""
    here = adapter(name)
    keys = {
        what: compiled(name, here.inject(config, tmp_path))
        for what, config in {
            "none": {},
            "no options": _config(name, ()),
            "lowest": _config(name, LOWEST[name]),
            "baseline": _config(name, BASELINE[name]),
        }.items()
    }
    assert keys["none"] == keys["no options"] == keys["baseline"]
    assert keys["lowest"] != keys["none"]


@pytest.mark.parametrize("name", ["ptxas", "nvcc"])
def test_each_injection_has_a_file_of_its_own(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "a folder with blanks"
    config = _config(name, LOWEST[name])
    first, second = adapter(name).inject(config, folder), adapter(name).inject(config, folder)
    assert first.files != second.files
    assert first.arguments == (f"--options-file={first.files[0]}",)
    assert LOWEST[name][0] in first.files[0].read_text().splitlines()
    assert "#" not in first.files[0].read_text()
    assert adapter(name).inject({}, folder) == Injection()


def test_a_path_with_blanks_reaches_the_tools(compiled: Compile, tmp_path: Path) -> None:
    for name in ("ptxas", "nvcc"):
        injection = adapter(name).inject(_config(name, LOWEST[name]), tmp_path / "a b")
        assert compiled(name, injection) != compiled(name, Injection())


def test_options_of_another_tool_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ControlsError, match="options of nvcc cannot reach ptxas"):
        adapter("ptxas").inject(_config("nvcc", LOWEST["nvcc"]), tmp_path)
    with pytest.raises(ControlsError, match="options of ptxas cannot reach nvcc"):
        adapter("nvcc").inject(_config("ptxas", LOWEST["ptxas"]), tmp_path)


# -- a vendor's control file -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ptxas", "nvcc"])
def test_a_vendors_file_reaches_ptxas_unread(name: str, tmp_path: Path) -> None:
    """There is none to be had here: that ptxas refuses the content of one that is not, shows that it came."""
    data = bytes(range(256))
    injection = adapter(name).inject(data.hex(), tmp_path)
    assert injection.files[0].read_bytes() == data
    source = tmp_path / "x.cu"
    source.write_text('extern "C" __global__ void x() {}\n')
    nvcc, ptxas = find_cuda_tool("nvcc").path, find_cuda_tool("ptxas").path
    subprocess.run([nvcc, "-ptx", "-arch=sm_90", source, "-o", tmp_path / "x.ptx"], check=True)
    command = [ptxas, tmp_path / "x.ptx"] if name == "ptxas" else [nvcc, "-cubin", source]
    command += ["-arch=sm_90", "-o", tmp_path / "x.cubin", *injection.arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Invalid compiler controls file" in done.stderr


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A ptxas whose help does not list --apply-controls, as before 13.3."""
    path = tmp_path / "bin" / "ptxas"
    path.parent.mkdir()
    path.write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo 'release 13.0, V13.0.88' || echo '--opt-level <N>  (-O)'\n"
    )
    path.chmod(0o755)
    nvcc = path.with_name("nvcc")
    nvcc.write_text(path.read_text())
    nvcc.chmod(0o755)
    return path


def test_a_tool_without_the_option_refuses_a_vendors_file(old: Path, tmp_path: Path) -> None:
    assert not takes_vendor_files(find_cuda_tool("ptxas", old))
    said = r"ptxas 13.0.88 .* has no --apply-controls.* 13.3 or newer has: pip install 'kernelwright\[cuda"
    with pytest.raises(ControlsError, match=said):
        PtxasAdapter(old).inject("00ff", tmp_path)
    with pytest.raises(ControlsError, match=said):
        NvccAdapter(old.with_name("nvcc")).inject("00ff", tmp_path)
    assert not list(tmp_path.glob("*.acf"))


def test_nvcc_cannot_hand_on_a_path_that_its_shell_would_split(tmp_path: Path) -> None:
    with pytest.raises(ControlsError, match="use a folder without blanks and commas"):
        adapter("nvcc").inject("00ff", tmp_path / "a b")
