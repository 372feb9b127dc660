"""Calls that make no sense end with an error that names the argument, whatever was served before."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

import kernelwright as kw
from kernelwright.dispatch import register_impl
from kernelwright.dispatch._output import overlap
from kernelwright.dispatch._output import overlaps_itself
from kernelwright.dispatch._signature import accepts
from kernelwright.errors import ArgumentTypeError
from kernelwright.errors import UnknownKeywordError
from kernelwright.errors import UnsupportedCallError
from kernelwright.errors import UsageError

X = torch.ones(2, 3)


@pytest.fixture(params=["cold", "warm"])
def scale(scale, request):
    """An operator without and with a plan for the call next to the bad one."""
    if request.param == "warm":
        for _ in range(3):
            scale.call(X, torch.ones(2, 3))
            scale.call(X, torch.ones(2, 3), out=torch.empty(2, 3))
    scale.served.clear()
    return scale


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([1.0], X), r"scale: x must be a Tensor, got list \[1.0\]"),
        ((X, None), "weight must be a Tensor, got NoneType None"),
        ((np.ones(3), X), "x must be a Tensor, got ndarray"),
    ],
)
def test_a_wrong_type_names_the_argument(scale, arguments, text):
    with pytest.raises(ArgumentTypeError, match=text):
        scale.call(*arguments)


@pytest.mark.parametrize(
    ("factor", "text"),
    [
        ("2", "factor must be a float, got str '2'"),
        (None, "factor must be a float, got NoneType"),
        (True, "factor must be a float, got bool True"),
        (torch.tensor(2.0), r"factor must be a float, got a Tensor of shape \(\); pass .item\(\)"),
    ],
)
def test_a_value_of_a_wrong_type_names_the_argument(scale, factor, text):
    with pytest.raises(ArgumentTypeError, match=text):
        scale.call(X, X, factor=factor)


def test_numbers_of_numpy_are_numbers(scale):
    torch.testing.assert_close(scale.call(X, X, factor=np.float32(2)), X * 2)
    torch.testing.assert_close(scale.call(X, X, factor=2), X * 2)


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (int, [1, np.int64(2)], [1.0, True, "1"]),
        (bool, [True], [1]),
        (str | None, ["a", None], [1]),
        (torch.dtype, [torch.float32], ["float32"]),
        (list[int], [[1]], []),
    ],
)
def test_what_annotations_accept(annotation, good, bad):
    assert all(accepts(annotation, value) for value in good)
    assert not any(accepts(annotation, value) for value in bad)


def test_an_undeclared_keyword_names_the_nearest_and_who_declares_it(scale):
    with pytest.raises(UnknownKeywordError, match=r"'tyle'; did you mean 'tile'.*'tile' is declared by fast"):
        scale.call(X, X, tyle=4)
    with pytest.raises(UnknownKeywordError, match=r"'fcator'.*'factor' is declared by the operator"):
        scale.call(X, X, fcator=4)
    assert scale.served == []


def test_a_declared_keyword_reaches_those_who_declare_it_only(scale):
    scale.call(X, X, tile=16)
    assert scale.served == ["fast tile=16"]
    with pytest.raises(UnsupportedCallError, match="torch: does not take the keyword tile"):
        scale.call(X, X, tile=16, backend="torch")
    scale.refuse = lambda call: "no"
    with pytest.raises(UnsupportedCallError, match="fast: no"):
        scale.call(X, X, tile=16)


@pytest.mark.parametrize("make", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr, torch.Tensor.to_mkldnn])
def test_only_strided_tensors_are_taken(scale, make):
    with pytest.raises(UsageError, match=r"weight has the layout torch\..*to_dense"):
        scale.call(X, make(torch.ones(2, 3)))


# --- out= ---------------------------------------------------------------------------------------------------


def test_out_is_written_and_returned_and_autograd_is_told(scale):
    for _ in range(3):
        y = torch.zeros(2, 3)
        version = y._version
        assert scale.call(X, torch.ones(2, 3), out=y) is y
        torch.testing.assert_close(y, X)
        assert y._version > version
    assert scale.served == ["fast"] * 3


def test_a_strided_out_is_written_in_place(scale):
    whole = torch.zeros(2, 6)
    scale.call(X, X, out=whole[:, ::2])
    torch.testing.assert_close(whole, torch.tensor([1.0, 0, 1, 0, 1, 0]).expand(2, 6))


@pytest.mark.parametrize("out", [[1], "y", 3])
def test_out_must_be_a_tensor(scale, out):
    with pytest.raises(ArgumentTypeError, match="out must be a Tensor or None"):
        scale.call(X, X, out=out)


def test_out_has_no_gradient(scale):
    with pytest.raises(UsageError, match="out= has no gradient"):
        scale.call(X, torch.ones(2, 3, requires_grad=True), out=torch.empty(2, 3))
    with pytest.raises(UsageError, match="out= has no gradient"):
        scale.call(X, X, out=torch.empty(2, 3, requires_grad=True))
    with torch.no_grad():
        scale.call(X, X, out=torch.empty(2, 3, requires_grad=True))


def test_an_implementation_without_out_is_passed_over_for_one_with_it(scale):
    register_impl("scale", "simple", rank=50)(lambda x, weight, *, factor=1.0: x)
    scale.call(X, X, out=torch.empty(2, 3))
    assert scale.served == ["fast"]
    assert kw.explain("scale", X, X, out=torch.empty(2, 3)).refusals["simple"] == "does not take out="


@pytest.mark.parametrize(
    ("out", "text"),
    [
        (
            torch.empty(2, 4),
            r"out must be torch.float32 of shape \(2, 3\), got torch.float32 of shape \(2, 4\)",
        ),
        (torch.empty(2, 3).double(), "got torch.float64"),
        (torch.empty(6), r"of shape \(6,\)"),
        (torch.empty(2, 3, device="meta"), "out is on meta, x on cpu"),
        (torch.empty(3).expand(2, 3), "elements of out share a place"),
    ],
)
def test_an_unfit_out_is_refused_by_name_where_the_operator_has_a_spec(out, text):
    for _ in range(2):
        with pytest.raises(UsageError, match=text):
            kw.ops.rms_norm(X, torch.ones(3), out=out, backend="torch")
        kw.ops.rms_norm(X, torch.ones(3), out=torch.empty(2, 3), backend="torch")


def test_out_may_not_share_memory_with_an_input(scale):
    whole = torch.ones(4, 3)
    with pytest.raises(UsageError, match="out shares memory with x"):
        scale.call(whole[:2], torch.ones(2, 3), out=whole[:2])
    with pytest.raises(UsageError, match="out shares memory with weight"):
        scale.call(torch.ones(2, 3), whole[:2], out=whole[1:3])
    torch.testing.assert_close(whole, torch.ones(4, 3)), "nothing was written"
    scale.call(whole[:2], torch.ones(2, 3), out=whole[2:])


def test_halves_side_by_side_in_one_buffer_do_not_overlap(scale):
    whole = torch.ones(2, 6)
    for _ in range(3):
        scale.call(whole[:, :3], torch.ones(2, 3), factor=5.0, out=whole[:, 3:])
    torch.testing.assert_close(whole[:, 3:], torch.full((2, 3), 5.0))


views = st.tuples(
    st.integers(0, 12), st.integers(0, 3), st.integers(0, 3), st.integers(0, 9), st.integers(0, 9)
)


def places(offset: int, rows: int, columns: int, by_row: int, by_column: int) -> list[int]:
    return [offset + r * by_row + c * by_column for r in range(rows) for c in range(columns)]


@given(one=views, other=views)
def test_overlap_is_exact(one, other):
    memory = torch.empty(64, dtype=torch.bfloat16)

    def view(offset, rows, columns, by_row, by_column):
        return memory.as_strided((rows, columns), (by_row, by_column), offset)

    assert overlap(view(*one), view(*other)) == bool({*places(*one)} & {*places(*other)})


@given(view=views)
def test_a_tensor_whose_elements_share_a_place_is_never_taken_for_dense(view):
    _, rows, columns, by_row, by_column = view
    info = kw.dispatch.TensorInfo(torch.float32, (rows, columns), (by_row, by_column), "cpu", False)
    every = places(*view)
    if len(set(every)) < len(every):
        assert overlaps_itself(info)


@pytest.mark.parametrize(
    "make", [lambda t: t, lambda t: t.t().contiguous().t(), lambda t: t[:, :2], lambda t: t[1:]]
)
def test_ordinary_layouts_are_not_taken_for_overlapping(make):
    tensor = make(torch.empty(4, 3))
    info = kw.dispatch.TensorInfo(tensor.dtype, tuple(tensor.shape), tensor.stride(), "cpu", False)
    assert not overlaps_itself(info)


# --- what only torch can tell -------------------------------------------------------------------------------


def test_arguments_that_do_not_fit_together_are_a_usage_error_each_time():
    for _ in range(3):
        with pytest.raises(UsageError, match=r"rms_norm of x \(2, 3\) torch.float32, weight \(5,\).*"):
            kw.ops.rms_norm(X, torch.ones(5))


def test_other_errors_of_an_implementation_pass_through(scale):
    @register_impl("scale", "torch")
    def broken(x, weight, *, factor=1.0):
        raise torch.OutOfMemoryError("no memory left")

    with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
        scale.call(X, X, backend="torch")
