"""What else the machine did meanwhile is watched, and said to be unknown where it is."""

from __future__ import annotations

import json
import os
import time

import pytest

from kernelwright.machine import watch
from kernelwright.machine._conditions import fractions
from kernelwright.machine._conditions import read_ticks


def test_a_block_is_watched():
    with watch() as conditions:
        assert conditions.wall_s is None
        deadline = time.monotonic() + 0.2
        while time.monotonic() < deadline:
            pass
    assert conditions.wall_s == pytest.approx(0.2, abs=0.15)
    assert conditions.threads == len(os.sched_getaffinity(0))
    assert conditions.load_after is not None
    assert conditions.busy is not None
    assert 0 < conditions.busy <= 1
    assert conditions.steal is not None
    assert 0 <= conditions.steal <= 1
    assert json.loads(json.dumps(conditions.as_dict()))["affinity"] == sorted(os.sched_getaffinity(0))


def test_a_block_that_fails_is_watched_to_its_end():
    with pytest.raises(ZeroDivisionError), watch() as conditions:
        1 / 0  # noqa: B018
    assert conditions.wall_s is not None


def test_fractions_are_of_all_time_that_passed():
    before = [100, 0, 50, 1000, 10, 0, 0, 5]
    after = [160, 0, 60, 1020, 10, 0, 0, 15]
    assert fractions(before, after) == (0.7, 0.1)


def test_what_is_not_known_is_none(tmp_path):
    assert read_ticks(tmp_path / "missing") is None
    assert fractions(None, [0] * 8) == (None, None)
    assert fractions([1] * 8, [1] * 8) == (None, None)
