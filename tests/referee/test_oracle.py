"""What an output has to be."""

from __future__ import annotations

import math

import pytest
import torch

from kernelwright.ops import ErrorBudget
from kernelwright.ops import OperatorSpec
from kernelwright.ops import RmsNormSpec
from kernelwright.ops import SiluAndMulSpec
from kernelwright.ops import SoftmaxSpec
from kernelwright.referee._large import expect_any
from kernelwright.referee._large import LargeExpectation
from kernelwright.referee._large import row_arguments
from kernelwright.referee._oracle import ATOL_CAP
from kernelwright.referee._oracle import exact
from kernelwright.referee._oracle import expect
from kernelwright.referee._oracle import expectation

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
SPECS = [RmsNormSpec(), SoftmaxSpec(), SiluAndMulSpec()]


def arguments_of(spec: OperatorSpec, dtype: torch.dtype, *sizes: int) -> dict[str, object]:
    return spec.inputs(spec.workload(*sizes, dtype=dtype), torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_torch_itself_passes(spec: OperatorSpec, dtype: torch.dtype) -> None:
    arguments = arguments_of(spec, dtype, 19, 123)
    assert expect(spec, arguments).fault(spec.reference(**arguments)) is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_the_rounded_oracle_passes(spec: OperatorSpec, dtype: torch.dtype) -> None:
    arguments = arguments_of(spec, dtype, 19, 123)
    double = {name: value.double() if torch.is_tensor(value) else value for name, value in arguments.items()}
    assert expect(spec, arguments).fault(spec.reference(**double).to(dtype)) is None


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_lower_precision_than_declared_fails(spec: OperatorSpec) -> None:
    arguments = arguments_of(spec, torch.float32, 19, 123)
    half = {name: value.bfloat16() if torch.is_tensor(value) else value for name, value in arguments.items()}
    assert expect(spec, arguments).fault(spec.reference(**half).float()) is not None


@pytest.mark.parametrize("dtype", DTYPES)
def test_small_outputs_are_not_forgiven_for_being_small(dtype: torch.dtype) -> None:
    """Softmax over many columns is close to zero everywhere; zeros are still wrong."""
    spec = SoftmaxSpec()
    arguments = arguments_of(spec, dtype, 2, 16384)
    fault = expect(spec, arguments).fault(torch.zeros(2, 16384, dtype=dtype))
    assert fault is not None
    assert "exceeds" in fault


def test_one_wrong_element_is_named_with_its_numbers() -> None:
    spec = RmsNormSpec()
    arguments = arguments_of(spec, torch.float32, 7, 17)
    output = spec.reference(**arguments)
    expected = float(output[3, 5])
    output[3, 5] += 0.25
    fault = expect(spec, arguments).fault(output)
    assert fault is not None
    assert f"[3, 5] is {expected + 0.25:.6g}, expected {expected:.6g}: error 0.25" in fault


def test_many_small_errors_fail_where_each_would_pass() -> None:
    """A quarter of a bf16 step everywhere: below the largest error allowed, above the L2 gate."""
    oracle = torch.ones(4096, dtype=torch.float64)
    peer = oracle.bfloat16()
    budget = ErrorBudget(floor_ulps=2.0)
    output = torch.full((4096,), 1.0 + 2**-7, dtype=torch.bfloat16)
    fault = expectation(oracle, peer, budget).fault(output)
    assert fault is not None
    assert "relative L2" in fault


@pytest.mark.parametrize("stray", [math.nan, math.inf, -math.inf])
def test_a_stray_nonfinite_element_fails(stray: float) -> None:
    spec = RmsNormSpec()
    arguments = arguments_of(spec, torch.float32, 7, 17)
    output = spec.reference(**arguments)
    output[2, 2] = stray
    assert expect(spec, arguments).fault(output) is not None


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_nonfinite_inputs_must_show_where_torch_shows_them(spec: OperatorSpec, special: float) -> None:
    arguments = arguments_of(spec, torch.float32, 7, 34)
    arguments["x"][2, 3] = special  # type: ignore[index]
    expected = expect(spec, arguments)
    right = spec.reference(**arguments)
    assert expected.fault(right) is None
    if not bool(torch.isfinite(right).all()):
        assert expected.fault(torch.nan_to_num(right, nan=0.0, posinf=1.0, neginf=-1.0)) is not None
    right[5, 1] = math.nan
    assert expected.fault(right) is not None, "a row without special inputs must stay clean"


def test_an_overflow_of_the_dtype_is_expected_as_torch_rounds_it() -> None:
    spec = SiluAndMulSpec()
    x = torch.full((1, 8), 300.0, dtype=torch.float16)
    expected = expect(spec, {"x": x})
    assert expected.fault(torch.full((1, 4), math.inf, dtype=torch.float16)) is None
    assert expected.fault(torch.full((1, 4), 65504.0, dtype=torch.float16)) is not None


def test_elements_that_were_never_written_are_counted() -> None:
    spec = RmsNormSpec()
    arguments = arguments_of(spec, torch.float32, 4, 16)
    output = spec.reference(**arguments)
    output.view(torch.int32)[1, :5] = -1
    fault = expect(spec, arguments).fault(output, unwritten=0xFF)
    assert fault is not None
    assert fault.startswith("5 of 64 elements were never written")


def test_zeros_in_zeros_out() -> None:
    spec = RmsNormSpec()
    arguments = {**arguments_of(spec, torch.float32, 3, 16), "x": torch.zeros(3, 16)}
    expected = expect(spec, arguments)
    assert expected.fault(torch.zeros(3, 16)) is None
    assert expected.fault(torch.full((3, 16), 1e-6)) is not None


@pytest.mark.parametrize("shape", [(0, 64), (3, 0)])
def test_nothing_is_right_where_nothing_is_wanted(shape: tuple[int, int]) -> None:
    spec = RmsNormSpec()
    arguments = arguments_of(spec, torch.float32, *shape)
    assert expect(spec, arguments).fault(torch.empty(shape)) is None


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_operators_whose_rows_stand_for_themselves_are_recognised(spec: OperatorSpec) -> None:
    assert row_arguments(spec) == ("x",)


class ColumnSoftmaxSpec(SoftmaxSpec):
    """Rows depend on each other."""

    def reference(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return torch.softmax(x, dim=0)


def test_operators_whose_rows_depend_on_each_other_are_judged_in_full() -> None:
    assert row_arguments(ColumnSoftmaxSpec()) == ()


@pytest.fixture(scope="module")
def large() -> tuple[LargeExpectation, torch.Tensor]:
    spec = SoftmaxSpec()
    arguments = arguments_of(spec, torch.float32, 1100, 4096)
    found = expect_any(spec, arguments, seed=0)
    assert isinstance(found, LargeExpectation)
    return found, spec.reference(**arguments)


def test_a_large_output_of_torch_passes(large: tuple[LargeExpectation, torch.Tensor]) -> None:
    expected, output = large
    assert expected.fault(output) is None


@pytest.mark.parametrize("row", [0, 517, 1099])
@pytest.mark.parametrize("value", [0.0, math.nan])
def test_one_wrong_row_of_many_is_found(
    large: tuple[LargeExpectation, torch.Tensor], row: int, value: float
) -> None:
    expected, output = large
    output = output.clone()
    output[row] = value
    fault = expected.fault(output)
    assert fault is not None
    assert f"element [{row}, " in fault


def test_a_large_output_that_is_a_little_wrong_everywhere_fails(
    large: tuple[LargeExpectation, torch.Tensor],
) -> None:
    expected, output = large
    assert expected.fault(output * (1 + 1e-5)) is not None


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64])
def test_integers_are_exact(dtype: torch.dtype) -> None:
    right = torch.tensor([[0, 1], [1, 0]]).to(dtype)
    expected = exact(right, right)
    assert expected.fault(right.clone()) is None
    wrong = right.clone()
    wrong[1, 1] = 1
    fault = expected.fault(wrong)
    assert fault is not None
    assert "1 of 4 elements" in fault
    assert "element [1, 1]" in fault


def test_an_integer_may_be_what_oracle_or_peer_say() -> None:
    expected = exact(torch.tensor([1, 2]), torch.tensor([1, 3]))
    assert expected.fault(torch.tensor([1, 2])) is None
    assert expected.fault(torch.tensor([1, 3])) is None
    assert expected.fault(torch.tensor([1, 4])) is not None


def test_tolerances_of_a_user_replace_the_rule_for_the_largest_error() -> None:
    oracle = torch.linspace(1, 2, 4096, dtype=torch.float64)
    budget = ErrorBudget(relative_l2={torch.float32: 1e-2})
    output = oracle.float()
    output[100] += 0.01
    assert expectation(oracle, oracle.float(), budget).fault(output) is not None
    assert expectation(oracle, oracle.float(), budget, atol=0.02).fault(output) is None
    assert expectation(oracle, oracle.float(), budget, rtol=0.02).fault(output) is None
    assert expectation(oracle, oracle.float(), budget, atol=0.0, rtol=0.005).fault(output) is not None


def test_tolerances_of_a_user_stay_below_the_outputs_scale() -> None:
    oracle = torch.full((64,), 1e-4, dtype=torch.float64)
    expected = expectation(oracle, oracle.float(), ErrorBudget(), atol=1e-2)
    assert expected.limit == pytest.approx(ATOL_CAP * 1e-4)
    assert "atol 0.01 was cut to 0.05 of the output's scale of 0.0001" in expected.note
    assert expected.fault(torch.zeros(64)) is not None


def test_what_torch_itself_gives_is_within_any_tolerance() -> None:
    oracle = torch.linspace(1, 2, 64, dtype=torch.float64)
    peer = oracle.bfloat16()
    assert expectation(oracle, peer, ErrorBudget(), atol=0.0, rtol=0.0).fault(peer) is None


def test_slack_counts_neither_for_the_largest_error_nor_for_l2() -> None:
    oracle = torch.ones(64, dtype=torch.float64)
    slack = torch.zeros(64, dtype=torch.float64)
    slack[:32] = 0.5
    expected = expectation(oracle, oracle.float(), ErrorBudget(), slack=slack)
    output = torch.ones(64)
    output[:32] = 1.5
    assert expected.fault(output) is None
    output[40] = 1.001
    assert expected.fault(output) is not None


def test_endless_slack_leaves_an_element_open() -> None:
    oracle = torch.ones(4, dtype=torch.float64)
    slack = torch.tensor([0.0, math.inf, 0.0, 0.0])
    expected = expectation(oracle, oracle.float(), ErrorBudget(), slack=slack)
    assert expected.fault(torch.tensor([1.0, math.nan, 1.0, 1.0])) is None
    assert expected.fault(torch.tensor([1.0, 1.0, math.nan, 1.0])) is not None
