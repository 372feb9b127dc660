"""What else the machine did meanwhile is watched, and said to be unknown where it is."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from kernelwright.machine import watch
from kernelwright.machine._conditions import fractions
from kernelwright.machine._conditions import read_mhz
from kernelwright.machine._conditions import read_pressure_us
from kernelwright.machine._conditions import read_throttles
from kernelwright.machine._conditions import read_ticks


def test_a_block_is_watched():
    with watch() as conditions:
        assert conditions.wall_s is None
        deadline = time.monotonic() + 0.2
        while time.monotonic() < deadline:
            pass
    assert conditions.wall_s is not None
    assert 0.2 <= conditions.wall_s < 30.0
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
    assert read_mhz([0], tmp_path, tmp_path / "cpuinfo") is None
    assert read_throttles([0], tmp_path) is None
    assert read_pressure_us(tmp_path / "cpu") is None


def test_each_value_is_known_or_said_to_be_missing():
    with watch() as conditions:
        time.sleep(0.05)
    plain = conditions.as_dict()
    for name in ("pressure", "throttled", "steal"):
        assert (plain[name] is None) == (name in plain["missing"])
    assert (plain["mhz_after"] is None) == ("mhz" in plain["missing"])
    assert all(reason for reason in plain["missing"].values())


def fake_cpus(folder: Path, khz: dict[int, int], throttled: dict[int, int]) -> Path:
    for cpu, rate in khz.items():
        (folder / f"cpu{cpu}" / "cpufreq").mkdir(parents=True)
        (folder / f"cpu{cpu}" / "cpufreq" / "scaling_cur_freq").write_text(f"{rate}\n")
    for cpu, count in throttled.items():
        (folder / f"cpu{cpu}" / "thermal_throttle").mkdir(parents=True)
        (folder / f"cpu{cpu}" / "thermal_throttle" / "core_throttle_count").write_text(f"{count}\n")
        (folder / f"cpu{cpu}" / "thermal_throttle" / "package_throttle_count").write_text("1\n")
    return folder


def test_clock_rates_and_throttling_are_of_the_processors_used(tmp_path):
    folder = fake_cpus(tmp_path, {0: 1_000_000, 1: 3_100_000, 2: 3_000_000}, {1: 4, 2: 5, 3: 100})
    assert read_mhz([1, 2], folder) == 3100.0
    assert read_throttles([1, 2], folder) == 4 + 5 + 2


def test_clock_rates_come_from_cpuinfo_where_there_is_no_cpufreq(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\ncpu MHz\t\t: 2600.5\n\nprocessor\t: 1\ncpu MHz\t\t: 1200.0\n")
    assert read_mhz([0], tmp_path, cpuinfo) == 2600.5


def test_pressure_is_the_time_that_some_task_waited(tmp_path):
    path = tmp_path / "cpu"
    path.write_text("some avg10=1.00 avg60=0.50 avg300=0.10 total=12345\nfull avg10=0.00 total=7\n")
    assert read_pressure_us(path) == 12345
