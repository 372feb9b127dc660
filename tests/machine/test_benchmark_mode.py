"""Clocks are locked while a block runs, and free again however it ends; a refusal says its kind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from kernelwright.machine import BenchmarkModeError
from kernelwright.machine import gpu_benchmark_mode
from kernelwright.machine import Refusal

#: An nvidia-smi that keeps its state in files beside it and refuses what a file of that name says.
SCRIPT = """#!/bin/sh
cd "${0%/*}" || exit 255
word=$3 name=${3%%=*} value=${3#*=}
echo "$word" >>asked
if [ -f "refuse$name" ]; then
  { read -r code; cat; } <"refuse$name"
  exit "$code"
fi
[ "$2" = 0 ] || { echo No devices were found; exit 6; }
case $word in
--query-gpu=*) echo "GPU-1234, NVIDIA H200, 580.159, $(cat persistence), 345, 3201, 1980, 3201" ;;
--query-supported-clocks=graphics) printf "1980\\n1500\\n1485\\n1470\\n345\\n" ;;
--query-supported-clocks=memory) printf "3201\\n2619\\n" ;;
--persistence-mode=1) echo Enabled >persistence ;;
--persistence-mode=0) echo Disabled >persistence ;;
--lock-gpu-clocks=*) echo "$value" >sm ;;
--reset-gpu-clocks) echo free >sm ;;
--lock-memory-clocks=*) echo "$value" >memory ;;
--reset-memory-clocks) echo free >memory ;;
*) exit 2 ;;
esac
"""
FREE = ("Disabled", "free", "free")


class Fake:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "nvidia-smi"
        program.write_text(SCRIPT)
        program.chmod(0o755)
        self.set(FREE)

    def set(self, state: tuple[str, str, str]) -> None:
        for name, value in zip(("persistence", "sm", "memory"), state, strict=True):
            (self.folder / name).write_text(f"{value}\n")

    def refuse(self, **words: tuple[int, str]) -> None:
        for name, (code, text) in words.items():
            (self.folder / f"refuse--{name.replace('_', '-')}").write_text(f"{code}\n{text}\n")

    def refuse_nothing(self) -> None:
        for path in self.folder.glob("refuse*"):
            path.unlink()

    @property
    def state(self) -> tuple[str, ...]:
        return tuple((self.folder / name).read_text().strip() for name in ("persistence", "sm", "memory"))

    @property
    def changes(self) -> list[str]:
        return [word for word in (self.folder / "asked").read_text().split() if "query" not in word]


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    return Fake(tmp_path)


def test_clocks_are_locked_in_the_block_and_free_after_it(smi: Fake) -> None:
    with gpu_benchmark_mode() as mode:
        assert smi.state == ("Enabled", "1485,1485", "3201,3201")
        assert (mode.sm_clock_mhz, mode.memory_clock_mhz, mode.persistence) == (1485, 3201, True)
        assert not mode.restored
        assert mode.describe() == (
            "GPU 0 (NVIDIA H200): SM clock locked to 1485 MHz, memory clock locked to 3201 MHz, "
            "persistence mode switched on"
        )
    assert smi.state == FREE
    assert mode.restored
    assert mode.describe().endswith("; all as before again")
    assert mode.actions == smi.changes
    assert [word.partition("=")[0] for word in mode.actions] == [
        "--persistence-mode",
        "--lock-gpu-clocks",
        "--lock-memory-clocks",
        "--reset-memory-clocks",
        "--reset-gpu-clocks",
        "--persistence-mode",
    ]


def test_a_clock_that_is_asked_for_is_the_nearest_that_the_gpu_has(smi: Fake) -> None:
    with gpu_benchmark_mode(sm_clock_mhz=1499, memory_clock_mhz=3000) as mode:
        assert (mode.sm_clock_mhz, mode.memory_clock_mhz) == (1485, 2619)
    with gpu_benchmark_mode(sm_clock_mhz=100) as mode:
        assert mode.sm_clock_mhz == 345


def test_persistence_that_was_on_stays_on(smi: Fake) -> None:
    smi.set(("Enabled", "free", "free"))
    with gpu_benchmark_mode() as mode:
        assert not mode.persistence
    assert smi.state == ("Enabled", "free", "free")


def test_an_exception_leaves_nothing_locked(smi: Fake) -> None:
    with pytest.raises(KeyboardInterrupt), gpu_benchmark_mode():
        raise KeyboardInterrupt
    assert smi.state == FREE


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)", "signal"])
def test_a_process_that_is_gone_leaves_nothing_locked(smi: Fake, end: str) -> None:
    """The process has a child that inherits its pipes; it ends long after."""
    script = f"""
        import os, signal, time
        from kernelwright.machine import gpu_benchmark_mode
        with gpu_benchmark_mode():
            if os.fork() == 0:
                os.closerange(0, 3)
                time.sleep(20)
                os._exit(0)
            print("locked", flush=True)
            {"time.sleep(60)" if end == "signal" else end}
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"locked\n"
    if end == "signal":
        assert smi.state[1] == "1485,1485"
        os.kill(process.pid, signal.SIGTERM)
    process.wait()
    deadline = time.monotonic() + 60
    while smi.state != FREE and time.monotonic() < deadline:
        time.sleep(0.02)
    assert smi.state == FREE
    os.killpg(process.pid, signal.SIGKILL)
    process.stdout.close()


PERMISSION = (4, "The current user does not have permission to change clocks for GPU 00000000:01:00.0.")
UNSUPPORTED = (0, "Setting locked memory clocks is not supported for GPU 00000000:01:00.0.\nAll done.")


@pytest.mark.parametrize(
    ("refused", "options", "reason", "said"),
    [
        (
            {"lock_gpu_clocks": PERMISSION},
            {},
            Refusal.NO_PERMISSION,
            "permission .* it takes root",
        ),
        ({"persistence_mode": PERMISSION}, {}, Refusal.NO_PERMISSION, "it takes root"),
        ({"lock_gpu_clocks": (3, "is not supported")}, {}, Refusal.UNSUPPORTED, "interleaved pairs"),
        (
            {"lock_memory_clocks": UNSUPPORTED},
            {"memory_clock_mhz": 3201},
            Refusal.UNSUPPORTED,
            "locked memory",
        ),
        ({"query_gpu": (9, "couldn't communicate with the driver")}, {}, Refusal.NO_GPU, "couldn't"),
        ({"query_gpu": (0, "")}, {}, Refusal.NO_GPU, "shows no GPU 0"),
        ({"query_gpu": (0, "one, two")}, {}, Refusal.FAILED, "did not answer what it was asked"),
        ({}, {"device": 7}, Refusal.NO_GPU, "`nvidia-smi -L` lists"),
        (
            {"lock_gpu_clocks": (255, "Unknown Error")},
            {},
            Refusal.FAILED,
            "-i 0 --lock-gpu-clocks=.* Unknown",
        ),
    ],
)
def test_a_refusal_says_its_kind_and_leaves_all_as_it_was(
    smi: Fake, refused: dict[str, tuple[int, str]], options: dict[str, Any], reason: Refusal, said: str
) -> None:
    smi.refuse(**refused)
    entered = False
    with pytest.raises(BenchmarkModeError, match=said) as failure, gpu_benchmark_mode(**options):
        entered = True
    assert not entered
    assert failure.value.reason is reason
    assert smi.state == FREE


def test_a_memory_clock_that_cannot_be_locked_is_said_where_nobody_asked_for_it(smi: Fake) -> None:
    smi.refuse(lock_memory_clocks=UNSUPPORTED)
    with gpu_benchmark_mode() as mode:
        assert mode.memory_clock_mhz is None
        assert "note: the memory clock is not locked" in mode.describe()
        assert smi.state[1] == "1485,1485"
    assert "--reset-memory-clocks" not in mode.actions
    assert smi.state == FREE


def test_what_cannot_be_unlocked_is_said_with_the_command_to_run(smi: Fake) -> None:
    def broken(then: str = "") -> None:
        with gpu_benchmark_mode():
            smi.refuse(reset_gpu_clocks=(255, "Unknown Error"))
            int(then or "0")

    with pytest.raises(BenchmarkModeError, match="run: nvidia-smi -i 0 --reset-gpu-clocks") as failure:
        broken()
    assert failure.value.reason is Refusal.NOT_RESTORED
    assert smi.state == ("Disabled", "1485,1485", "free")
    smi.refuse_nothing()
    with pytest.raises(ValueError, match="ten") as other:
        broken("ten")
    assert "--reset-gpu-clocks" in other.value.__notes__[0]


def test_two_do_not_lock_one_gpu_at_once(smi: Fake) -> None:
    with gpu_benchmark_mode():
        with (
            pytest.raises(BenchmarkModeError, match=f"process {os.getpid()} has locked") as failure,
            gpu_benchmark_mode(),
        ):
            pass
        assert failure.value.reason is Refusal.IN_USE
        assert smi.state[1] == "1485,1485"
    with gpu_benchmark_mode():
        pass


def test_without_nvidia_smi_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchmarkModeError, match="there is no nvidia-smi") as failure, gpu_benchmark_mode():
        pass
    assert failure.value.reason is Refusal.NO_TOOL
