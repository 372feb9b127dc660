"""A kept plan must serve only calls for which planning afresh would decide the same."""

from __future__ import annotations

import contextlib
import itertools
import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from hypothesis import HealthCheck
from hypothesis import settings

import kernelwright as kw
from kernelwright.dispatch import _table
from kernelwright.errors import UnsupportedCallError

DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int32]


def layouts(rows: int, columns: int, dtype: torch.dtype, how: str) -> torch.Tensor:
    if how == "dense":
        return torch.ones(rows, columns, dtype=dtype)
    if how == "transposed":
        return torch.ones(columns, rows, dtype=dtype).t()
    if how == "slice":
        return torch.ones(rows, columns + 3, dtype=dtype)[:, :columns]
    if how == "expanded":
        return torch.ones(1, columns, dtype=dtype).expand(rows, columns)
    if how == "parameter":
        return torch.nn.Parameter(torch.ones(rows, columns, dtype=dtype), requires_grad=False)
    if how == "meta":
        return torch.ones(rows, columns, dtype=dtype, device="meta")
    return torch.ones(rows, columns, dtype=dtype, requires_grad=dtype.is_floating_point)


tensors = st.builds(
    layouts,
    st.integers(0, 3),
    st.sampled_from([1, 4]),
    st.sampled_from(DTYPES),
    st.sampled_from(["dense", "transposed", "slice", "expanded", "parameter", "meta", "grad"]),
)


def two(choices):
    """Two of them, so that calls differ in one thing at a time."""
    return st.lists(choices, min_size=2, max_size=2)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    xs=two(tensors),
    factors=two(st.sampled_from([0.0, -0.0, 1.0, 1, 2.5, math.nan, 1e-6])),
    backends=two(st.sampled_from([None, "torch", "fast"])),
    scopes=two(st.sampled_from([None, "torch", "fast"])),
    modes=two(st.sampled_from([contextlib.nullcontext, torch.no_grad, torch.inference_mode])),
    order=st.randoms(use_true_random=False),
)
def test_a_kept_plan_decides_as_planning_afresh_would(scale, xs, factors, backends, scopes, modes, order):
    # The predicate looks at everything that a Call holds, so that any part missing from the key shows.
    scale.refuse = lambda call: None if hash(repr(call)) % 2 else "hash is even"
    history = list(itertools.product(xs, factors, backends, scopes, modes))
    order.shuffle(history)
    for x, factor, backend, scope, mode in [*history, *history]:
        with mode(), kw.use_backend(scope) if scope else contextlib.nullcontext():
            try:
                expected = [kw.explain("scale", x, x.detach(), factor=factor, backend=backend).backend]
            except UnsupportedCallError:
                expected = []
            scale.served.clear()
            with contextlib.nullcontext() if expected else pytest.raises(UnsupportedCallError):
                scale.call(x, x.detach(), factor=factor, backend=backend)
            assert scale.served == expected


X = torch.ones(2, 3)


def test_a_repeated_call_is_not_planned_again(scale):
    for _ in range(5):
        scale.call(X, torch.ones(2, 3))
    assert len(scale.asked) == 1


def test_alternating_calls_are_planned_once_each(scale):
    for _ in range(5):
        for rows in (1, 2, 3):
            scale.call(torch.ones(rows, 3), torch.ones(rows, 3))
    assert len(scale.asked) == 3


@pytest.mark.skipif(_table._guards is None, reason="this torch lacks torch._C._dynamo.guards")
def test_a_repeated_call_is_served_from_the_front(scale):
    from kernelwright.dispatch import _registry

    for _ in range(3):
        scale.call(X, torch.ones(2, 3))
    table = _registry.find_operator("scale").table
    check = table.front[0]
    assert check(X, torch.ones(2, 3))
    assert not check(X, torch.ones(1, 3))
    assert not check(X, torch.ones(2, 3, dtype=torch.bfloat16))
    assert not check(X, torch.ones(3, 2).t())
    assert not check(X, torch.ones(2, 3, requires_grad=True))
    assert not check(X, torch.nn.Parameter(X, requires_grad=False))
    table.plans.clear()
    scale.call(X, torch.ones(2, 3))
    assert len(scale.asked) == 1, "neither planned nor looked up"


def test_without_the_front_the_exact_key_serves(scale, monkeypatch):
    monkeypatch.setattr(_table, "_guards", None)
    for _ in range(4):
        scale.call(X, torch.ones(2, 3))
        scale.call(X, torch.ones(2, 3), out=torch.empty(2, 3))
    assert len(scale.asked) == 2
    assert scale.served == ["fast"] * 8


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu")])
def test_a_plan_made_in_one_mode_also_reaches_the_front_in_another(scale, mode):
    from kernelwright.dispatch import _registry

    w = torch.ones(2, 3)
    for _ in range(2):
        scale.call(X, w)
    with mode():
        for _ in range(3):
            scale.call(X, w)
        assert _registry.find_operator("scale").table.front[0](X, w)
    assert scale.served == ["fast"] * 5


def test_one_tensor_given_twice_is_no_other_call(scale):
    for _ in range(3):
        scale.call(X, X)
    scale.call(X, torch.ones(2, 3))
    assert len(scale.asked) == 1


def test_values_that_are_equal_but_differ_are_told_apart(scale):
    for factor in (0.0, -0.0, 0, 1, 1.0):
        scale.call(X, X, factor=factor)
    assert [repr(call.scalars["factor"]) for call in scale.asked] == ["0.0", "-0.0", "0", "1", "1.0"]


def test_size_one_dimensions_do_not_make_another_layout(scale):
    odd = torch.ones(1, 3).as_strided((1, 3), (77, 1))
    assert odd.stride() == (77, 1)
    scale.call(odd, odd)
    scale.call(torch.ones(1, 3), torch.ones(1, 3))
    assert len(scale.asked) == 1
    assert scale.asked[0].tensors["x"].strides == (3, 1)
    assert scale.asked[0].tensors["x"].contiguous


def test_optional_tensors_and_untyped_arguments_are_part_of_the_key():
    @kw.dispatch("maybe")
    def maybe(x: torch.Tensor, bias: torch.Tensor | None = None, options=(), *, mode: str = "a"): ...

    seen = []
    kw.register_impl("maybe", "torch", supports=lambda call: seen.append(call))(
        lambda x, bias=None, options=(), *, mode="a": x if bias is None else x + bias
    )
    for _ in range(3):
        assert maybe(X) is X
        torch.testing.assert_close(maybe(X, X), X + X)
        maybe(X, X.double())
        maybe(X, None, [X, X[:1]])
        maybe(X, None, [X, X])
        maybe(X, None, {"unhashable": 1})
        maybe(X, mode="b")
    hashable = [call for call in seen if call.scalars.get("options") != {"unhashable": 1}]
    assert len(hashable) == 6
    assert set(hashable[3].tensors) == {"x", "options[0]", "options[1]"}


def test_a_mutable_value_is_not_recognised_by_identity():
    @kw.dispatch("listed")
    def listed(x: torch.Tensor, sizes): ...

    kw.register_impl(
        "listed", "torch", supports=lambda call: None if len(call.scalars["sizes"]) < 2 else "long"
    )(lambda x, sizes: x)
    sizes = [1]
    for _ in range(3):
        listed(X, sizes)
    sizes.append(2)
    with pytest.raises(UnsupportedCallError, match="long"):
        listed(X, sizes)


def test_a_negated_view_is_left_to_torch(scale):
    for weight in (torch.ones(2, 3), torch._neg_view(torch.ones(2, 3))):
        for _ in range(3):
            expected = X * weight
            torch.testing.assert_close(scale.call(X, weight), expected)
    assert scale.served == ["fast"] * 3 + ["torch"] * 3


@pytest.mark.parametrize("first", [torch.no_grad, torch.inference_mode])
def test_a_plan_made_without_gradients_does_not_serve_where_one_is_wanted(scale, first):
    """The front's check sees requires_grad, but not whether gradients are switched on."""
    x, w = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3)
    for _ in range(3):
        with first():
            scale.call(x, w)
        assert scale.call(x, w).requires_grad
    assert scale.served == ["fast", "torch"] * 3


def test_a_native_kernel_does_not_serve_a_wanted_gradient_after_a_call_without_one():
    x, w = torch.randn(4, 64, requires_grad=True), torch.ones(64)
    for _ in range(3):
        with torch.no_grad():
            kw.ops.rms_norm(x, w)
        assert kw.ops.rms_norm(x, w).requires_grad
