"""What a child does while it ought to be still."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelwright.process import Child
from kernelwright.process import Limits
from kernelwright.referee._native_tasks import Stillness
from kernelwright.referee._native_tasks import task_state


class FakeChild:
    """A child that has used so much processor time."""

    pid = 0

    def __init__(self) -> None:
        self.used_ns = 0

    def cpu_ns(self) -> int:
        return self.used_ns

    def runnable(self) -> int:
        return 0


@pytest.fixture
def sleeper() -> Iterator[Child]:
    with Child(["sleep", "60"], limits=Limits(wall_s=60)) as child:
        yield child


@pytest.fixture
def burner() -> Iterator[Child]:
    with Child(["sh", "-c", "while :; do :; done"], limits=Limits(wall_s=60)) as child:
        yield child


def test_the_state_of_a_task_is_what_the_system_says(sleeper: Child) -> None:
    deadline = time.monotonic() + 60
    while task_state(Path(f"/proc/{sleeper.pid}")) != "S" and time.monotonic() < deadline:
        time.sleep(0.001)
    assert task_state(Path(f"/proc/{sleeper.pid}")) == "S"
    assert task_state(Path("/proc/0")) == ""


def test_who_works_on_is_not_waited_for_longer_than_a_quarter_of_a_second(burner: Child) -> None:
    assert burner.pid is not None
    still = Stillness()
    still.watch(burner)
    time.sleep(0.05)
    began = time.monotonic()
    still.settle()
    assert still.unsettled == 1
    assert 0.2 < time.monotonic() - began < 30.0


def idle(used_ms: float, passed_ms: float, times: int) -> Stillness:
    child: Any = FakeChild()
    still = Stillness()
    still.watch(child)
    for _ in range(times):
        still.rest()
        still._since -= int(passed_ms * 1e6)
        child.used_ns += int(used_ms * 1e6)
        still.check()
    return still


@pytest.mark.parametrize(
    ("used_ms", "passed_ms", "times", "blamed"),
    [
        (0.1, 20, 50, False),
        # The scheduler's ticks, and one burst of it.
        (2.9, 20, 50, False),
        (200, 250, 1, False),
        (15, 20, 2, False),
        (15, 20, 10, True),
        (10, 40, 10, True),
        # Seldom, beside all the time that passed.
        (6, 100, 3, False),
    ],
)
def test_blame_takes_work_that_is_much_and_comes_again(
    used_ms: float, passed_ms: float, times: int, blamed: bool
) -> None:
    words = idle(used_ms, passed_ms, times).blame()
    assert (words is not None) is blamed
    if words is not None:
        assert f"{used_ms * times:.0f} ms of processor time" in words
