"""The base of operator tests: what it lets pass, and what not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from kernelwright import dispatch
from kernelwright.errors import UnknownNameError
from kernelwright.referee.testing import OperatorTestCase
from kernelwright.referee.testing import PyTestCase


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=-1)


def scale(x: Tensor, weight: Tensor) -> Tensor:
    return x * weight.sum()


class _WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 2.001


class TestForward(PyTestCase):
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
    def test_torch_passes_against_itself(self, dtype: torch.dtype) -> None:
        self.assertCorrectness(softmax, softmax, {"x": torch.randn(5, 111, dtype=dtype)})

    def test_zeros_fail_where_a_fixed_tolerance_would_let_them_pass(self) -> None:
        x = torch.randn(2, 16384)
        with pytest.raises(AssertionError, match=r"output: element .* expected"):
            self.assertCorrectness(lambda x: torch.zeros_like(x), softmax, {"x": x})

    def test_fp32_computed_in_bf16_fails(self) -> None:
        with pytest.raises(AssertionError, match="exceeds"):
            self.assertCorrectness(
                lambda x: softmax(x.bfloat16()).float(), softmax, {"x": torch.randn(4, 64)}
            )

    def test_a_wrong_second_output_fails(self) -> None:
        def two(x: Tensor) -> tuple[Tensor, Tensor]:
            return x * 2, x.sum(-1)

        def second_wrong(x: Tensor) -> tuple[Tensor, Tensor]:
            return x * 2, x.sum(-1) + 1

        x = torch.randn(3, 8)
        self.assertCorrectness(two, two, {"x": x})
        with pytest.raises(AssertionError, match="output 1"):
            self.assertCorrectness(second_wrong, two, {"x": x})

    def test_integer_outputs_must_be_equal(self) -> None:
        x = torch.randn(3, 8)
        self.assertCorrectness(lambda x: x.argmax(-1), lambda x: x.argmax(-1), {"x": x})
        with pytest.raises(AssertionError, match="integer"):
            self.assertCorrectness(lambda x: x.argmin(-1), lambda x: x.argmax(-1), {"x": x})

    @pytest.mark.parametrize(
        ("op", "said"),
        [
            (lambda x: softmax(x).double(), "fp64, expected fp32"),
            (lambda x: softmax(x)[:1], r"shape \(1, 8\), expected \(3, 8\)"),
            (lambda x: torch.nn.Parameter(softmax(x), requires_grad=False), "Parameter, not a torch.Tensor"),
            (lambda x: torch.full_like(x, float("nan")), "nan, expected"),
        ],
    )
    def test_dtype_shape_type_and_nan_are_looked_at(self, op: Any, said: str) -> None:
        with pytest.raises(AssertionError, match=said):
            self.assertCorrectness(op, softmax, {"x": torch.randn(3, 8)})

    def test_a_changed_input_fails(self) -> None:
        def in_place(x: Tensor) -> Tensor:
            result = softmax(x)
            x.zero_()
            return result

        with pytest.raises(AssertionError, match="changed its argument x"):
            self.assertCorrectness(in_place, softmax, {"x": torch.randn(3, 8)})

    def test_an_output_in_the_memory_of_an_argument_fails_unless_it_is_meant_to_be_a_view(self) -> None:
        x = torch.randn(3, 8)
        self.assertCorrectness(lambda x: x.view(-1), lambda x: x.view(-1), {"x": x})
        with pytest.raises(AssertionError, match="output 0 shares memory with argument x"):
            self.assertCorrectness(lambda x: x.view(-1), lambda x: x.flatten().clone(), {"x": x})

    def test_an_output_in_the_memory_of_an_earlier_one_fails_unless_it_was_given(self) -> None:
        x, kept = torch.randn(3, 8), torch.empty(3, 8)

        def cached(x: Tensor, out: Tensor | None = None) -> Tensor:
            return torch.softmax(x, -1, out=kept if out is None else out)

        self.assertCorrectness(cached, softmax, {"x": x}, extra_test_kwargs={"out": torch.empty(3, 8)})
        with pytest.raises(AssertionError, match="output 0 shares memory with output 0 of an earlier call"):
            self.assertCorrectness(cached, softmax, {"x": x})

    def test_a_second_call_must_give_the_same_bits(self) -> None:
        results = iter([1.0, 1.0, 0.0, -0.0, float("nan"), float("nan")])

        def op(x: Tensor) -> Tensor:
            return torch.full_like(x, next(results))

        self.assertCorrectness(op, torch.ones_like, {"x": torch.ones(2)})
        with pytest.raises(AssertionError, match="another output 0"):
            self.assertCorrectness(op, torch.zeros_like, {"x": torch.ones(2)})
        self.assertCorrectness(op, lambda x: x * float("nan"), {"x": torch.ones(2)})

    def test_another_result_at_the_second_call_fails_unless_that_is_allowed(self) -> None:
        calls = iter(range(10))

        def drifting(x: Tensor) -> Tensor:
            return softmax(x) * (1 + 6e-8 * (next(calls) % 2))

        x = torch.randn(3, 8)
        with pytest.raises(AssertionError, match="second call"):
            self.assertCorrectness(drifting, softmax, {"x": x})
        self.assertCorrectness(drifting, softmax, {"x": x}, deterministic=False)

    def test_given_tolerances_replace_the_measured_ones(self) -> None:
        x = torch.randn(3, 8)
        self.assertCorrectness(lambda x: softmax(x) + 0.01, softmax, {"x": x}, atol=0.02, rtol=0.0)
        with pytest.raises(AssertionError, match="output: "):
            self.assertCorrectness(lambda x: softmax(x) + 0.01, softmax, {"x": x}, atol=0.001)

    def test_arguments_of_one_side_only(self) -> None:
        def op(x: Tensor, flag: bool) -> Tensor:
            assert flag
            return softmax(x)

        self.assertCorrectness(op, softmax, {"x": torch.randn(3, 8)}, extra_test_kwargs={"flag": True})

    def test_what_the_operator_raises_is_a_failure(self) -> None:
        with pytest.raises(ZeroDivisionError):
            self.assertCorrectness(lambda x: 1 // 0, softmax, {"x": torch.randn(3, 8)})


class TestBackward(PyTestCase):
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    def test_torch_passes_against_itself(self, dtype: torch.dtype) -> None:
        arguments = {"x": torch.randn(6, 32, dtype=dtype), "weight": torch.randn(32, dtype=dtype)}
        self.assertCorrectness(scale, scale, arguments, gradient=True)

    def test_a_wrong_gradient_fails(self) -> None:
        with pytest.raises(AssertionError, match="gradient of x"):
            self.assertCorrectness(
                _WrongGradient.apply, lambda x: x * 2.0, {"x": torch.randn(3, 8)}, gradient=True
            )

    def test_a_missing_gradient_fails(self) -> None:
        with pytest.raises(AssertionError, match="does not require a gradient"):
            self.assertCorrectness(
                lambda x: softmax(x.detach()), softmax, {"x": torch.randn(3, 8)}, gradient=True
            )

    def test_only_arguments_that_require_gradients_are_compared(self) -> None:
        arguments = {"x": torch.randn(3, 8, requires_grad=True), "weight": torch.randn(8)}
        self.assertCorrectness(lambda x, weight: scale(x, weight.detach()), scale, arguments, gradient=True)

    def test_the_incoming_gradient_can_be_given(self) -> None:
        flowing = torch.zeros(3, 8)
        flowing[0, 0] = 1.0
        self.assertCorrectness(softmax, softmax, {"x": torch.randn(3, 8)}, gradient=flowing)


class TestBackends(PyTestCase):
    _backends = ("torch",)

    @pytest.mark.parametrize("backend", _backends)
    def test_an_available_backend_is_selected(self, backend: str) -> None:
        self.select(backend)
        assert dispatch.get_current_backend() == "torch"

    def test_a_selection_ends_with_its_test(self) -> None:
        assert dispatch.get_current_backend() is None

    def test_an_unavailable_backend_skips_with_the_reason(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dispatch, "is_backend_available", lambda name: False)
        monkeypatch.setattr(dispatch, "backends", lambda: {"gone": "it left"})
        with pytest.raises(pytest.skip.Exception, match="it left"):
            self.select("gone")

    def test_a_misspelt_backend_is_an_error_not_a_skip(self) -> None:
        with pytest.raises(UnknownNameError, match="did you mean 'torch'"):
            self.select("torhc")


def test_each_test_starts_from_the_same_random_state() -> None:
    case = OperatorTestCase()
    case.setUp()
    first = torch.randn(3)
    case.setUp()
    assert torch.equal(first, torch.randn(3))
