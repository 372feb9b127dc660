"""Work behind a supervisor, seen from this side: started, drained, waited for, settled."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from kernelwright.process import _tree
from kernelwright.process._outcome import classify
from kernelwright.process._outcome import End
from kernelwright.process._outcome import Limits
from kernelwright.process._outcome import Outcome
from kernelwright.process._outcome import TAIL_BYTES
from kernelwright.process._report import Report
from kernelwright.process._start import hung_up
from kernelwright.process._start import Order
from kernelwright.process._start import Program
from kernelwright.process._start import Supervisor

_SUPERVISOR_PATIENCE_S = 10.0
_TEMPLATE_PATIENCE_S = 120.0
_PIPE_READS = 64  # at 64 KiB each more than any pipe holds


class _Tail:
    """The last bytes of a stream, which two threads may read."""

    def __init__(self) -> None:
        self.count = 0
        self._data = bytearray()
        self._lock = threading.Lock()

    def read(self, handle: int) -> bool:
        """Take what one read gives, without waiting for more; False at the end of the stream."""
        with self._lock:
            try:
                part = os.read(handle, 1 << 16)
            except BlockingIOError:
                return True
            self.count += len(part)
            self._data += part
            if len(self._data) > 4 * TAIL_BYTES:
                del self._data[:-TAIL_BYTES]
            return bool(part)

    def drain(self, handle: int) -> None:
        """Take what is in the pipe, without waiting for anyone who may still hold it."""
        for _ in range(_PIPE_READS):
            before = self.count
            if not self.read(handle) or self.count == before:
                return

    def text(self, since: int = 0) -> str:
        with self._lock:
            kept = min(TAIL_BYTES, self.count - since)
            return bytes(self._data[-kept:] if kept > 0 else b"").decode(errors="replace")


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
        sandbox: Mapping[str, str] | None = None,
        start: Callable[[Sequence[str], Order], Supervisor] | None = None,
    ) -> None:
        self.limits = limits
        self._confined = sandbox is not None
        self._said = Report()
        self._outcome: Outcome | None = None
        self._ended = threading.Event()
        self._started = threading.Event()
        self._guarded = threading.Event()
        self._given_up = False
        self._out = _Tail()
        self._err = _Tail()
        self._input = memoryview(input or b"")
        self._words = [os.fspath(word) for word in argv]
        self._lock = threading.Lock()
        self._streams = threading.Lock()
        self._open = True
        report, report_end = os.pipe()
        lifeline_end, lifeline = os.pipe()
        self._lifeline: int | None = lifeline
        self._nudge = os.eventfd(0)
        self._report = report
        self._born = 0.0 if start is not None else time.monotonic()
        order = Order(_words(limits, sandbox), report_end, lifeline_end, cwd, env, tuple(pass_fds))
        try:
            if start is not None:
                self._supervisor = start(self._words, order)
            else:
                self._supervisor = Program(self._words, order, with_input=input is not None)
        except BaseException:
            os.close(lifeline)
            os.close(report)
            os.close(self._nudge)
            raise
        finally:
            os.close(report_end)
            os.close(lifeline_end)
        os.set_blocking(self._supervisor.stdout, False)
        os.set_blocking(self._supervisor.stderr, False)
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
        self._started.wait(self._patience_s())
        return self._said.pid

    def guards(self) -> dict[str, str] | None:
        """What confines the program, once it is about to run; None without a sandbox."""
        if not self._confined:
            return None
        self._guarded.wait(self._patience_s())
        return self._said.guards

    def _patience_s(self) -> float:
        """How long a supervisor may take to say something; a template has to be ready first."""
        return _SUPERVISOR_PATIENCE_S if self._born else _TEMPLATE_PATIENCE_S

    def cpu_ns(self) -> int:
        """Processor time of all processes of the work so far, ended ones as far as the system remembers."""
        if self._outcome is not None:
            return int(self._outcome.cpu_s * 1e9)
        supervisor = self._said.supervisor
        if supervisor is None:
            return 0
        return _tree.cpu_ns(self._tree()) + _tree.waited_ns(supervisor)

    def threads(self) -> int:
        """How many live tasks the work has; what we put beside it is not counted."""
        return _tree.threads([pid for pid in self._tree() if pid != self._said.init])

    def runnable(self) -> int:
        """How many tasks of the work run or want to."""
        return _tree.runnable(self._tree())

    def delayed_ns(self) -> int:
        """How long its live tasks have wanted a processor and not had one."""
        return _tree.delayed_ns(self._tree())

    def answer_delayed_ns(self) -> int:
        """The same of its first process' main thread alone, which is the one that answers."""
        first = next((pid for pid in self._tree() if pid != self._said.init), None)
        return 0 if first is None else _tree.task_delayed_ns(first, first)

    def processes(self) -> int:
        """How many processes the work has, ended ones that nobody has waited for included."""
        return len([pid for pid in self._tree() if pid != self._said.init])

    def said(self, since: tuple[int, int] = (0, 0)) -> tuple[str, str, tuple[int, int]]:
        """Both outputs so far, from the positions `since` on, and the positions now."""
        tails = ((self._supervisor.stdout, self._out), (self._supervisor.stderr, self._err))
        with self._streams:
            if self._outcome is None and self._open:
                for handle, tail in tails:
                    tail.drain(handle)
        out, err = (tail.text(begin) for (_, tail), begin in zip(tails, since, strict=True))
        return out, err, (self._out.count, self._err.count)

    def _tree(self) -> list[int]:
        """All live processes of the work, the supervisor not among them."""
        supervisor = self._said.supervisor
        return _tree.descendants(supervisor) if supervisor is not None and self._outcome is None else []

    def end(self) -> None:
        """Have it and everything it started end, without waiting for that."""
        with self._lock:
            if self._lifeline is not None:
                with contextlib.suppress(OSError):
                    os.write(self._lifeline, b"k")
                self._supervisor.wake()

    def kill(self) -> Outcome:
        """End it and everything it started, now; return what became of it."""
        self.end()
        # One that has not come to be yet will find that nobody waits for it.
        patience = _SUPERVISOR_PATIENCE_S if self._born else 0.0
        if not self._ended.wait(patience):
            with self._lock:
                if self._lifeline is not None:
                    self._given_up = True
                    os.eventfd_write(self._nudge, 1)
            self._ended.wait()
        self._raise_if_not_started()
        assert self._outcome is not None
        return self._outcome

    def _raise_if_not_started(self) -> None:
        if self._said.errno is not None:
            raise OSError(self._said.errno, os.strerror(self._said.errno), self._words[0])

    def _follow(self) -> None:
        """Drain both outputs, feed the input, and read the supervisor's report until it is complete."""
        tails = {self._supervisor.stdout: self._out, self._supervisor.stderr: self._err}
        said = self._said
        try:
            for handle in self._ready(tails):
                if handle != self._report:
                    continue
                part = os.read(self._report, 4096)
                said.add(part)
                if said.supervisor is not None:
                    self._born = self._born or time.monotonic()
                    self._supervisor.note_pid(said.supervisor)
                if said.pid is not None:
                    self._started.set()
                if said.guards is not None:
                    self._guarded.set()
                if not part or said.ended is not None:
                    break
            for handle, tail in tails.items():
                tail.drain(handle)
        finally:
            self._finish()

    def _ready(self, tails: Mapping[int, _Tail]) -> Iterator[int]:
        """Yield each time that the report can be read; meanwhile keep the streams flowing."""
        poll = select.poll()
        for handle in (self._report, self._nudge, *tails):
            poll.register(handle, select.POLLIN | select.POLLHUP)
        stdin = self._supervisor.stdin
        if stdin is not None:
            os.set_blocking(stdin, False)
            poll.register(stdin, select.POLLOUT | select.POLLERR)
        asked = time.monotonic()
        while True:
            deadline = self._born + self.limits.wall_s if self._born else asked + _TEMPLATE_PATIENCE_S
            left = deadline + _SUPERVISOR_PATIENCE_S - time.monotonic()
            if left <= 0:  # the supervisor itself is stuck or was stopped
                return
            for handle, _ in poll.poll(min(left, 3600.0) * 1000 + 1):
                if handle == self._nudge:
                    return
                if handle in tails:
                    if not tails[handle].read(handle):
                        poll.unregister(handle)
                elif handle == self._report:
                    yield handle
                elif not self._feed(handle):
                    poll.unregister(handle)

    def _feed(self, stdin: int) -> bool:
        """Write some of the input; False when there is no more to write."""
        try:
            count = os.write(stdin, self._input[: 1 << 16]) if self._input else 0
        except BlockingIOError:
            return True
        except BrokenPipeError:
            count = len(self._input)
        self._input = self._input[count:]
        if self._input:
            return True
        self._supervisor.end_input()
        return False

    def _finish(self) -> None:
        """Make sure that all is dead, close everything, and settle the outcome."""
        said = self._said
        if said.ended is None and not hung_up(self._report):
            left = self._tree()
            self._supervisor.kill()
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, 9)
        if said.ended is None and said.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(said.pid, 9)
        signal = self._supervisor.wait()
        out, err = self._out.text(), self._err.text()
        wall_s = time.monotonic() - self._born if self._born else 0.0
        if said.ended is not None:
            ended = said.ended
            end, code, signal = classify(
                ended.reason,
                ended.status,
                err,
                oom_killed=ended.oom_killed,
                cpu_s=ended.cpu_s,
                limits=self.limits,
            )
            outcome = Outcome(end, code, signal, out, err, ended.wall_s, ended.cpu_s, ended.peak_bytes)
        else:
            # The supervisor went without a word: someone killed it, it was stuck past every limit, or it
            # never came to be.
            vanished = hung_up(self._report)
            late = wall_s >= self.limits.wall_s or not vanished
            end = End.STOPPED if self._given_up else End.TIMED_OUT if late else End.SIGNALLED
            cause = self._supervisor.cause() if said.supervisor is None and vanished else None
            outcome = cause or Outcome(end, None, signal, out, err, wall_s)
        self._outcome = outcome
        with self._streams:
            self._open = False
            self._supervisor.close()
        os.close(self._report)
        with self._lock:
            lifeline, self._lifeline = self._lifeline, None
            os.close(self._nudge)
        if lifeline is not None:
            os.close(lifeline)
        self._started.set()
        self._guarded.set()
        self._ended.set()


def _words(limits: Limits, sandbox: Mapping[str, str] | None) -> dict[str, str]:
    """Limits and sandbox as a supervisor reads them."""
    words = {
        "wall": limits.wall_s,
        "memory": limits.memory_bytes,
        "cpu": limits.cpu_s,
        "file": limits.file_bytes,
        "processes": limits.processes,
    }
    return {word: repr(value) for word, value in words.items() if value is not None} | dict(sandbox or {})


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
