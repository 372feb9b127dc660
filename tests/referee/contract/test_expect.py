"""What a call has to return: form, layout, numbers, and the tolerances of a user."""

from __future__ import annotations

import dataclasses
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from hypothesis import settings

from kernelwright.ops import BaselineBudget
from kernelwright.referee import Status
from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._expect import build
from kernelwright.referee.contract._expect import ExpectedCall
from kernelwright.referee.contract._expect import is_dense
from kernelwright.referee.contract._expect import same_strides
from kernelwright.referee.contract._facts import TensorFact

Node = dict[str, Any]


def expect(
    peer: Any,
    oracle: Any | None = None,
    *,
    budget: BaselineBudget | None = None,
    precision: str = "fp64",
    slack: list[torch.Tensor | None] | None = None,
    **options: bool,
) -> ExpectedCall:
    """The expectation of an output, from values as a reference would have answered them."""
    known: list[torch.Tensor] = []

    def place(tensor: torch.Tensor) -> Node:
        known.append(tensor)
        return {"t": "tensor", "at": len(known) - 1}

    def in_fp64(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.double() if value.is_floating_point() else value
        if isinstance(value, tuple | list):
            return type(value)(in_fp64(item) for item in value)
        return value

    peers = tree.encode(peer, place)
    count = len(known)
    oracles = tree.encode(in_fp64(peer) if oracle is None else oracle, place)
    answer = {
        "peer": peers,
        "oracle": oracles,
        "slack": [None if one is None else place(one) for one in (slack or [None] * count)],
        "mutated": {},
        "gradients": [],
        "wants_gradient": [],
        "precision": precision,
        "shares_input": False,
    }
    return build(answer, lambda node: known[node["at"]], budget or BaselineBudget(), [], **options)


def fact_of(tensor: torch.Tensor, **changes: Any) -> TensorFact:
    fact = TensorFact(
        path="",
        type="torch.Tensor",
        dtype=str(tensor.dtype).removeprefix("torch."),
        device="cpu",
        layout="strided",
        shape=tuple(tensor.shape),
        strides=tuple(tensor.stride()),
        offset=0,
        storage_bytes=tensor.nbytes,
        is_conj=False,
        is_neg=False,
        requires_grad=False,
    )
    return dataclasses.replace(fact, **changes)


def form(value: Any) -> Node:
    return tree.encode(value, lambda tensor: {"t": "tensor"}, odd="describe")


@pytest.mark.parametrize("peer", [torch.ones(3), (torch.ones(3), torch.ones(2)), {"a": torch.ones(1)}, 3.5])
def test_the_form_of_the_reference_is_right(peer: Any) -> None:
    assert expect(peer).form_fault(form(peer)) is None


def test_a_list_is_as_good_as_a_tuple_and_nothing_is_asked_of_who_returns_nothing() -> None:
    assert expect((torch.ones(3), torch.ones(2))).form_fault(form([torch.ones(3), torch.ones(2)])) is None
    assert expect(None).form_fault(form(torch.ones(2))) is None


@pytest.mark.parametrize(
    ("peer", "got", "said"),
    [
        (
            (torch.ones(3), torch.ones(2)),
            torch.ones(3),
            "the output is a tensor, the reference's is a tuple of 2",
        ),
        ((torch.ones(3), torch.ones(2)), (torch.ones(3),), "the output has 1 parts, the reference's 2"),
        (torch.ones(3), None, "the output is None, the reference's is a tensor"),
        ({"a": torch.ones(1)}, {"b": torch.ones(1)}, "has the keys ['b'], the reference's ['a']"),
        ((torch.ones(1), 2), (torch.ones(1), 3), "output[1] is 3, expected 2"),
        (2.5, 2.6, "is 2.6, expected 2.5"),
    ],
)
def test_another_form_is_named(peer: Any, got: Any, said: str) -> None:
    fault = expect(peer).form_fault(form(got))
    assert fault is not None
    assert fault.status is Status.WRONG
    assert said in fault.reason


def test_every_output_is_judged_by_itself() -> None:
    peer = (torch.randn(40), torch.randn(40))
    first, second = expect(peer).leaves
    assert first.fault(peer[0]) is None
    fault = second.fault(peer[0])
    assert fault is not None
    assert fault.reason.startswith("output[1]: ")


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"type": "mine.Lazy"}, Status.CHEATED, "a mine.Lazy, a subclass of torch.Tensor"),
        ({"type": "torch.nn.parameter.Parameter"}, Status.WRONG, "not exactly a torch.Tensor"),
        ({"device": "meta"}, Status.WRONG, "on device meta"),
        ({"dtype": "float64"}, Status.WRONG, "is fp64, the reference's is fp32"),
        ({"shape": (4, 3), "strides": (3, 1)}, Status.WRONG, "has shape (4, 3), the reference's (3, 4)"),
        ({"strides": (1, 3)}, Status.WRONG, "has strides (1, 3), the reference's has (4, 1)"),
        ({"is_neg": True}, Status.WRONG, "negates"),
        ({"problem": "a copy that has not been made yet (copy on write)"}, Status.CHEATED, "not been made"),
        ({"problem": "9 bytes are more than any output was expected to have"}, Status.WRONG, "9 bytes"),
    ],
)
def test_type_device_dtype_shape_and_strides_are_the_references(
    changes: dict[str, Any], status: Status, said: str
) -> None:
    (leaf,) = expect(torch.randn(3, 4)).leaves
    assert leaf.layout_fault(fact_of(torch.randn(3, 4)), dense=False) is None
    fault = leaf.layout_fault(fact_of(torch.randn(3, 4), **changes), dense=False)
    assert fault is not None
    assert fault.status is status
    assert said in fault.reason


def test_layouts_of_the_judges_own_may_come_back_in_any_dense_order() -> None:
    (leaf,) = expect(torch.randn(4, 3).t()).leaves
    for right in (torch.randn(3, 4), torch.randn(4, 3).t()):
        assert leaf.layout_fault(fact_of(right), dense=True) is None
    assert leaf.layout_fault(fact_of(torch.randn(3, 8)[:, :4]), dense=True) is not None
    assert leaf.layout_fault(fact_of(torch.randn(3, 1).expand(3, 4)), dense=True) is not None


@given(st.permutations(range(4)), st.lists(st.integers(1, 4), min_size=4, max_size=4))
@settings(deadline=None)
def test_every_permuted_tensor_is_dense_and_none_with_gaps_is(order: list[int], shape: list[int]) -> None:
    tensor = torch.empty(shape).permute(order)
    assert is_dense(tensor.shape, tensor.stride())
    assert same_strides(tensor.shape, tensor.stride(), tensor.stride())
    gaps = torch.empty([*shape, 2])[..., 0].permute(order)
    assert tensor.numel() == 1 or not is_dense(gaps.shape, gaps.stride())


def test_strides_of_single_rows_do_not_count() -> None:
    assert same_strides((1, 4), (99, 1), (4, 1))
    assert same_strides((0, 4), (99, 7), (4, 1))
    assert not same_strides((2, 4), (99, 1), (4, 1))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.bool, torch.uint8])
def test_integers_are_exact(dtype: torch.dtype) -> None:
    peer = torch.tensor([0, 1, 1, 0, 1]).to(dtype)
    (leaf,) = expect(peer).leaves
    assert leaf.fault(peer) is None
    wrong = peer.clone()
    wrong[3] = 1
    fault = leaf.fault(wrong)
    assert fault is not None
    assert "1 of 5 elements" in fault.reason


def test_an_integer_may_be_the_oracles_or_the_peers_and_hang_on_a_rounding_where_it_does() -> None:
    peer, oracle = torch.tensor([7, 3, 5]), torch.tensor([8, 3, 5])
    (leaf,) = expect(peer, oracle, slack=[torch.tensor([False, False, True])]).leaves
    assert leaf.fault(torch.tensor([7, 3, 5])) is None
    assert leaf.fault(torch.tensor([8, 3, 9])) is None
    assert leaf.fault(torch.tensor([9, 3, 5])) is not None


def test_slack_of_the_oracle_is_granted_element_by_element() -> None:
    peer = torch.ones(64)
    slack = torch.zeros(64, dtype=torch.float64)
    slack[5] = 0.5
    slack[6] = float("inf")
    (leaf,) = expect(peer, slack=[slack]).leaves
    got = peer.clone()
    got[5], got[6] = 1.9, float("nan")
    assert leaf.fault(got) is None
    got[7] = 1.9
    assert leaf.fault(got) is not None


def test_complex_numbers_are_judged_part_by_part() -> None:
    peer = torch.randn(32, dtype=torch.complex64)
    (leaf,) = expect(peer, peer.to(torch.complex128)).leaves
    assert leaf.fault(peer) is None
    assert leaf.fault(peer.conj().resolve_conj()) is not None


def test_user_tolerances_replace_the_largest_error_but_not_the_l2_gate() -> None:
    peer = torch.randn(4096)
    one_off = peer.clone()
    one_off[7] += 1e-3
    wide = BaselineBudget(atol=1e-2, rtol=0.0, relative_l2={torch.float32: 1e-3})
    assert expect(peer).leaves[0].fault(one_off) is not None
    assert expect(peer, budget=wide).leaves[0].fault(one_off) is None
    fault = expect(peer, budget=wide).leaves[0].fault(peer + 5e-3)
    assert fault is not None
    assert "relative L2" in fault.reason


@given(
    atol=st.floats(0, 1e6),
    rtol=st.floats(0, 1e6),
    columns=st.sampled_from([1, 16, 4096]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
@settings(deadline=None, max_examples=60)
def test_no_tolerance_lets_zeros_pass(atol: float, rtol: float, columns: int, dtype: torch.dtype) -> None:
    peer = torch.softmax(torch.randn(4, columns, generator=torch.Generator().manual_seed(0)), -1).to(dtype)
    gate = {torch.float32: 1e9, torch.bfloat16: 1e9}
    expected = expect(peer, budget=BaselineBudget(atol=atol, rtol=rtol, relative_l2=gate))
    assert expected.leaves[0].fault(torch.zeros_like(peer)) is not None
    assert expected.leaves[0].fault(peer) is None
    if atol > 1 or rtol > 1:
        assert "was cut to" in expected.notes[0]


def test_stricter_tolerances_hold_for_the_users_own_inputs_only() -> None:
    peer = torch.randn(64)
    got = peer + 2e-6
    strict = BaselineBudget(atol=1e-8, rtol=0.0)
    assert expect(peer, budget=strict).leaves[0].fault(got) is not None
    assert expect(peer, budget=strict, strict_tolerances=False).leaves[0].fault(got) is None


def test_a_reference_that_runs_in_no_other_dtype_grants_twice_as_much() -> None:
    peer = torch.full((512,), 1.0)
    got = peer * (1 + 6e-6)
    assert expect(peer).leaves[0].fault(got) is not None
    assert expect(peer, precision="own").leaves[0].fault(peer * (1 + 3.5e-6)) is None
    assert expect(peer, precision="own").leaves[0].fault(peer * (1 + 3e-5)) is not None
