"""The calls of a check: what is in it, in which order, and that nobody can know it before."""

from __future__ import annotations

import random

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from hypothesis import settings

from kernelwright.referee.contract import _contents as contents
from kernelwright.referee.contract._cases import CaseCall
from kernelwright.referee.contract._cases import Kind
from kernelwright.referee.contract._cases import plan
from kernelwright.referee.contract._cases import Spot
from kernelwright.referee.contract._fp64 import duplicate
from kernelwright.referee.contract._reference import LeafFacts
from kernelwright.referee.contract._reference import WorkloadFacts

X = LeafFacts(True, "float32", True, (48, 64), (64, 1), 48 * 64 * 4)
W = LeafFacts(True, "float32", True, (64,), (1,), 256)
EPS = LeafFacts(False)
INDEX = LeafFacts(True, "int64", False, (48,), (1,), 48 * 8)


def workload(*leaves: LeafFacts, name: str = "default", **changes: object) -> WorkloadFacts:
    given = {
        "name": name,
        "parameters": tuple(f"t{index}" for index, leaf in enumerate(leaves) if leaf.tensor),
        "leaves": leaves,
        "outputs": (leaves[0],),
        "mutated": (),
        "gradient": False,
        "fixed": False,
        "precision": "fp64",
        "shares_input": False,
        "repeats": 0.0,
        "groups": ((0,),),
        "seconds": 0.001,
    }
    return WorkloadFacts(**{**given, **changes})  # type: ignore[arg-type]


def calls_of(
    *workloads: WorkloadFacts, seed: int = 0, nonfinite: bool = True, threads: int = 2
) -> list[CaseCall]:
    return plan(workloads, nonfinite=nonfinite, draw=random.Random(seed), threads=threads)


def test_what_shows_replay_comes_first() -> None:
    calls = calls_of(workload(X, W, EPS))
    first = calls[:5]
    assert [call.kind for call in first] == [Kind.PLAIN, Kind.AGAIN, Kind.TWIN, Kind.TWIN, Kind.TWIN]
    assert [call.spot for call in first] == [Spot.NEW, *[Spot.SAME] * 4]
    assert first[0].call == first[1].call
    assert all(call.call["seed"] == first[0].call["seed"] for call in first), "twins of one set of inputs"
    later = next(call for call in calls[2:] if call.kind is Kind.AGAIN)
    assert (later.spot, later.call) == (Spot.NEW, first[0].call), "old contents at new addresses"


def test_every_kind_of_contents_and_layout_is_there() -> None:
    titles = "\n".join(call.title for call in calls_of(workload(X, W)))
    for words in (
        "scale",
        "zeros",
        "constant",
        "cancelling",
        "large values",
        "shifted",
        "denormals",
        "NaN",
        "+inf",
        "-inf",
        "1 row",
        "97 rows",
        "no rows",
        "rows apart",
        "the other way round",
        "expanded",
        "into the storage",
        "on one thread",
        "another seed",
    ):
        assert words in titles


def test_infinities_are_left_out_where_the_contract_has_none() -> None:
    titles = [call.title for call in calls_of(workload(X, W), nonfinite=False)]
    assert not any("NaN" in title or "inf" in title for title in titles)


def test_integers_alone_get_no_floating_contents() -> None:
    calls = calls_of(workload(INDEX))
    assert not [call for call in calls if call.kind is Kind.CONTENTS]
    assert [call for call in calls if call.kind is Kind.TWIN]


def test_gradients_are_asked_for_where_they_belong_to_the_contract() -> None:
    assert not any(call.call["gradient"] for call in calls_of(workload(X, W)))
    asked = [call for call in calls_of(workload(X, W, gradient=True)) if call.call["gradient"]]
    assert {call.kind for call in asked} == {Kind.PLAIN, Kind.LEAD, Kind.CONTENTS}


def test_rows_are_left_as_they_are_where_the_reference_takes_no_others() -> None:
    assert not [call for call in calls_of(workload(X, groups=())) if call.kind is Kind.LEAD]


def test_only_layouts_may_be_refused() -> None:
    for call in calls_of(workload(X, W)):
        assert call.may_refuse == (call.kind is Kind.LAYOUT)


def test_all_workloads_are_called_and_the_smallest_of_a_kind_is_varied() -> None:
    large = LeafFacts(True, "float32", True, (480, 64), (64, 1), 480 * 64 * 4)
    calls = calls_of(workload(large, W, name="large"), workload(X, W, name="small"))
    assert {call.workload for call in calls if call.kind is Kind.TWIN} == {"large", "small"}
    assert {call.workload for call in calls if call.kind is Kind.CONTENTS} == {"small"}


def test_inputs_that_ignore_their_seed_are_changed_by_it() -> None:
    calls = calls_of(workload(X, fixed=True))
    plain = [call for call in calls if call.kind is Kind.PLAIN]
    assert all(call.call["steps"][0]["kind"] == "noise" for call in plain)
    assert len({call.call["steps"][0]["seed"] for call in plain}) == len(
        {call.call["seed"] for call in plain}
    )


@given(st.integers(0, 1 << 48), st.integers(0, 1 << 48))
@settings(deadline=None, max_examples=30)
def test_one_seed_is_one_plan_and_two_are_two(one: int, other: int) -> None:
    about = workload(X, W)
    assert calls_of(about, seed=one) == calls_of(about, seed=one)
    if one != other:
        first, second = calls_of(about, seed=one), calls_of(about, seed=other)
        assert not {call.call["seed"] for call in first} & {call.call["seed"] for call in second}


@given(st.integers(1, 4096), st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=60)
def test_numbers_of_rows_are_others_than_the_workloads(rows: int, seed: int) -> None:
    leaf = LeafFacts(True, "float32", True, (rows, 8), (8, 1), rows * 32)
    drawn = [
        step["rows"]
        for call in calls_of(workload(leaf), seed=seed)
        if call.kind is Kind.LEAD
        for step in call.call["steps"]
        if step["kind"] == "lead"
    ]
    assert rows not in drawn
    assert len(set(drawn)) == len(drawn) >= 2
    assert 2 * rows + 1 in drawn


# Contents -------------------------------------------------------------------------------------------------

shapes = st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple)
dtypes = st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.float64])


def drawn(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def change(x: torch.Tensor, kind: str, seed: int = 0, **step: object) -> torch.Tensor:
    (made,) = contents.changed([x], {"kind": kind, **step}, torch.Generator().manual_seed(seed))
    return made


@given(shapes, dtypes, st.integers(0, 99))
@settings(deadline=None, max_examples=80)
def test_a_twin_keeps_its_ends_and_nearly_all_elements(shape, dtype, seed) -> None:
    x = drawn(shape, dtype, seed)
    twin = change(x, "twin", seed, count=4)
    differs = (twin != x).flatten()
    assert int(differs.sum()) <= 4
    if x.numel() >= 3 and max(shape) >= 3 and all(size >= 3 or size == 1 for size in shape):
        assert not differs[0]
        assert not differs[-1]


def test_a_twin_of_an_ordinary_tensor_differs_and_in_its_interior_only() -> None:
    x = drawn((6, 50), torch.float32, 0)
    rows, columns = (change(x, "twin", 3, count=5) != x).nonzero(as_tuple=True)
    assert 1 <= len(rows) <= 5
    assert {0, 5}.isdisjoint(rows.tolist())
    assert {0, 49}.isdisjoint(columns.tolist())


@given(shapes, dtypes, st.integers(0, 99))
@settings(deadline=None, max_examples=80)
def test_exchanged_elements_are_the_same_elements(shape, dtype, seed) -> None:
    x = drawn(shape, dtype, seed)
    swapped = change(x, "swap", seed)
    assert torch.equal(swapped.flatten().sort().values, x.flatten().sort().values)
    assert int((swapped != x).sum()) in (0, 2)


@given(st.sampled_from([(4, 64), (7, 33), (300,)]), dtypes, st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_sums_of_coarse_values_do_not_depend_on_the_order(shape, dtype, seed) -> None:
    x = change(drawn(shape, dtype, seed), "coarse", seed).flatten()
    if not x.is_floating_point():
        return
    wanted = x.double().sum()
    for order in range(3):
        again = x[torch.randperm(x.numel(), generator=torch.Generator().manual_seed(order))]
        assert again.float().cumsum(0)[-1] == wanted


@pytest.mark.parametrize(
    "kind", ["twin", "swap", "coarse", "noise", "scale", "shift", "cancel", "denormals", "scatter"]
)
def test_strides_and_wishes_for_gradients_stay(kind: str) -> None:
    x = drawn((6, 50), torch.float32, 0).t().requires_grad_(True)
    made = change(x, kind, by=2.0, values=["nan"], count=3)
    assert made.stride() == x.stride()
    assert made.shape == x.shape
    assert made.requires_grad
    assert not torch.equal(made, x)


@given(shapes, st.integers(0, 9), st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_rows_are_drawn_from_those_there_are(shape, rows, seed) -> None:
    labels = torch.randint(0, 5, shape, generator=torch.Generator().manual_seed(seed))
    x = drawn(shape, torch.float32, seed)
    generator = torch.Generator().manual_seed(seed)
    made, other = contents.with_leading([labels, x], [0, 1], rows, generator)
    assert made.shape == other.shape == (rows, *shape[1:])
    known = {tuple(row.flatten().tolist()) for row in labels}
    assert all(tuple(row.flatten().tolist()) in known for row in made)


@pytest.mark.parametrize(
    ("shapes", "groups"),
    [
        ([(48, 64), (64,)], [[0]]),
        ([(48, 64), (48, 64), (64,)], [[0, 1], [0]]),
        ([(64, 64), (64, 64)], [[0, 1], [0]]),
        ([(64, 64), (64, 32)], [[0, 1], [0]]),
        ([(1, 4, 8), (1, 4, 8), (1, 1, 8)], [[0, 1]]),
        ([(0, 4)], []),
        ([()], []),
    ],
)
def test_who_may_share_a_leading_dimension(shapes: list[tuple[int, ...]], groups: list[list[int]]) -> None:
    assert contents.leading_groups([torch.zeros(shape) for shape in shapes]) == groups


@pytest.mark.parametrize("layout", ["padded", "transposed"])
def test_layouts_keep_the_values(layout: str) -> None:
    x = drawn((6, 50), torch.float32, 0)
    laid = contents.laid_out([x], layout, "first")
    assert laid is not None
    assert torch.equal(laid[0], x)
    assert laid[0].stride() != x.stride()


def test_a_vector_has_no_layouts() -> None:
    assert contents.laid_out([torch.zeros(4)], "padded", "first") is None


@given(shapes, st.permutations(range(3)), st.booleans())
@settings(deadline=None, max_examples=60)
def test_a_duplicate_has_the_same_layout_in_other_memory(shape, order, expand) -> None:
    x = torch.randn(shape)
    if x.ndim == 3:
        x = x.permute(order)
    if expand:
        x = x[:1].expand(4, *x.shape[1:])
    copy = duplicate(x, x.dtype)
    assert copy.stride() == x.stride()
    assert torch.equal(copy, x)
    assert copy.data_ptr() != x.data_ptr()
