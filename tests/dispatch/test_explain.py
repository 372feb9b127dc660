"""What a person reads about a call."""

from __future__ import annotations

import logging

import pytest
import torch

import kernelwright as kw
from kernelwright.dispatch import announce
from kernelwright.errors import ArgumentTypeError
from kernelwright.errors import UnknownNameError

X = torch.ones(2, 3)


def test_an_explanation_reads_from_the_choice_to_the_refusals(scale):
    scale.refuse = lambda call: "x is too small"
    text = str(kw.explain("scale", X, weight=X, factor=2.0))
    assert text.splitlines() == [
        "scale: torch (backend torch), by rank",
        "  not fast: x is too small",
        "  note: no spec: results of this operator cannot be checked",
    ]
    assert scale.served == [], "explaining runs nothing"


def test_explain_sees_preferences_as_the_call_would(scale):
    assert kw.explain("scale", X, X).because == "rank"
    assert kw.explain("scale", X, X, backend="torch").because == "backend="
    with kw.use_backend("torch"):
        explanation = kw.explain("scale", X, X)
    assert explanation.because == "use_backend"
    assert explanation.refusals == {"fast": "backend 'torch' was asked for (use_backend)"}


@pytest.mark.parametrize(
    ("args", "words", "text"),
    [
        ((), {}, "x is missing"),
        ((X,), {"x": X}, "several values for x"),
        ((X, X, X), {}, "1 positional arguments too many"),
        ((X, "w"), {}, "weight must be a Tensor, got str 'w'"),
    ],
)
def test_explain_checks_arguments_as_the_call_would(scale, args, words, text):
    with pytest.raises(ArgumentTypeError, match=text):
        kw.explain("scale", *args, **words)


def test_an_unknown_operator_is_an_error_with_the_nearest_name(scale):
    with pytest.raises(UnknownNameError, match="did you mean 'scale'"):
        kw.explain("scal", X)


def test_an_announcement_is_made_once_and_as_a_warning(caplog):
    with caplog.at_level(logging.WARNING, logger="kernelwright"):
        announce("building the kernel of a test")
        announce("building the kernel of a test")
    assert [one.message for one in caplog.records] == ["building the kernel of a test"]
