"""Work behind a supervisor, seen from this side: started, drained, waited for, settled."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path

from kernelwright.process._outcome import classify
from kernelwright.process._outcome import End
from kernelwright.process._outcome import Limits
from kernelwright.process._outcome import Outcome
from kernelwright.process._outcome import TAIL_BYTES

_SUPERVISOR = Path(__file__).with_name("_supervisor.py")
_SUPERVISOR_PATIENCE_S = 10.0


class _Tail:
    """The last bytes of a stream."""

    def __init__(self) -> None:
        self._data = bytearray()

    def add(self, part: bytes) -> None:
        self._data += part
        if len(self._data) > 4 * TAIL_BYTES:
            del self._data[:-TAIL_BYTES]

    def text(self) -> str:
        return bytes(self._data[-TAIL_BYTES:]).decode(errors="replace")


class Supervised:
    """One piece of work behind its supervisor; a thread drains its output so that it never blocks on it."""

    def __init__(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        limits: Limits,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        input: bytes | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.limits = limits
        self.pid: int | None = None
        self._outcome: Outcome | None = None
        self._ended = threading.Event()
        self._started = threading.Event()
        self._errno: int | None = None
        self._out = _Tail()
        self._err = _Tail()
        self._input = memoryview(input or b"")
        self._words = [os.fspath(word) for word in argv]
        report, report_end = os.pipe()
        lifeline_end, lifeline = os.pipe()
        self._lifeline: int | None = lifeline
        self._lock = threading.Lock()
        self._report = report
        command = [
            sys.executable,
            "-I",
            "-S",
            str(_SUPERVISOR),
            f"parent={os.getpid()}",
            f"report={report_end}",
            f"lifeline={lifeline_end}",
            f"wall={limits.wall_s!r}",
            f"handed_on={','.join(map(str, pass_fds))}",
            *_limit_words(limits),
            "--",
            *self._words,
        ]
        self._born = time.monotonic()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=dict(env) if env is not None else None,
                pass_fds=(report_end, lifeline_end, *pass_fds),
                start_new_session=True,
            )
        except BaseException:
            os.close(lifeline)
            os.close(report)
            raise
        finally:
            os.close(report_end)
            os.close(lifeline_end)
        self._thread = threading.Thread(target=self._follow, name="kernelwright-child", daemon=True)
        self._thread.start()

    @property
    def outcome(self) -> Outcome | None:
        """What became of it, or None while it runs."""
        return self._outcome

    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        """Wait for the end; None when it is still running after `timeout_s`.

        Raises OSError when the program could not be started at all.
        """
        self._ended.wait(timeout_s)
        self._raise_if_not_started()
        return self._outcome

    def started(self) -> int | None:
        """The process id of the program, once it has been started; None when it could not be."""
        self._started.wait(_SUPERVISOR_PATIENCE_S)
        return self.pid

    def kill(self) -> Outcome:
        """End it and everything it started, now; return what became of it."""
        with self._lock:
            if self._lifeline is not None:
                with contextlib.suppress(OSError):
                    os.write(self._lifeline, b"k")
        self._ended.wait()
        self._raise_if_not_started()
        assert self._outcome is not None
        return self._outcome

    def _raise_if_not_started(self) -> None:
        if self._errno is not None:
            raise OSError(self._errno, os.strerror(self._errno), self._words[0])

    def _follow(self) -> None:
        """Drain both outputs, feed the input, and read the supervisor's report until it is complete."""
        process = self._process
        assert process.stdout is not None
        assert process.stderr is not None
        tails = {process.stdout.fileno(): self._out, process.stderr.fileno(): self._err}
        report = b""
        try:
            for handle in self._ready(list(tails)):
                if handle != self._report:
                    continue
                part = os.read(self._report, 4096)
                report += part
                self._note_start(report)
                if not part or (b"ended " in report and report.endswith(b"\n")):
                    break
            self._drain(tails)
        finally:
            self._finish(report)

    def _ready(self, outputs: list[int]) -> Iterator[int]:
        """Yield each time that the report can be read; meanwhile keep the streams flowing."""
        process = self._process
        tails = dict(zip(outputs, (self._out, self._err), strict=True))
        poll = select.poll()
        for handle in (self._report, *outputs):
            poll.register(handle, select.POLLIN | select.POLLHUP)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            poll.register(process.stdin.fileno(), select.POLLOUT | select.POLLERR)
        deadline = self._born + self.limits.wall_s + _SUPERVISOR_PATIENCE_S
        while True:
            left = deadline - time.monotonic()
            if left <= 0:  # the supervisor itself is stuck or was stopped
                return
            for handle, _ in poll.poll(min(left, 3600.0) * 1000 + 1):
                if handle in tails:
                    part = os.read(handle, 1 << 16)
                    tails[handle].add(part)
                    if not part:
                        poll.unregister(handle)
                elif handle == self._report:
                    yield handle
                elif not self._feed():
                    poll.unregister(handle)

    def _feed(self) -> bool:
        """Write some of the input; False when there is no more to write."""
        assert self._process.stdin is not None
        try:
            count = os.write(self._process.stdin.fileno(), self._input[: 1 << 16]) if self._input else 0
        except BlockingIOError:
            return True
        except BrokenPipeError:
            count = len(self._input)
        self._input = self._input[count:]
        if self._input:
            return True
        self._process.stdin.close()
        return False

    def _note_start(self, report: bytes) -> None:
        for line in report.decode().splitlines():
            word, _, rest = line.partition(" ")
            if word == "started" and rest:
                self.pid = int(rest)
                self._started.set()
            elif word == "failed" and rest:
                self._errno = int(rest)

    def _drain(self, tails: Mapping[int, _Tail]) -> None:
        """Take what is left in the pipes, without waiting for anyone who may still hold them."""
        for handle, tail in tails.items():
            os.set_blocking(handle, False)
            with contextlib.suppress(BlockingIOError):
                while part := os.read(handle, 1 << 16):
                    tail.add(part)

    def _finish(self, report: bytes) -> None:
        """Make sure that all is dead, close everything, and settle the outcome."""
        process = self._process
        lines = [line.split() for line in report.decode().splitlines()]
        ended = next((line for line in lines if line and line[0] == "ended" and len(line) == 7), None)
        if ended is None:
            if self.pid is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, 9)
            process.kill()
        process.wait()
        stderr = self._err.text()
        wall_s = time.monotonic() - self._born
        if ended is None:
            # The supervisor went without a word: someone killed it, or it was stuck past every limit.
            late = wall_s >= self.limits.wall_s
            self._outcome = Outcome(
                End.TIMED_OUT if late else End.SIGNALLED,
                None,
                abs(process.returncode) or None,
                self._out.text(),
                stderr,
                wall_s,
            )
        else:
            _, reason, status, wall, cpu, peak, oom = ended
            end, code, signal = classify(
                reason, int(status), stderr, oom_killed=oom == "1", cpu_s=float(cpu), limits=self.limits
            )
            self._outcome = Outcome(
                end, code, signal, self._out.text(), stderr, float(wall), float(cpu), int(peak)
            )
        for stream in (process.stdout, process.stderr, process.stdin):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        os.close(self._report)
        with self._lock:
            lifeline, self._lifeline = self._lifeline, None
        if lifeline is not None:
            os.close(lifeline)
        self._started.set()
        self._ended.set()


def _limit_words(limits: Limits) -> list[str]:
    words = []
    for word, value in (
        ("memory", limits.memory_bytes),
        ("cpu", limits.cpu_s),
        ("file", limits.file_bytes),
        ("processes", limits.processes),
    ):
        if value is not None:
            words.append(f"{word}={value}")
    return words


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    limits: Limits,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    input: str | bytes | None = None,
) -> Outcome:
    """Run a program to its end, or to its limits, and say what became of it.

    The program and all that it starts are dead when this returns, however it returns. `env` replaces the
    environment; `input` is its standard input (empty by default). Raises OSError when the program cannot be
    started; nothing that the program does raises.
    """
    data = input.encode() if isinstance(input, str) else input
    work = Supervised(argv, limits=limits, cwd=cwd, env=env, input=data)
    try:
        outcome = work.wait()
    except BaseException:
        with contextlib.suppress(OSError):
            work.kill()
        raise
    assert outcome is not None
    return outcome
