"""Draws of a call's inputs: what may lie in one place, what a change changes, what has to be moved."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelwright.referee.contract._draws import alike
from kernelwright.referee.contract._draws import finite
from kernelwright.referee.contract._draws import same_results
from kernelwright.referee.contract._draws import span_bytes
from kernelwright.referee.contract._draws import with_others


def made(*tensors: torch.Tensor, result: torch.Tensor | None = None) -> Any:
    rule = SimpleNamespace(peer=result, expected=result)
    return SimpleNamespace(tensors=tensors, expected=SimpleNamespace(leaves=(SimpleNamespace(rule=rule),)))


def test_draws_are_alike_that_fit_the_same_place() -> None:
    one = torch.zeros(2, 3)
    assert alike(made(one), made(torch.ones(2, 3)))
    assert not alike(made(one), made(torch.zeros(3, 2).t()))
    assert not alike(made(one), made(one.double()))
    assert not alike(made(one), made(one, one))


@pytest.mark.parametrize("x", [torch.arange(24.0).view(4, 6), torch.arange(48.0).view(4, 12)[:, ::2].t()])
def test_a_change_gives_elements_the_values_of_others_in_place(x: torch.Tensor) -> None:
    changed = with_others(x, 1, torch.Generator().manual_seed(1))
    assert changed.shape == x.shape
    assert int((changed != x).sum()) == 1
    assert float(changed[changed != x]) in x.flatten().tolist()


def test_integers_and_single_elements_are_left_alone() -> None:
    for x in (torch.arange(9), torch.ones(1)):
        assert torch.equal(with_others(x, 3, torch.Generator()), x)


def test_bytes_of_expanded_dimensions_count_once() -> None:
    x = torch.zeros(5, 7)
    assert span_bytes(x) == 140
    assert span_bytes(x[:1].expand(100, 7)) == 28
    assert span_bytes(torch.zeros(0, 7)) == 0


def test_results_are_compared_and_their_finite_share_is_known() -> None:
    one, other = torch.tensor([1.0, float("inf")]), torch.tensor([1.0, 2.0])
    assert finite(made(result=one)) == 0.5
    assert finite(made(result=torch.arange(3))) == 1.0
    assert same_results(made(result=one), made(result=one.clone()))
    assert not same_results(made(result=one), made(result=other))
