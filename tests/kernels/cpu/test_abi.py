"""The C ABI: one layout on both sides, and which tensors are rows."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelwright import machine
from kernelwright.kernels.cpu import _abi
from kernelwright.kernels.cpu import CallBlock
from kernelwright.kernels.cpu import native_kernels

FOLDER = Path(_abi.__file__).parent
INCLUDE = FOLDER / "include"

_LAYOUT = r"""
#include <stdio.h>
#include <stddef.h>
#include "kw/abi.h"
int main(void) {
  printf("%zu %zu %zu %zu %zu %d\n", sizeof(kw_call), offsetof(kw_call, scalar), offsetof(kw_call, tensor),
         sizeof(kw_tensor), offsetof(kw_tensor, dtype), KW_ABI_VERSION);
  return 0;
}
"""


def test_the_call_block_has_the_layout_that_c_sees(tmp_path: Path) -> None:
    source, program = tmp_path / "layout.cpp", tmp_path / "layout"
    source.write_text(_LAYOUT)
    compiler = machine.find_compiler().path
    subprocess.run([compiler, f"-I{INCLUDE}", str(source), "-o", str(program)], check=True)
    seen = [int(word) for word in subprocess.check_output([str(program)]).split()]
    tensor = _abi._Tensor
    assert seen == [
        ctypes.sizeof(CallBlock),
        CallBlock.scalar.offset,
        CallBlock.tensor.offset,
        ctypes.sizeof(tensor),
        tensor.dtype.offset,
        _abi.ABI_VERSION,
    ]


shapes = st.lists(st.integers(0, 4), min_size=1, max_size=4)


@given(shapes, st.randoms(use_true_random=False))
def test_rows_name_the_same_elements_as_the_tensor(shape: list[int], random: object) -> None:
    tensor = torch.arange(4**6).as_strided(shape, [random.choice([0, 1, 3, 4, 12, 16]) for _ in shape])  # type: ignore[attr-defined]
    view = _abi.as_rows(torch.float32, tuple(tensor.shape), tuple(tensor.stride()))
    if view is None:
        return
    as_view = torch.arange(4**6).as_strided(view.sizes, view.strides)
    assert torch.equal(as_view.reshape(-1), tensor.reshape(-1))


@given(shapes)
def test_contiguous_tensors_are_rows(shape: list[int]) -> None:
    tensor = torch.empty(shape)
    view = _abi.as_rows(torch.float32, tuple(tensor.shape), tuple(tensor.stride()))
    assert view is not None
    assert view.sizes[0] * view.sizes[1] == tensor.numel()
    assert view.span == tensor.numel()


@pytest.mark.parametrize(
    ("make", "accepted"),
    [
        (lambda: torch.empty(6, 8), True),
        (lambda: torch.empty(6, 16)[:, 3:11], True),
        (lambda: torch.empty(12, 8)[::2], True),
        (lambda: torch.empty(8).expand(6, 8), True),
        (lambda: torch.empty(2, 3, 8), True),
        (lambda: torch.empty(8, 6).t(), False),
        (lambda: torch.empty(6, 16)[:, ::2], False),
        (lambda: torch.empty(3, 2, 8).transpose(0, 1), False),
        (lambda: torch.empty(4, 6, 8)[:, :3], False),
        (lambda: torch.empty(()), False),
    ],
)
def test_which_layouts_are_rows(make: object, accepted: bool) -> None:
    tensor = make()  # type: ignore[operator]
    view = _abi.as_rows(tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
    assert (view is not None) == accepted


def test_spans_count_the_elements_reached() -> None:
    view = _abi.as_rows(torch.float32, (3, 5), (100, 1))
    assert view is not None
    assert view.span == 205
    empty = _abi.as_rows(torch.float32, (0, 5), (100, 1))
    assert empty is not None
    assert empty.span == 0


def test_no_kernel_includes_a_header_of_torch() -> None:
    sources = [path for path in FOLDER.rglob("*") if path.suffix in (".cpp", ".h")]
    included = {
        name for path in sources for name in re.findall(r'#\s*include\s*[<"]([^>"]+)', path.read_text())
    }
    assert {"kw/abi.h", "kw/vec.h"} <= included
    assert not [name for name in included if name.startswith(("torch", "ATen", "c10", "pybind", "Python"))]
    for kernel in native_kernels().values():
        request = kernel.request({})
        assert not [flag for flag in (*request.flags, *request.section.include) if "torch" in flag]
