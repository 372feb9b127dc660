"""Wrong outputs, and the act that each is told as."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from hypothesis import settings

from kernelwright.ops import ErrorBudget
from kernelwright.referee import Status
from kernelwright.referee._oracle import exact
from kernelwright.referee._oracle import expectation
from kernelwright.referee.contract._diagnosis import diagnose
from kernelwright.referee.contract._diagnosis import Earlier
from kernelwright.referee.contract._diagnosis import Fault
from kernelwright.referee.contract._diagnosis import Rule

RIGHT = torch.randn(16, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
OTHER = torch.randn(16, 64, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def rule_of(oracle: torch.Tensor, dtype: torch.dtype = torch.float32) -> Rule:
    return expectation(oracle, oracle.to(dtype), ErrorBudget())


def told(got: torch.Tensor, rule: Rule | None = None, **options: object) -> Fault:
    rule = rule_of(RIGHT) if rule is None else rule
    text = rule.fault(got)
    assert text is not None, "it is not wrong at all"
    return diagnose(got, rule, text, **options)  # type: ignore[arg-type]


def unwritten(count: int) -> torch.Tensor:
    got = RIGHT.float()
    got.view(-1)[:count].view(torch.int32).fill_(-1)
    return got


def with_rows(rows: slice, value: float) -> torch.Tensor:
    got = RIGHT.float()
    got[rows] += value
    return got


ACTS: list[tuple[str, Callable[[], torch.Tensor], str]] = [
    ("never written", lambda: unwritten(1024), "1024 of 1024 elements were never written"),
    ("in part", lambda: unwritten(100), "100 of 1024 elements were never written"),
    ("zeros", lambda: torch.zeros(16, 64), "returned zeros everywhere"),
    ("constant", lambda: torch.full((16, 64), 0.25), "returned the constant 0.25 everywhere"),
    ("NaN", lambda: torch.full((16, 64), float("nan")), "every element is NaN"),
    (
        "infinite",
        lambda: RIGHT.float().masked_fill(RIGHT > 2, float("inf")),
        "infinite of 1024 elements where all should be finite",
    ),
    ("scaled", lambda: (0.5 * RIGHT).float(), "returned 0.5 times the expected result"),
    ("negative", lambda: (-RIGHT).float(), "returned -1 times the expected result"),
    ("bf16 numbers", lambda: RIGHT.bfloat16().float(), "every element is a bf16 number"),
    ("fp16 numbers", lambda: RIGHT.half().float(), "every element is a fp16 number"),
    (
        "bf16 inside",
        lambda: (RIGHT * (1 + 1.7e-3 * OTHER)).float(),
        "as if computed in bf16: the relative L2 error is",
    ),
    ("one row", lambda: with_rows(slice(3, 4), 1.0), "64 of 1024 elements are wrong, in row 3"),
    ("rows", lambda: with_rows(slice(8, 16), 1.0), "512 of 1024 elements are wrong, in rows 8 to 15"),
    ("scattered rows", lambda: with_rows(slice(0, 16, 5), 1.0), "in 4 of 16 rows"),
]


@pytest.mark.parametrize(("got", "said"), [act[1:] for act in ACTS], ids=[act[0] for act in ACTS])
def test_each_act_is_named_with_its_numbers(got: Callable[[], torch.Tensor], said: str) -> None:
    fault = told(got())
    assert fault.status is Status.WRONG
    assert said in fault.reason
    assert "expected" in fault.reason or "relative L2" in fault.reason, "the rule's own words stay"


def test_an_input_that_comes_back_is_named() -> None:
    x = OTHER.float()
    assert "returned its input x as it came" in told(x.clone(), inputs=[("weight", x[0]), ("x", x)]).reason


def test_hidden_nan_is_named() -> None:
    oracle = RIGHT.clone()
    oracle[2, 3] = float("nan")
    fault = told(RIGHT.float(), rule_of(oracle))
    assert "hides NaN or infinities: 1 of 1024 elements should not be finite, none is" in fault.reason


def test_bits_of_an_earlier_call_are_a_replay() -> None:
    earlier = [Earlier("call 3 (twins)", OTHER.float(), rule_of(OTHER))]
    fault = told(OTHER.float(), earlier=earlier, share="the same addresses")
    assert fault.status is Status.CHEATED
    assert "returned bit by bit what it had returned in call 3 (twins)" in fault.reason
    assert "with the same addresses" in fault.reason


def test_the_right_result_of_an_earlier_call_is_a_replay_whatever_its_bits() -> None:
    earlier = [Earlier("call 3 (twins)", OTHER.float() * 7, rule_of(OTHER))]
    fault = told((OTHER * (1 + 5e-8)).float(), earlier=earlier)
    assert fault.status is Status.CHEATED
    assert "returned the result of call 3 (twins)" in fault.reason


def test_rows_of_an_earlier_call_are_a_replay_in_part() -> None:
    got = RIGHT.float()
    got[4:9] = OTHER[4:9].float()
    fault = told(got, earlier=[Earlier("call 3 (twins)", OTHER.float(), rule_of(OTHER))])
    assert fault.status is Status.CHEATED
    assert "320 of 1024 elements are those of call 3 (twins)" in fault.reason


@pytest.mark.parametrize("value", [0.0, 0.25])
def test_a_constant_is_no_replay_of_a_constant(value: float) -> None:
    got = torch.full((16, 64), value)
    assert told(got, earlier=[Earlier("call 3", got.clone(), None)]).status is Status.WRONG


def test_zeroed_rows_are_no_replay_of_a_call_that_had_zeros_there_too() -> None:
    got, before = RIGHT.float(), OTHER.float()
    got[8:] = before[8:] = 0
    assert told(got, earlier=[Earlier("call 3", before, None)]).status is Status.WRONG


def test_integers_are_counted() -> None:
    right = torch.arange(50)
    got = right.clone()
    got[7] = 0
    fault = told(got, exact(right, right))
    assert "1 of 50 elements" in fault.reason


@given(
    st.integers(0, 1023),
    st.floats(1e-2, 1e3),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
)
@settings(deadline=None)
def test_whatever_is_wrong_is_told_and_never_taken_for_a_cheat_without_a_past(
    at: int, by: float, dtype: torch.dtype
) -> None:
    got = RIGHT.to(dtype)
    got.view(-1)[at] += 8 * by
    fault = told(got, rule_of(RIGHT, dtype))
    assert fault.status is Status.WRONG
    assert fault.reason
