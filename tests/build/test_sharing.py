"""Several processes, one store: each artifact is made once, nothing half-made is ever seen."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from kernelwright import machine
from kernelwright.build import build
from kernelwright.build import BuildRequest
from kernelwright.build import find
from kernelwright.build import load

Kernel = Callable[..., BuildRequest]

#: Builds the sections of a folder with a compiler given by path; prints whether each was there already.
BUILDER = """
import sys
from pathlib import Path
from kernelwright import machine
from kernelwright.build import BuildRequest, build_many, load, read_build_file

folder, compiler_path, *factors = sys.argv[1:]
compiler = machine.Compiler(Path(compiler_path), *{identity!r})
file = read_build_file(Path(folder))
requests = [
    BuildRequest(file.kernels["scale_generic"], file.root, {{"KW_FACTOR": int(factor)}}, compiler=compiler)
    for factor in factors
]
for artifact in build_many(requests, jobs=1):
    load(artifact).scale
    print("found" if artifact.cached else "made", flush=True)
"""


@pytest.fixture
def slow_compiler(tmp_path: Path, compiler: machine.Compiler) -> machine.Compiler:
    """A compiler that notes each source it compiles and takes half a second more."""
    wrapper = tmp_path / "slow-compiler"
    wrapper.write_text(
        f'#!/bin/sh\ncase "$*" in *" -c "*) echo compiled >>{tmp_path}/compilations; sleep 0.5;; esac\n'
        f'exec "{compiler.path}" "$@"\n'
    )
    wrapper.chmod(0o755)
    return dataclasses.replace(compiler, path=type(compiler.path)(wrapper))


@pytest.fixture
def start(
    kernel: Kernel, tmp_path: Path, slow_compiler: machine.Compiler
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a process that builds the kernel with the given factors."""
    root = kernel().root
    identity = (slow_compiler.kind, slow_compiler.version, slow_compiler.target)
    script = tmp_path / "builder.py"
    script.write_text(textwrap.dedent(BUILDER).format(identity=identity))
    started = []

    def run(*factors: int) -> subprocess.Popen[str]:
        command = [sys.executable, script, root, slow_compiler.path, *map(str, factors)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def compilations(tmp_path: Path) -> int:
    log = tmp_path / "compilations"
    return len(log.read_text().splitlines()) if log.exists() else 0


def wait_for(condition: Callable[[], bool], seconds: float = 100.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_processes_that_want_the_same_build_it_once(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    processes = [start(3) for _ in range(4)]
    outputs = [process.communicate(timeout=200) for process in processes]
    assert [error for _, error in outputs] == [""] * 4
    assert sorted(output.strip() for output, _ in outputs) == ["found", "found", "found", "made"]
    assert compilations(tmp_path) == 1


def test_crossed_orders_neither_lock_up_nor_build_twice(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    processes = [start(1, 2, 3), start(3, 2, 1), start(2, 4)]
    outputs = [process.communicate(timeout=200) for process in processes]
    assert [error for _, error in outputs] == [""] * 3
    assert compilations(tmp_path) == 4
    assert sum(output.count("made") for output, _ in outputs) == 4


def test_a_build_does_not_wait_for_one_that_it_has_not_asked_for(
    start: Callable[..., subprocess.Popen[str]], kernel: Kernel, tmp_path: Path, compiler: machine.Compiler
) -> None:
    slow = start(11)
    wait_for(lambda: compilations(tmp_path) == 1)
    slow.send_signal(signal.SIGSTOP)  # it holds its lock for as long as we like
    try:
        assert not build(kernel(macros={"KW_FACTOR": 12}, compiler=compiler)).cached
    finally:
        slow.send_signal(signal.SIGCONT)
    assert slow.communicate(timeout=200)[0].strip() == "made"


@pytest.mark.parametrize("delay_s", [0.0, 0.4, 0.6])
def test_a_killed_build_leaves_nothing_running_and_nothing_half_made(
    start: Callable[..., subprocess.Popen[str]],
    kernel: Kernel,
    store: Path,
    tmp_path: Path,
    compiler: machine.Compiler,
    delay_s: float,
) -> None:
    process = start(7)
    wait_for(lambda: compilations(tmp_path) == 1)
    time.sleep(delay_s)
    process.kill()
    process.wait()
    marker = str(tmp_path / "slow-compiler")
    wait_for(lambda: not any(marker in " ".join(other.cmdline()) for other in ours()))

    request = kernel(macros={"KW_FACTOR": 7}, compiler=compiler)
    there = find(request)  # whole if the kill came too late, else absent
    made = build(request)
    assert made.cached == (there is not None)
    assert load(made).scale
    wait_for(lambda: compilations(tmp_path) == 1)


def test_a_long_list_is_kept_piece_by_piece(
    start: Callable[..., subprocess.Popen[str]], kernel: Kernel, tmp_path: Path, compiler: machine.Compiler
) -> None:
    process = start(*range(20, 32))
    wait_for(lambda: compilations(tmp_path) == 6)
    process.kill()
    process.wait()
    there = [find(kernel(macros={"KW_FACTOR": n}, compiler=compiler)) is not None for n in range(20, 32)]
    assert there == [True] * 4 + [False] * 8


def test_an_interrupted_build_leaves_nothing_at_all(
    start: Callable[..., subprocess.Popen[str]], store: Path, tmp_path: Path
) -> None:
    process = start(7)
    wait_for(lambda: compilations(tmp_path) == 1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=200)
    assert "KeyboardInterrupt" in errors
    assert not any(str(tmp_path / "slow-compiler") in " ".join(other.cmdline()) for other in ours())
    assert [path.name for path in store.rglob("*") if path.is_file()] == [
        next((store / ".locks").iterdir()).name
    ]


def test_threads_of_one_process_build_it_once(kernel: Kernel) -> None:
    requests = [kernel(macros={"KW_FACTOR": 5})] * 6
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(build, requests))
    assert sorted(artifact.cached for artifact in made) == [False] + [True] * 5
    assert len({artifact.library for artifact in made}) == 1


def ours() -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.cmdline():
                yield process
        except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
            continue


def test_what_a_killed_build_left_is_swept_away_later(
    start: Callable[..., subprocess.Popen[str]], kernel: Kernel, store: Path, tmp_path: Path
) -> None:
    process = start(8)
    wait_for(lambda: compilations(tmp_path) == 1)
    process.send_signal(signal.SIGSTOP)  # it does not get further, however long the next build takes
    (left,) = (store / ".scratch").iterdir()
    build(kernel())
    assert left.exists(), "a builder's folder was taken away under it"
    process.kill()
    process.wait()
    wait_for(
        lambda: not any(str(tmp_path / "slow-compiler") in " ".join(other.cmdline()) for other in ours())
    )
    build(kernel(macros={"KW_FACTOR": 9}))
    assert left.exists(), "a young folder may not have its owner's lock yet"
    long_ago = time.time() - 3600
    os.utime(left, (long_ago, long_ago))
    build(kernel(macros={"KW_FACTOR": 10}))
    assert not left.exists()
    assert list((store / ".scratch").iterdir()) == []
