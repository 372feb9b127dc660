"""The calls that a check makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kernelwright.ops import RmsNormSpec
from kernelwright.referee._cases import Case
from kernelwright.referee._cases import make_cases
from kernelwright.referee._shared import SharedMemory


@pytest.fixture
def store() -> Iterator[SharedMemory]:
    store = SharedMemory("cases", 1 << 28, child_may_write=False)
    yield store
    store.close()


@pytest.fixture
def cases(spec: RmsNormSpec, describe: Any, store: SharedMemory) -> list[Case]:
    return make_cases(spec, describe, [spec.workload(4, 128)], seed=3, edge=True, store=store)


def test_all_kinds_of_contents_and_shapes_are_there(cases: list[Case], spec: RmsNormSpec) -> None:
    kinds = Counter(case.title.split(", ")[1] for case in cases)
    assert kinds["edge shape"] == len(spec.edge_shapes)
    assert kinds["workload"] == 2
    assert kinds["drawn shape"] >= 3
    for kind in (
        "zeros",
        "constant",
        "cancellation",
        "large values",
        "small values",
        "denormals",
        "a few NaN",
    ):
        assert kinds[kind] == 1
    assert kinds["rows apart in the input"] == kinds["rows apart in input and output"] == 1


def test_every_dtype_asked_for_has_its_edge_cases(
    spec: RmsNormSpec, describe: Any, store: SharedMemory
) -> None:
    workloads = [spec.workload(4, 128, dtype=dtype) for dtype in (torch.float32, torch.bfloat16)]
    cases = make_cases(spec, describe, workloads, seed=3, edge=True, store=store)
    per_dtype = Counter(case.dtype for case in cases)
    assert per_dtype[torch.float32] == per_dtype[torch.bfloat16] > 20


def test_shapes_and_contents_are_drawn_from_the_seed(
    cases: list[Case], spec: RmsNormSpec, describe: Any, store: SharedMemory
) -> None:
    def titles(seed: int) -> list[str]:
        made = make_cases(spec, describe, [spec.workload(4, 128)], seed=seed, edge=True, store=store)
        return [case.title for case in made]

    assert titles(3) == [case.title for case in cases]
    assert not set(titles(4)) & set(titles(3))


def test_rows_apart_have_nan_between_them(cases: list[Case], store: SharedMemory) -> None:
    (case,) = [case for case in cases if "rows apart in the input" in case.title]
    (x,) = [buffer for buffer in case.call.buffers if buffer.name == "x"]
    values = store.view(case.inputs["x"], x.nbytes, torch.float32)
    rows, width = case.shape
    assert values.numel() > rows * width
    assert int(values.isnan().sum()) == values.numel() - rows * width


def test_one_row_for_all_is_there_once(cases: list[Case]) -> None:
    (case,) = [case for case in cases if "one row for all" in case.title]
    (x,) = [buffer for buffer in case.call.buffers if buffer.name == "x"]
    assert x.nbytes == case.shape[1] * 4
    assert case.may_refuse


def test_layouts_that_kernels_are_never_called_with_are_listed(
    spec: RmsNormSpec, describe: Any, store: SharedMemory
) -> None:
    left_out: list[str] = []
    made = make_cases(
        spec, describe, [spec.workload(4, 128)], seed=3, edge=True, store=store, not_called=left_out
    )
    assert [line.split(":")[0] for line in left_out] == ["transposed input"]
    assert not [case for case in made if "transposed" in case.title]


def test_denormals_really_are_below_the_smallest_normal_number(
    cases: list[Case], store: SharedMemory
) -> None:
    (case,) = [case for case in cases if "denormals" in case.title]
    (x,) = [buffer for buffer in case.call.buffers if buffer.name == "x"]
    values = store.view(case.inputs["x"], x.nbytes, torch.float32).abs()
    tiny = torch.finfo(torch.float32).smallest_normal
    assert float(((values > 0) & (values < tiny)).float().mean()) > 0.9
