"""Where exactly right ends: for every number of the rule, what is just within it and what is just beyond."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from kernelwright.ops import ErrorBudget
from kernelwright.referee._oracle import exact
from kernelwright.referee._oracle import Expectation
from kernelwright.referee._oracle import expectation

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
#: No gate on the L2 error: whatever it is.
OPEN = dict.fromkeys(DTYPES, math.inf)
#: More elements than are few.
MANY = 1024


def ones(count: int = MANY) -> Tensor:
    return torch.ones(count, dtype=torch.float64)


def off(dtype: torch.dtype, at: int | slice, by: float, *, value: float = 1.0, count: int = MANY) -> Tensor:
    """`value` everywhere, and `by` more at a place; exact in `dtype`, or the test is wrong."""
    out = torch.full((count,), value, dtype=torch.float64)
    out[at] += by
    assert torch.equal(out.to(dtype).double(), out)
    return out.to(dtype)


def just(expected: Expectation, within: Tensor, beyond: Tensor, words: str) -> None:
    """`within` is right and `beyond` is not, and why."""
    assert expected.fault(within) is None
    fault = expected.fault(beyond)
    assert fault is not None
    assert words in fault


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("factor", [2.0, 3.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_error_of_torch_counts_factor_times(dtype: torch.dtype, factor: float, sign: int) -> None:
    """torch errs at one element; another may be off by `factor` as much, and by no bit more."""
    eps = torch.finfo(dtype).eps
    peer = off(dtype, 7, 16 * eps)
    expected = expectation(ones(), peer, ErrorBudget(factor, 0.0, OPEN))
    most = factor * 16 * eps
    just(expected, off(dtype, 3, sign * most), off(dtype, 3, sign * (most + eps)), "exceeds")


def test_the_factor_is_two_where_nobody_says_otherwise() -> None:
    eps = torch.finfo(torch.float32).eps
    expected = expectation(ones(), off(torch.float32, 7, 16 * eps), ErrorBudget(floor_ulps=0.0))
    just(
        expected,
        off(torch.float32, 3, 32 * eps),
        off(torch.float32, 3, 33 * eps),
        f"error {33 * eps:.3g} exceeds {32 * eps:.3g} (torch in fp32 errs by {16 * eps:.3g}; scale 1)",
    )


@pytest.mark.parametrize("scale", [1.0, 64.0, 2.0**-9])
@pytest.mark.parametrize("ulps", [1, 16])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_floor_is_in_units_of_the_last_place_of_the_output_s_scale(
    dtype: torch.dtype, ulps: int, scale: float
) -> None:
    eps = torch.finfo(dtype).eps * scale
    oracle = scale * ones()
    expected = expectation(oracle, oracle.to(dtype), ErrorBudget(floor_ulps=float(ulps), relative_l2=OPEN))
    within, beyond = (off(dtype, 3, count * eps, value=scale) for count in (ulps, ulps + 1))
    just(expected, within, beyond, "exceeds")


def test_the_floor_is_that_of_the_largest_element_for_all_of_them() -> None:
    oracle = ones()
    oracle[100] = -8.0
    eps = torch.finfo(torch.float32).eps
    expected = expectation(oracle, oracle.float(), ErrorBudget(floor_ulps=2.0, relative_l2=OPEN))
    within, beyond = off(torch.float32, 3, 16 * eps), off(torch.float32, 3, 17 * eps)
    within[100] = beyond[100] = -8.0
    just(expected, within, beyond, "scale 8")


def test_factor_and_floor_add_up() -> None:
    eps = torch.finfo(torch.float32).eps
    expected = expectation(ones(), off(torch.float32, 7, 8 * eps), ErrorBudget(2.0, 4.0, OPEN))
    just(expected, off(torch.float32, 3, 20 * eps), off(torch.float32, 3, 21 * eps), "exceeds")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_where_zeros_are_expected_the_floor_is_in_the_smallest_of_numbers(dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    smallest = info.smallest_normal * info.eps
    zeros = torch.zeros(MANY, dtype=torch.float64)
    expected = expectation(zeros, zeros.to(dtype), ErrorBudget(floor_ulps=2.0))
    within, beyond = (off(dtype, 3, count * smallest, value=0.0) for count in (2, 3))
    just(expected, within, beyond, "exceeds")


def test_who_may_flush_denormals_may_be_off_by_the_smallest_normal_number() -> None:
    normal = torch.finfo(torch.float32).smallest_normal
    zeros = torch.zeros(MANY, dtype=torch.float64)
    expected = expectation(zeros, zeros.float(), ErrorBudget(floor_ulps=0.0), flushed=True)
    just(
        expected, off(torch.float32, 3, normal, value=0.0), off(torch.float32, 3, 1.5 * normal, value=0.0), ""
    )


@pytest.mark.parametrize(("dtype", "gate"), [(torch.float32, 2**-18), (torch.bfloat16, 2**-5)], ids=str)
def test_the_l2_gate_is_the_dtype_s(dtype: torch.dtype, gate: float) -> None:
    """Every element is off by as much: each is within its own bound, and the gate decides."""
    eps = torch.finfo(dtype).eps
    budget = ErrorBudget(floor_ulps=128.0, relative_l2={dtype: gate})
    expected = expectation(ones(), ones().to(dtype), budget)
    within, beyond = off(dtype, slice(None), gate), off(dtype, slice(None), gate + eps)
    just(expected, within, beyond, f"relative L2 error {gate + eps:.3g} exceeds {gate:.3g}")


def test_the_l2_error_of_torch_counts_factor_times() -> None:
    eps = torch.finfo(torch.float32).eps
    peer = off(torch.float32, slice(None), 8 * eps)
    expected = expectation(ones(), peer, ErrorBudget(3.0, 64.0, {torch.float32: 0.0}))
    within, beyond = (off(torch.float32, slice(None), count * eps) for count in (24, 25))
    just(expected, within, beyond, "relative L2 error")


def test_of_few_elements_one_rounding_each_is_allowed() -> None:
    eps = torch.finfo(torch.float32).eps
    budget = ErrorBudget(floor_ulps=2.0, relative_l2={torch.float32: 0.0})
    few, many = (expectation(ones(count), ones(count).float(), budget) for count in (255, 256))
    assert few.fault(off(torch.float32, slice(None), eps, count=255)) is None
    assert few.fault(off(torch.float32, slice(None), 2 * eps, count=255)) is not None
    assert many.fault(off(torch.float32, slice(None), eps, count=256)) is not None


def test_tolerances_of_a_user_end_where_they_say() -> None:
    eps = torch.finfo(torch.float32).eps
    budget = ErrorBudget(relative_l2=OPEN)
    for options in ({"atol": 64 * eps}, {"rtol": 64 * eps}, {"atol": 32 * eps, "rtol": 32 * eps}):
        expected = expectation(ones(), ones().float(), budget, **options)
        just(expected, off(torch.float32, 3, 64 * eps), off(torch.float32, 3, 65 * eps), "exceeds")
    # The relative one is of each element, not of the largest.
    oracle = ones()
    oracle[100] = 8.0
    expected = expectation(oracle, oracle.float(), budget, rtol=64 * eps)
    within, beyond = off(torch.float32, 3, 64 * eps), off(torch.float32, 3, 65 * eps)
    within[100] = beyond[100] = 8.0 + 512 * eps
    just(expected, within, beyond, "element [3]")


@pytest.mark.parametrize(("share", "open_"), [(0.98, False), (0.995, True), (1.005, True), (1.02, False)])
def test_close_to_overflow_both_the_number_and_infinity_are_right(share: float, open_: bool) -> None:
    largest = torch.finfo(torch.float16).max
    oracle = torch.full((4,), share * largest, dtype=torch.float64)
    peer = oracle.half()
    other = torch.full((4,), largest if share > 1 else math.inf, dtype=torch.float16)
    expected = expectation(oracle, peer, ErrorBudget(floor_ulps=32.0, relative_l2=OPEN))
    assert expected.fault(peer) is None
    assert (expected.fault(other) is None) is open_


def test_slack_is_taken_off_the_error_and_off_nothing_else() -> None:
    eps = torch.finfo(torch.float32).eps
    slack = torch.zeros(MANY, dtype=torch.float64)
    slack[3] = 8 * eps
    expected = expectation(ones(), ones().float(), ErrorBudget(floor_ulps=2.0, relative_l2=OPEN), slack=slack)
    just(expected, off(torch.float32, 3, 10 * eps), off(torch.float32, 3, 11 * eps), "element [3]")
    just(expected, off(torch.float32, 4, 2 * eps), off(torch.float32, 4, 3 * eps), "element [4]")


@pytest.mark.parametrize("by", [1, -1])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_an_integer_that_is_off_by_one_is_wrong_wherever_it_is(dtype: torch.dtype, by: int) -> None:
    right = torch.full((5, 300), 200, dtype=dtype)
    for at in ((0, 0), (4, 299)):
        out = right.clone()
        out[at] += by
        fault = exact(right, right).fault(out)
        assert fault is not None
        assert f"1 of 1500 elements of {str(dtype)[6:]} differ: element {list(at)} is {200 + by}" in fault


def test_an_integer_that_a_rounding_decides_is_left_open_and_its_neighbours_are_not() -> None:
    right = torch.arange(4)
    unstable = torch.tensor([False, True, False, False])
    expected = exact(right, right, unstable)
    assert expected.fault(torch.tensor([0, 9, 2, 3])) is None
    assert expected.fault(torch.tensor([0, 9, 3, 3])) is not None
