"""Objectives that do everything an objective should not; imported by the workers' processes."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

INVALID_SCORE = float("inf")  # kernelwright.search.INVALID_SCORE; importing it costs each template a second

FILLED = []


def behave(config):
    """Do what the configuration says."""
    return DEEDS[config["do"]](config)


async def behave_async(config):
    """The same, as an async objective; what waits does so on the loop."""
    if config["do"] == "hang":
        await asyncio.sleep(60.0)
    if config["do"] == "stubborn":
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60.0)
        await asyncio.sleep(60.0)
    if config["do"] == "wait":
        await asyncio.sleep(config["seconds"])
        return config["seconds"]
    if config["do"] == "meet":
        arrive(config)
        while not config["other"].exists():
            await asyncio.sleep(0.01)
        return 1.0
    return DEEDS[config["do"]](config)


def empty(config):
    return 1.0


async def empty_async(config):
    return 1.0


def two(config):
    return config.get("first", 1.0), 2.0


def see(config):
    """The number of the one GPU that this process sees."""
    time.sleep(config.get("seconds", 0.0))
    return float(os.environ["CUDA_VISIBLE_DEVICES"])


def arrive(config):
    config["here"].touch()


def meet(config):
    """Come back when another task has begun, too."""
    arrive(config)
    while not config["other"].exists():
        time.sleep(0.01)
    return 1.0


def raise_error(config):
    sys.stderr.write("about to fail\n")
    raise ValueError(f"tile {config.get('tile', 7)} does not divide 64")


#: What is left sleeps for so long, by which it is found; tests that run beside one another leave others.
NAP = "61.25" + os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")


def leave_thread(config):
    threading.Thread(target=time.sleep, args=(60.0,), daemon=True).start()
    return 1.0


def leave_process(config):
    """A process that even leaves the group and session, and whose parent is gone."""
    code = f"import subprocess as s; s.Popen(['sleep', '{NAP}'], start_new_session=True)"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
    return 1.0


def leave_and_hang(config):
    leave_process(config)
    time.sleep(60.0)


def fork_bomb(config):
    for _ in range(7):
        os.fork()
    time.sleep(60.0)


def come_back_twice(config):
    os.fork()
    return 1.0


def flood(config):
    for stream in (sys.stdout, sys.stderr):
        for _ in range(2000):
            stream.write("x" * 1000 + "\n")
    return 3.0


def mark(config):
    """How often this process has been asked."""
    FILLED.append(1)
    return len(FILLED)


DEEDS = {
    "return": lambda config: config["value"],
    "invalid": lambda config: INVALID_SCORE,
    "raise": raise_error,
    "raise a text that raises": lambda config: (_ for _ in ()).throw(Silent()),
    "return a lock": lambda config: threading.Lock(),
    "hang": lambda config: time.sleep(60.0),
    "wait": lambda config: (time.sleep(config["seconds"]), config["seconds"])[1],
    "meet": meet,
    "segfault": lambda config: ctypes.string_at(0),
    "kill": lambda config: os.kill(os.getpid(), signal.SIGKILL),
    "memory": lambda config: len(bytearray(64 << 30)),
    "exit": lambda config: sys.exit(3),
    "_exit": lambda config: os._exit(4),
    "flood": flood,
    "leave a thread": leave_thread,
    "leave a process": leave_process,
    "leave a process and hang": leave_and_hang,
    "fork bomb": fork_bomb,
    "come back twice": come_back_twice,
    "pid": lambda config: os.getpid(),
    "mark": mark,
    "main": lambda config: float(sys.modules["__main__"].__name__ == "__mp_main__"),
    "visible": lambda config: float(os.environ.get("CUDA_VISIBLE_DEVICES") or -1),
    "cuda": lambda config: (_ for _ in ()).throw(RuntimeError("CUDA error: an illegal memory access")),
    "speak": lambda config: (print("hello from the objective"), 1.0)[1],
}


class Homesick:
    """An objective that can be sent, but not be had where it arrives."""

    def __call__(self, config):
        return 1.0

    def __reduce__(self):
        return refuse, (os.getpid(),)


def refuse(pid):
    """Be loaded in the process it came from only."""
    if os.getpid() != pid:
        raise RuntimeError("no such thing there")
    return Homesick()


class Silent(Exception):
    """Its text cannot be had."""

    def __str__(self):
        raise RuntimeError("no text")


class Builder:
    """An objective in stages."""

    def __init__(self, note=None):
        self.note = note

    def build(self, config):
        if config.get("broken"):
            raise RuntimeError("g++: error: no such option")
        self._tell("build", config)
        return {"size": config["tile"] * 10, "tile": config["tile"], "wait": config.get("wait", 0.0)}

    def features(self, built):
        if built["size"] > 1000:
            raise Skipped("spills 4 KB a thread")
        return {"bytes": built["size"], "identity": f"code{built['tile'] // 2}"}

    def measure(self, built):
        self._tell("measure", built)
        return float(built["tile"])

    def _tell(self, stage, config):
        """Note begin and end of a stage in a file."""
        if self.note is not None:
            begun = time.monotonic()
            time.sleep(config.get("wait", 0.0))
            with open(self.note, "a") as stream:  # noqa: PTH123
                cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
                stream.write(f"{stage} {begun} {time.monotonic()} {cores}\n")


class Skipped(Exception):
    """Marked as `kernelwright.search.Skip` is."""

    skips_measurement = True
