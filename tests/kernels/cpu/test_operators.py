"""The operators, over the backends that serve this machine, against fp64 oracles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import kernelwright as kw
from kernelwright import dispatch
from kernelwright.errors import UnsupportedCallError
from kernelwright.errors import UsageError
from kernelwright.ops import OperatorSpec
from kernelwright.ops import parse_dtype
from kernelwright.referee.testing import OperatorTestCase

OPERATORS = ("rms_norm", "softmax", "silu_and_mul")
DTYPES = ("fp32", "bf16", "fp16")


def spec_of(operator: str) -> OperatorSpec:
    spec: OperatorSpec = dispatch.spec(operator)
    return spec


def arguments_of(
    operator: str, sizes: tuple[int, ...], dtype: torch.dtype, scale: float = 1.0
) -> dict[str, Any]:
    spec = spec_of(operator)
    generator = torch.Generator().manual_seed(sum(sizes))
    return spec.inputs(spec.workload(*sizes, dtype=dtype), generator, scale=scale)


def edge_cases() -> list[Any]:
    return [
        pytest.param(operator, sizes, id=f"{operator}-{'x'.join(map(str, sizes))}")
        for operator in OPERATORS
        for sizes in spec_of(operator).edge_shapes
    ]


#: From a dense (rows, width) tensor to one with other strides and the same last dimension.
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "row stride": lambda x: torch.cat([x, x], dim=-1)[..., : x.shape[-1]],
    "every other row": lambda x: x.repeat_interleave(2, dim=0)[::2],
    "offset by one element": lambda x: torch.cat([x.new_zeros(1), x.reshape(-1)])[1:].view(x.shape),
    "transposed": lambda x: x.t().contiguous().t(),
    "every other column": lambda x: x.repeat_interleave(2, dim=1)[:, ::2],
    "one row for all": lambda x: x[:1].expand(x.shape[0], -1),
    "one value for all": lambda x: x[:1, :1].expand(x.shape),
}


class TestOperators(OperatorTestCase):
    _backends = ("torch", "cpu")

    def check(self, operator: str, arguments: dict[str, Any], **options: Any) -> None:
        spec = spec_of(operator)
        self.assertCorrectness(
            getattr(kw.ops, operator), spec.reference, arguments, budget=spec.budget, **options
        )

    @pytest.mark.parametrize("backend", _backends)
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize(("operator", "sizes"), edge_cases())
    def test_edge_shapes(self, operator: str, sizes: tuple[int, ...], dtype: str, backend: str) -> None:
        self.select(backend)
        self.check(operator, arguments_of(operator, sizes, parse_dtype(dtype)))

    @pytest.mark.parametrize("backend", _backends)
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("operator", OPERATORS)
    def test_enough_rows_for_several_threads(self, operator: str, dtype: str, backend: str) -> None:
        self.select(backend)
        self.check(operator, arguments_of(operator, (289, 1000), parse_dtype(dtype)))

    @pytest.mark.parametrize("backend", _backends)
    @pytest.mark.parametrize("operator", OPERATORS)
    @pytest.mark.parametrize("scale", [1e-4, 30.0])
    def test_small_and_large_values(self, operator: str, scale: float, backend: str) -> None:
        self.select(backend)
        for dtype in DTYPES:
            self.check(operator, arguments_of(operator, (7, 192), parse_dtype(dtype), scale))

    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize("operator", OPERATORS)
    def test_any_strides_are_served_by_some_backend(self, operator: str, layout: str) -> None:
        for dtype in DTYPES:
            arguments = arguments_of(operator, (6, 100), parse_dtype(dtype))
            arguments["x"] = LAYOUTS[layout](arguments["x"])
            self.check(operator, arguments)

    @pytest.mark.parametrize("backend", _backends)
    @pytest.mark.parametrize("layout", ["row stride", "every other row", "offset by one element"])
    @pytest.mark.parametrize("operator", OPERATORS)
    def test_rows_that_are_dense_are_served_by_every_backend(
        self, operator: str, layout: str, backend: str
    ) -> None:
        self.select(backend)
        arguments = arguments_of(operator, (6, 100), torch.bfloat16)
        arguments["x"] = LAYOUTS[layout](arguments["x"])
        self.check(operator, arguments)

    @pytest.mark.parametrize("operator", OPERATORS)
    def test_native_kernels_refuse_columns_that_are_not_dense(self, operator: str) -> None:
        self.select("cpu")
        arguments = arguments_of(operator, (6, 100), torch.bfloat16)
        arguments["x"] = LAYOUTS["every other column"](arguments["x"])
        with pytest.raises(UnsupportedCallError, match="dense last dimension"):
            getattr(kw.ops, operator)(**arguments)

    @pytest.mark.parametrize("backend", _backends)
    @pytest.mark.parametrize("shape", [(100,), (2, 3, 100), (2, 1, 3, 100), (2, 0, 100)])
    @pytest.mark.parametrize("operator", OPERATORS)
    def test_other_numbers_of_dimensions(self, operator: str, shape: tuple[int, ...], backend: str) -> None:
        self.select(backend)
        arguments = arguments_of(operator, (1, 50 if operator == "silu_and_mul" else 100), torch.float32)
        arguments["x"] = torch.randn(shape)
        self.check(operator, arguments)

    @pytest.mark.parametrize("backend", _backends)
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("operator", OPERATORS)
    def test_a_given_output_is_written_and_returned(self, operator: str, dtype: str, backend: str) -> None:
        self.select(backend)
        arguments = arguments_of(operator, (19, 123), parse_dtype(dtype))
        expected = spec_of(operator).reference(**arguments)
        # A row stride of its own, and neighbours that have to stay as they are.
        around = torch.full((21, 133), 7.0, dtype=expected.dtype)
        out = around[1:20, 3:126]
        result = getattr(kw.ops, operator)(**arguments, out=out)
        assert result is out
        self.check(operator, arguments, extra_test_kwargs={"out": out})
        inside = torch.zeros_like(around, dtype=torch.bool)
        inside[1:20, 3:126] = True
        assert bool((around[~inside] == 7.0).all())

    @pytest.mark.parametrize("backend", _backends)
    @pytest.mark.parametrize("operator", OPERATORS)
    def test_an_output_of_another_shape_or_dtype_is_refused(self, operator: str, backend: str) -> None:
        self.select(backend)
        arguments = arguments_of(operator, (4, 64), torch.float32)
        for out in (torch.empty(4, 65), torch.empty(4, 64, dtype=torch.float64)):
            with pytest.raises(UsageError, match="out"):
                getattr(kw.ops, operator)(**arguments, out=out)

    @pytest.mark.parametrize("operator", OPERATORS)
    def test_a_result_is_fresh_and_contiguous(self, operator: str) -> None:
        arguments = arguments_of(operator, (5, 64), torch.float32)
        first = getattr(kw.ops, operator)(**arguments)
        second = getattr(kw.ops, operator)(**arguments)
        assert first.is_contiguous()
        assert first.data_ptr() != second.data_ptr()

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("operator", OPERATORS)
    def test_gradients(self, operator: str, dtype: str) -> None:
        self.check(operator, arguments_of(operator, (9, 64), parse_dtype(dtype)), gradient=True)

    @pytest.mark.parametrize("backend", _backends)
    def test_softmax_of_infinities_is_what_torch_says(self, backend: str) -> None:
        self.select(backend)
        x = torch.randn(4, 33)
        x[0, 5] = float("-inf")
        x[1, :] = float("-inf")
        x[2, 7] = float("inf")
        x[3, 9] = float("nan")
        self.check("softmax", {"x": x})

    @pytest.mark.parametrize("backend", _backends)
    def test_softmax_of_large_logits_stays_finite(self, backend: str) -> None:
        self.select(backend)
        x = torch.randn(3, 257) + torch.tensor([[1e4], [-1e4], [3e38]])
        assert bool(torch.isfinite(kw.ops.softmax(x)).all())
        self.check("softmax", {"x": x})

    @pytest.mark.parametrize("backend", _backends)
    def test_rms_norm_of_a_row_of_zeros_is_zero(self, backend: str) -> None:
        self.select(backend)
        arguments = arguments_of("rms_norm", (2, 40), torch.bfloat16)
        arguments["x"][0] = 0
        assert not bool(kw.ops.rms_norm(**arguments)[0].any())
        self.check("rms_norm", arguments)

    @pytest.mark.parametrize("backend", _backends)
    @pytest.mark.parametrize("eps", [0.0, 1e-6, 0.5])
    def test_rms_norm_takes_its_eps(self, eps: float, backend: str) -> None:
        self.select(backend)
        self.check("rms_norm", {**arguments_of("rms_norm", (3, 70), torch.float32), "eps": eps})

    def test_rms_norm_of_two_dtypes_is_served_by_torch(self) -> None:
        arguments = arguments_of("rms_norm", (3, 64), torch.bfloat16)
        arguments["weight"] = arguments["weight"].float()
        assert kw.explain("rms_norm", **arguments).backend == "torch"
        assert kw.ops.rms_norm(**arguments).shape == (3, 64)

    @pytest.mark.parametrize("operator", OPERATORS)
    def test_native_kernels_serve_plain_calls_where_they_can(self, operator: str) -> None:
        if not dispatch.is_backend_available("cpu"):
            pytest.skip(f"backend 'cpu' is not available here: {dispatch.backends()['cpu']}")
        assert kw.explain(operator, **arguments_of(operator, (5, 64), torch.bfloat16)).backend == "cpu"

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("operator", OPERATORS)
    def test_a_row_has_the_same_bits_alone_and_among_others(self, operator: str, dtype: str) -> None:
        """So neither the number of threads, nor streaming, nor where a row begins shows in a result."""
        arguments = arguments_of(operator, (600, 4099), parse_dtype(dtype))
        together = getattr(kw.ops, operator)(**arguments)
        x = arguments["x"]
        alone = [getattr(kw.ops, operator)(**{**arguments, "x": x[row : row + 1]}) for row in range(len(x))]
        assert torch.equal(together, torch.cat(alone))
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            assert torch.equal(getattr(kw.ops, operator)(**arguments), together)
        finally:
            torch.set_num_threads(before)
