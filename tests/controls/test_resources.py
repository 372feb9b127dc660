"""What a kernel needs is read off its cubin, as cuobjdump and `ptxas -v` have it, with no GPU."""

from __future__ import annotations

import re
import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.controls import cubin_key
from kernelwright.controls import read_ptxas_log
from kernelwright.controls import resources_of
from kernelwright.controls._cubin import Cubin
from kernelwright.controls._cubin import REGISTERS
from kernelwright.controls._sass import instruction_mix
from kernelwright.controls._sass import instructions
from kernelwright.errors import FileFormatError
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.machine import CudaTool
from kernelwright.machine import find_cuda_tool
from kernelwright.machine import find_cuda_tools

Ptx = Callable[[str], Path]
TWO = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry first(.param .u64 a) { ret; }
.visible .entry second(.param .u64 a, .param .u32 b) { ret; }
"""


def _every_ptxas() -> list[CudaTool]:
    """One of each version here: CUDA 13's cubins are laid out in another way than CUDA 12's."""
    return list({tool.version: tool for tool in find_cuda_tools("ptxas")}.values())


def _assemble(tool: CudaTool, source: Path, out: Path, *options: str) -> str:
    command = [tool.path, "-v", *options, source, "-o", out]
    return subprocess.run(command, check=True, capture_output=True, text=True).stderr


@pytest.fixture
def spilled(kernel_ptx: Ptx, tmp_path: Path) -> Path:
    out = tmp_path / "spilled.cubin"
    _assemble(find_cuda_tool("ptxas"), kernel_ptx("spills"), out, "-arch=sm_90", "--maxrregcount=32")
    return out


@pytest.mark.parametrize("architecture", ["sm_90", "sm_100"])
@pytest.mark.parametrize(
    ("kernel", "options"),
    [("rms_norm", ()), ("matmul", ()), ("spills", ()), ("spills", ("--maxrregcount=32",))],
)
def test_the_cubin_says_what_ptxas_says(
    kernel_ptx: Ptx, tmp_path: Path, kernel: str, options: tuple[str, ...], architecture: str
) -> None:
    for tool in _every_ptxas():
        out = tmp_path / f"{tool.version}.cubin"
        log = _assemble(tool, kernel_ptx(kernel), out, f"-arch={architecture}", *options)
        said, found = read_ptxas_log(log)[kernel], resources_of(out)
        assert said == {name: getattr(found, name) for name in said}, tool
        assert (found.kernel, found.architecture) == (kernel, architecture)
        assert (found.spills > 0) == bool(options)


def test_what_cuobjdump_says_is_the_same(kernel_ptx: Ptx, tmp_path: Path) -> None:
    out = tmp_path / "x.cubin"
    _assemble(find_cuda_tool("ptxas"), kernel_ptx("matmul"), out, "-arch=sm_90")
    command = [find_cuda_tool("cuobjdump").path, "-res-usage", out]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = resources_of(out)
    usage = {name: int(value) for name, value in re.findall(r"(REG|STACK|SHARED|CONSTANT\[0\]):(\d+)", said)}
    assert usage == {
        "REG": found.registers,
        "STACK": found.stack,
        "SHARED": found.shared + 1024,  # it counts what the system reserves
        "CONSTANT[0]": found.constant,
    }


def test_launch_bounds_and_what_is_launched_bound_the_occupancy(kernel_ptx: Ptx, tmp_path: Path) -> None:
    out = tmp_path / "x.cubin"
    _assemble(find_cuda_tool("ptxas"), kernel_ptx("matmul"), out, "-arch=sm_90")
    assert (resources_of(out).threads, resources_of(out).occupancy) == (256, 0.25)
    assert resources_of(out, threads=128).occupancy == 0.25
    assert resources_of(out, dynamic_shared=100 << 10).occupancy == 0.125


def test_a_kernel_without_launch_bounds_has_no_occupancy_of_its_own(spilled: Path) -> None:
    assert resources_of(spilled).occupancy is None
    assert "occupancy" not in resources_of(spilled).features()
    features = resources_of(spilled, threads=32).features()
    assert features["spills"] == resources_of(spilled).spill_stores + resources_of(spilled).spill_loads
    assert features["occupancy"] == 0.5


def test_local_arrays_are_no_spills(tmp_path: Path) -> None:
    source = tmp_path / "array.cu"
    source.write_text(
        "extern "
        '"C" __global__ void array(float* x, const int* at) { float kept[40]; '
        "for (int i = 0; i < 40; i++) kept[at[i] & 31] = x[i]; x[0] = kept[at[40]]; }"
    )
    out = tmp_path / "array.cubin"
    subprocess.run([find_cuda_tool("nvcc").path, "-cubin", "-arch=sm_90", source, "-o", out], check=True)
    found = resources_of(out)
    assert (found.spills, found.local > 0, found.stack) == (0, True, 160)


def test_instructions_are_told_apart_as_nvdisasm_does(kernel_ptx: Ptx, tmp_path: Path) -> None:
    out = tmp_path / "x.cubin"
    _assemble(find_cuda_tool("ptxas"), kernel_ptx("matmul"), out, "-arch=sm_90")
    command = [find_cuda_tool("nvdisasm").path, "-c", out]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    words = re.findall(r"/\*[0-9a-f]{4,5}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)", listing)
    listed = Counter(words)
    mix = instruction_mix(Cubin(out).code("matmul"))
    assert mix["total"] == len(words) - listed["NOP"]
    assert mix["tensor"] == listed["HMMA"] == 32
    assert mix["async_copy"] == listed["LDGSTS"]
    assert mix["shared_load"] == listed["LDSM"] + listed["LDS"]
    assert mix["global_store"] == listed["STG"]
    assert mix["barrier"] == listed["BAR"]


def test_widths_of_loads_and_stores_are_read() -> None:
    store = struct.pack("<QQ", 0x0000900A01007387, 0x0041E80000100800)
    wide = struct.pack("<QQ", 0x0000900A01007387, 0x0041E80000100C00)
    assert [(one.opcode, one.width) for one in instructions(store + wide)] == [(0x187, 4), (0x187, 16)]


def test_one_of_several_kernels_has_to_be_named(tmp_path: Path) -> None:
    source, out = tmp_path / "two.ptx", tmp_path / "two.cubin"
    source.write_text(TWO)
    _assemble(find_cuda_tool("ptxas"), source, out, "-arch=sm_90")
    with pytest.raises(UsageError, match="has 2 kernels; name one of: "):
        resources_of(out)
    with pytest.raises(UnknownNameError, match="unknown kernel of the cubin 'third'"):
        resources_of(out, "third")
    assert resources_of(out, "second").kernel == "second"
    assert Cubin(out).parameter_sizes("second") == (8, 4)


def test_what_is_no_cubin_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="not a cubin"):
        resources_of(b"nothing of the sort")
    with pytest.raises(FileFormatError, match=r"an ELF file for EM_\w+, not a cubin"):
        resources_of(Path("/bin/sh"))


# -- the key -----------------------------------------------------------------------------------------------


def test_the_same_code_has_the_same_key_whatever_the_command_line(kernel_ptx: Ptx, tmp_path: Path) -> None:
    for tool in _every_ptxas():
        made = {}
        for name, options in {
            "plain": (),
            "explicit": ("-O3",),
            "lines": ("-lineinfo",),
            "lowest": ("-O0",),
            "capped": ("--maxrregcount=64", "--override-directive-values"),
            "loose": ("--maxrregcount=160", "--override-directive-values"),
        }.items():
            out = tmp_path / tool.version / f"{name}.cubin"
            out.parent.mkdir(exist_ok=True)
            _assemble(tool, kernel_ptx("matmul"), out, "-arch=sm_90", *options)
            made[name] = cubin_key(out)
        assert made["plain"] == made["explicit"] == made["lines"], tool
        assert len({made["plain"], made["lowest"], made["capped"]}) == 3, tool


def test_a_cubin_that_asks_for_other_registers_has_another_key(spilled: Path) -> None:
    """The driver sets registers up by an attribute: the same code may run at another speed."""
    data = bytearray(spilled.read_bytes())
    asked = struct.pack("<BBHI", 4, REGISTERS, 8, 6)
    at = data.find(asked) + len(asked)
    assert at > len(asked)
    data[at : at + 4] = struct.pack("<I", 64)
    assert resources_of(bytes(data)).registers == 64
    assert cubin_key(bytes(data)) != cubin_key(spilled)
