"""Times on the command line."""

from __future__ import annotations

import pytest

from kernelwright.cli._time import parse_seconds
from kernelwright.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("2", 2.0),
        ("60s", 60.0),
        ("0.5s", 0.5),
        ("1.5s", 1.5),
        ("250ms", 0.25),
        ("5m", 300.0),
        ("1min", 60.0),
        ("2 m", 120.0),
        ("1h", 3600.0),
        ("1m30s", 90.0),
        ("1h1min500ms", 3660.5),
    ],
)
def test_a_budget_is_a_time(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-5s", "5x", "1s5m", "soon", "inf", "nan"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="500ms, 2s or 1min"):
        parse_seconds(text)
