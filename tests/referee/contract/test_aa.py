"""The A/A gate: rounds in which the baseline differs from itself are not compared."""

from __future__ import annotations

import json

import numpy as np

from kernelwright.referee.contract._aa import against_itself
from kernelwright.referee.contract._aa import SelfCheck
from kernelwright.referee.contract._rounds import Series


def check(*, ratio: float, bias: float = 1.0, noise: float = 0.002, count: int = 30) -> SelfCheck:
    """Rounds of a candidate `ratio` times as fast, where the baseline's second block takes `bias` times as
    long as its first."""
    random = np.random.default_rng(3)
    series = Series()
    for _ in range(count):
        first, again, candidate = 1000.0 * np.exp(noise * random.standard_normal(3))
        series.add(0, first, candidate / ratio, again * bias)
    return against_itself(series, series.estimate(seed=0), minimum_effect=0.01, seed=0)


def test_a_quiet_machine_passes() -> None:
    found = check(ratio=1.03)
    assert found.problem is None
    assert found.found is not None
    assert abs(found.found.ratio - 1.0) < 0.003


def test_a_baseline_that_differs_from_itself_is_refused_with_numbers() -> None:
    found = check(ratio=1.03, bias=1.04)
    assert "the baseline differs from itself: ratio 0.96" in str(found.problem)


def test_so_is_one_that_is_only_known_within_wide_bounds() -> None:
    found = check(ratio=1.03, noise=0.6)
    assert "too noisy" in str(found.problem)


def test_what_dwarfs_the_noise_may_be_compared() -> None:
    assert check(ratio=4.0, bias=1.04).problem is None
    assert check(ratio=8.0, noise=0.3).problem is None
    assert check(ratio=1.2, bias=1.04).problem is not None


def test_what_is_wholly_beyond_the_noise_is_compared_however_much_of_it_there_is() -> None:
    assert check(ratio=1000.0, noise=1.2).problem is None
    assert check(ratio=0.001, noise=1.2).problem is None
    assert check(ratio=5.0, noise=1.2).problem is not None


def test_too_few_double_rounds_refuse_nothing() -> None:
    assert check(ratio=1.03, bias=2.0, count=4).problem is None


def test_it_is_plain_data_in_the_conditions() -> None:
    for found in (check(ratio=1.03), check(ratio=1.03, count=2)):
        plain = found.as_dict()
        assert json.loads(json.dumps(plain)) == plain
    assert found.as_dict()["ratio"] is None
