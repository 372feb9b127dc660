"""Each reference computes its formula in fp64 to the last digits; the torch implementations agree with it."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from hypothesis import settings
from torch import Tensor

import kernelwright as kw
from kernelwright.dispatch import spec
from kernelwright.ops import OperatorSpec

OPERATORS = ("rms_norm", "softmax", "silu_and_mul")


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    mean = (x * x).sum(-1, keepdim=True) / x.shape[-1]
    return x / (mean + eps).sqrt() * weight


def softmax(x: Tensor) -> Tensor:
    top = x.max(-1, keepdim=True).values if x.shape[-1] else x
    raised = (x - top).exp()
    return raised / raised.sum(-1, keepdim=True)


def silu_and_mul(x: Tensor) -> Tensor:
    gate, value = x.chunk(2, -1) if x.shape[-1] else (x, x)
    return gate / (1 + (-gate).exp()) * value


FORMULAS = {"rms_norm": rms_norm, "softmax": softmax, "silu_and_mul": silu_and_mul}


@pytest.mark.parametrize("operator", OPERATORS)
@given(
    rows=st.integers(0, 5),
    last=st.integers(0, 40),
    seed=st.integers(0, 99),
    scale=st.sampled_from([1e-3, 1.0, 30.0]),
)
@settings(max_examples=40, deadline=None)
def test_the_reference_is_the_formula(operator, rows, last, seed, scale):
    about: OperatorSpec = spec(operator)
    workload = about.workload(rows, last, dtype=torch.float32)
    generator = torch.Generator().manual_seed(seed)
    arguments = about.inputs(workload, generator, scale=scale, dtype=torch.float64)
    result = about.reference(**arguments)
    assert result.dtype == torch.float64
    torch.testing.assert_close(result, FORMULAS[operator](**arguments), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_reference_keeps_its_inputs_and_their_dtype(operator, dtype):
    about: OperatorSpec = spec(operator)
    workload = about.workload(3, 17, dtype=dtype)
    arguments = about.inputs(workload, torch.Generator().manual_seed(1))
    before = {name: value.clone() for name, value in arguments.items() if isinstance(value, Tensor)}
    result = about.reference(**arguments)
    assert result.dtype == dtype
    for name, value in before.items():
        torch.testing.assert_close(arguments[name], value, rtol=0, atol=0)
        assert result.data_ptr() != arguments[name].data_ptr()


@pytest.mark.parametrize("operator", OPERATORS)
def test_inputs_are_named_as_the_tensors_and_come_from_the_seed(operator):
    about: OperatorSpec = spec(operator)
    for workload in (about.workload(2, 6, dtype=torch.bfloat16), about.workload(0, 6), about.workload(2, 0)):
        one = about.inputs(workload, torch.Generator().manual_seed(3))
        two = about.inputs(workload, torch.Generator().manual_seed(3))
        other = about.inputs(workload, torch.Generator().manual_seed(4))
        assert [name for name, value in one.items() if isinstance(value, Tensor)] == list(about.tensors)
        assert about.sizes_of(**one) == workload.sizes
        for name in about.tensors:
            assert one[name].dtype == workload.dtype
            assert one[name].is_contiguous()
            assert torch.equal(one[name], two[name])
            assert one[name].numel() == 0 or not torch.equal(one[name], other[name])


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(5, 24), (0, 8), (3, 0), (1, 1)])
@pytest.mark.parametrize("with_out", [False, True])
def test_the_torch_implementation_agrees_with_the_reference(operator, dtype, shape, with_out):
    about: OperatorSpec = spec(operator)
    arguments = about.inputs(about.workload(*shape, dtype=dtype), torch.Generator().manual_seed(5))
    expected = about.reference(**arguments)
    out = torch.full_like(expected, float("nan")) if with_out else None
    result = getattr(kw.ops, operator)(**arguments, out=out, backend="torch")
    assert out is None or result is out
    torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("operator", OPERATORS)
def test_leading_dimensions_are_rows(operator):
    about: OperatorSpec = spec(operator)
    arguments = about.inputs(about.workload(6, 8), torch.Generator().manual_seed(6))
    flat = about.reference(**arguments)
    arguments["x"] = arguments["x"].reshape(2, 3, -1)
    assert about.sizes_of(**arguments) == {about.dims[0]: 6, about.dims[1]: 8}
    result = getattr(kw.ops, operator)(**arguments, backend="torch")
    torch.testing.assert_close(result, flat.reshape(2, 3, -1))


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_torch_implementation_has_the_gradient_of_the_formula(operator):
    about: OperatorSpec = spec(operator)
    arguments = about.inputs(about.workload(2, 5), torch.Generator().manual_seed(7), dtype=torch.float64)
    tensors = [arguments[name].requires_grad_() for name in about.tensors]
    others = {name: value for name, value in arguments.items() if name not in about.tensors}

    def call(*values: Tensor) -> Tensor:
        return getattr(kw.ops, operator)(*values, **others)

    assert torch.autograd.gradcheck(call, tensors)
    ours = torch.autograd.grad(call(*tensors).sum(), tensors)
    theirs = torch.autograd.grad(FORMULAS[operator](*tensors, **others).sum(), tensors)
    torch.testing.assert_close(ours, theirs)
