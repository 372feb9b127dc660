"""Workloads are written by people, costed by what must move, and share winners by bucket."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from kernelwright.dispatch import spec
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.ops import dtype_name
from kernelwright.ops import DTYPES
from kernelwright.ops import OperatorSpec
from kernelwright.ops import parse_dtype

OPERATORS = ("rms_norm", "softmax", "silu_and_mul")
operators = st.sampled_from([spec(name) for name in OPERATORS])
dtypes = st.sampled_from([torch.float32, torch.bfloat16, torch.float16])
sizes = st.integers(0, 1 << 20)


@given(operators, dtypes, sizes, sizes)
def test_a_workload_reads_back_as_it_was_written(about: OperatorSpec, dtype, rows, last):
    workload = about.workload(rows, last, dtype=dtype)
    assert about.parse_workload(workload.name, torch.float32) == workload
    assert about.parse_workload(workload.shape_name, dtype) == workload
    assert about.parse_workload(workload.name.upper(), dtype).sizes == workload.sizes


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    "text", ["", "x", "4096", "4x5x6", "-1x3", "4096*4096", "4x", "fourxfive", "4.0x4", "4x4:", "٤x4"]
)
def test_what_is_no_workload_is_an_error_that_shows_one(operator, text):
    about: OperatorSpec = spec(operator)
    if text in ("4x4:", "٤x4"):  # an empty suffix and digits of any script do no harm
        assert about.parse_workload(text, torch.float32).shape_name == "4x4"
        return
    with pytest.raises((UnknownNameError, UsageError)) as caught:
        about.parse_workload(text, torch.float32)
    assert (
        "4096" in str(caught.value)
        or "11008" in str(caught.value)
        or "x".join(about.dims) in str(caught.value)
    )


def test_a_dtype_that_the_operator_lacks_is_an_error_with_those_it_has():
    with pytest.raises(UnknownNameError, match="known: bf16, fp16, fp32"):
        spec("softmax").parse_workload("4x4:fp64", torch.float32)
    with pytest.raises(UnknownNameError, match="did you mean 'bf16'"):
        spec("softmax").parse_workload("4x4:bf61", torch.float32)


def test_dtypes_have_short_names_and_torchs_own():
    for name, dtype in DTYPES.items():
        assert parse_dtype(name) is dtype
        assert dtype_name(dtype) == name
    assert parse_dtype("bfloat16") is torch.bfloat16
    assert parse_dtype("HALF") is torch.float16
    assert dtype_name(torch.int8) == "int8"


@given(operators, dtypes, sizes, sizes, sizes)
def test_cost_grows_with_every_size_and_counts_each_byte_once(about: OperatorSpec, dtype, rows, last, more):
    cost = about.cost(about.workload(rows, last, dtype=dtype))
    bigger = about.cost(about.workload(rows + more, last, dtype=dtype))
    wider = about.cost(about.workload(rows, last + more, dtype=dtype))
    for other in (bigger, wider):
        assert other.bytes_read >= cost.bytes_read
        assert other.bytes_written >= cost.bytes_written
        assert other.flops >= cost.flops
    assert cost.bytes == cost.bytes_read + cost.bytes_written


@given(operators, dtypes, st.integers(0, 9), st.integers(0, 9))
def test_bytes_are_those_of_the_tensors(about: OperatorSpec, dtype, rows, last):
    workload = about.workload(rows, last, dtype=dtype)
    arguments = about.inputs(workload, torch.Generator().manual_seed(0))
    cost = about.cost(workload)
    assert cost.bytes_read == sum(arguments[name].nbytes for name in about.tensors)
    assert cost.bytes_written == about.reference(**arguments).nbytes


@given(operators, dtypes, sizes, sizes)
def test_a_bucket_holds_sizes_within_a_factor_of_two_of_one_dtype(about: OperatorSpec, dtype, rows, last):
    workload = about.workload(rows, last, dtype=dtype)
    floor = about.workload(*(1 << (n.bit_length() - 1) if n else 0 for n in (rows, last)), dtype=dtype)
    assert workload.bucket == floor.bucket == about.bucket(workload.sizes, dtype)
    doubled = about.workload(2 * rows, last, dtype=dtype)
    assert (doubled.bucket == workload.bucket) == (rows == 0)
    other = torch.float32 if dtype is not torch.float32 else torch.float16
    assert about.workload(rows, last, dtype=other).bucket != workload.bucket


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_workloads_worth_tuning_fall_into_buckets_of_their_own(operator):
    about: OperatorSpec = spec(operator)
    for dtype in about.dtypes:
        workloads = about.workloads(dtype)
        assert [workload.sizes[about.dims[0]] for workload in workloads] == [1, 32, 512, 4096]
        assert len({workload.bucket for workload in workloads}) == len(workloads)


@pytest.mark.parametrize("operator", OPERATORS)
def test_edge_shapes_hold_the_empty_the_single_and_the_odd(operator):
    rows, last = zip(*spec(operator).edge_shapes, strict=True)
    assert 0 in rows
    assert {0, 1} <= set(last)
    assert any(size % 2 and size > 1 for size in last)
    assert max(last) > 1 << 16
