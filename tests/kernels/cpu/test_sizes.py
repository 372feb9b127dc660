"""What the size of a call changes: offsets beyond 32 bits, stores past the caches, threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from elftools.elf.elffile import ELFFile
from torch import Tensor

from kernelwright import dispatch
from kernelwright.kernels.cpu import native_kernels
from kernelwright.ops import OperatorSpec
from kernelwright.referee import assert_within_budget

OPERATORS = sorted(native_kernels())

#: Set to run what needs memory for more than 2^31 elements.
LARGE = "KERNELWRIGHT_TEST_LARGE"


def arguments_of(operator: str, rows: int, width: int, dtype: torch.dtype) -> dict[str, Any]:
    spec: OperatorSpec = dispatch.spec(operator)
    return spec.inputs(spec.workload(rows, width, dtype=dtype), torch.Generator().manual_seed(width))


def far_apart(rows: Tensor, stride: int) -> Tensor:
    """The same rows, `stride` elements from each other; memory that nobody touches is never there."""
    count, width = rows.shape
    apart = torch.empty((count - 1) * stride + width, dtype=rows.dtype).as_strided(
        (count, width), (stride, 1)
    )
    return apart.copy_(rows)


@pytest.mark.parametrize("side", ["x", "out"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_rows_may_lie_more_than_32_bits_apart(operator: str, side: str) -> None:
    """The third row begins 2^32 elements, 2^33 bytes, after the first."""
    spec: OperatorSpec = dispatch.spec(operator)
    arguments = arguments_of(operator, 3, 100, torch.bfloat16)
    expected = spec.reference(**arguments)
    out = None
    if side == "out":
        out = far_apart(torch.full_like(expected, float("nan")), 1 << 31)
    else:
        arguments["x"] = far_apart(arguments["x"], 1 << 31)
    result = native_kernels()[operator].bind({})(**arguments, out=out)
    assert_within_budget(result.contiguous(), operator, **arguments)


@pytest.mark.skipif(not os.environ.get(LARGE), reason=f"needs 5 GB of memory; {LARGE}=1 runs it")
@pytest.mark.parametrize("operator", OPERATORS)
def test_more_than_two_to_the_31_elements(operator: str) -> None:
    """Every row of the input is the same memory, so that the output alone is large; element 2^31 is in its
    last rows, which are judged in full."""
    rows, width = (1 << 16) + 3, 1 << 15
    arguments = arguments_of(operator, 1, width, torch.bfloat16)
    one = dispatch.spec(operator).reference(**arguments)
    arguments["x"] = arguments["x"].expand(rows, -1)
    result = native_kernels()[operator].bind({})(**arguments)
    assert result.numel() > 1 << 31
    for part, expected in (
        (result[:64], one),
        (result[-64:], one),
        (result[:, ::4097], one[:, ::4097]),
    ):
        torch.testing.assert_close(part, expected.expand_as(part), rtol=2**-7, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_stores_past_the_caches_are_right_wherever_rows_begin(operator: str, dtype: torch.dtype) -> None:
    """Several megabytes, by a kernel that streams from one megabyte on; once into aligned rows, and once into
    rows at every offset from the boundary that such stores need, whose neighbours stay as they are."""
    bound = native_kernels()[operator].bind({"stream_bytes": 1 << 20})
    for width in (1024, 1029):
        arguments = arguments_of(operator, 521, width, dtype)
        around = torch.full((521, width + 6 + width % 2), 7.0, dtype=dtype)
        inside = around[:, 3 : 3 + width]
        for out in (torch.full((521, width), float("nan"), dtype=dtype), inside):
            bound(**arguments, out=out)
            assert_within_budget(out.contiguous(), operator, **arguments)
        assert bool((around[:, :3] == 7.0).all() and (around[:, 3 + width :] == 7.0).all())


def streaming_stores(library: Path) -> int:
    """How many instructions of a library store past the caches."""
    iced = pytest.importorskip("iced_x86", reason="iced-x86 is not installed: pip install iced-x86")
    with library.open("rb") as stream:
        code = [section.data() for section in ELFFile(stream).iter_sections() if section.name == ".text"]
    decoded = (str(one) for data in code for one in iced.Decoder(64, data))
    return sum(text.startswith(("movnt", "vmovnt")) for text in decoded)


@pytest.mark.parametrize("operator", OPERATORS)
def test_each_kernel_has_stores_past_the_caches(operator: str) -> None:
    kernel = native_kernels()[operator]
    for tier in kernel.tiers():
        assert streaming_stores(kernel.artifact({}, tier).library) > 0, tier


THREADS = """
import json, os, sys
import torch
import kernelwright as kw
from kernelwright import dispatch

def threads():
    return len(os.listdir("/proc/self/task"))

torch.set_num_threads(1)  # making the inputs wakes nobody
spec = dispatch.spec(sys.argv[1])
sizes = [(rows, 1024) for rows in (2, 1024)]
calls = [spec.inputs(spec.workload(*one, dtype=torch.bfloat16), torch.Generator()) for one in sizes]
torch.set_num_threads(2)
before = threads()
seen = []
for arguments in calls:
    getattr(kw.ops, spec.name)(**arguments, backend="cpu")
    seen.append(threads() - before)
print(json.dumps(seen))
"""


@pytest.mark.parametrize("operator", OPERATORS)
def test_threads_join_in_from_a_size_on(operator: str) -> None:
    """Of two calls in a fresh process, of kilobytes and of megabytes, the second one wakes a thread."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", THREADS, operator], capture_output=True, text=True, env=environment, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == [0, 1]
