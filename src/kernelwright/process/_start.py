"""Two ways to get a supervisor: as a program of its own, or as a fork of a template."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kernelwright.process._outcome import Outcome

_SUPERVISOR = Path(__file__).with_name("_supervisor.py")


@dataclass(frozen=True)
class Order:
    """What a supervisor is told.

    `words` are its limits and confinement, `report` and `lifeline` the ends of pipes that it is given,
    `pass_fds` the descriptors that the target gets with their numbers. `env` None means ours.
    """

    words: Mapping[str, str]
    report: int
    lifeline: int
    cwd: str | os.PathLike[str] | None
    env: Mapping[str, str] | None
    pass_fds: tuple[int, ...]


class Supervisor(Protocol):
    """A supervisor that has been asked for; the streams are ours to read, and to close with `close`."""

    stdin: int | None
    stdout: int
    stderr: int

    def kill(self) -> None:
        """Kill the supervisor itself, if it is still there."""

    def wake(self) -> None:
        """Let it run on, should the work have stopped it."""

    def end_input(self) -> None:
        """Close the standard input."""

    def wait(self) -> int | None:
        """Wait for its end, after its report ended; a signal that ended it, if that is known."""

    def note_pid(self, pid: int) -> None:
        """Take note of its process id, as it reports it."""

    def cause(self) -> Outcome | None:
        """Why it never came to be, if that is known."""

    def close(self) -> None:
        """Close the streams."""


class Program:
    """A supervisor that is started as a program and then executes the target."""

    def __init__(self, argv: Sequence[str], order: Order, *, with_input: bool) -> None:
        command = [
            sys.executable,
            "-I",
            "-S",
            str(_SUPERVISOR),
            f"parent={os.getpid()}",
            f"report={order.report}",
            f"lifeline={order.lifeline}",
            f"handed_on={','.join(map(str, order.pass_fds))}",
            *(f"{name}={value}" for name, value in order.words.items()),
            "--",
            *argv,
        ]
        self._process = process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if with_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=order.cwd,
            env=dict(order.env) if order.env is not None else None,
            pass_fds=(order.report, order.lifeline, *order.pass_fds),
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdin = process.stdin.fileno() if process.stdin is not None else None
        self.stdout = process.stdout.fileno()
        self.stderr = process.stderr.fileno()

    def kill(self) -> None:
        """Kill the supervisor itself, if it is still there."""
        self._process.kill()

    def wake(self) -> None:
        """Let it run on, should the work have stopped it."""
        self._process.send_signal(signal.SIGCONT)

    def end_input(self) -> None:
        """Close the standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> int | None:
        """Wait for its end; the signal that ended it, if one did."""
        return max(0, -self._process.wait()) or None

    def note_pid(self, pid: int) -> None:
        """Its process id is known from the start."""

    def cause(self) -> Outcome | None:
        """A program that cannot be started raises at once."""
        return None

    def close(self) -> None:
        """Close the streams."""
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


class Fork:
    """A supervisor that a template forks, and whose target is a script run in a further fork.

    `link` is our end of the socket to the template, `lock` guards it, and `cause` says what became of the
    template when nothing came of the request.
    """

    def __init__(
        self,
        argv: Sequence[str],
        order: Order,
        *,
        link: socket.socket,
        lock: threading.Lock,
        cause: Callable[[], Outcome | None],
    ) -> None:
        self.stdin: int | None = None
        self._cause = cause
        self._pid: int | None = None
        self.stdout, out = os.pipe()
        self.stderr, err = os.pipe()
        request = {
            "argv": list(argv),
            "words": {"parent": str(os.getpid()), **order.words},
            "cwd": os.fspath(order.cwd) if order.cwd is not None else os.getcwd(),  # noqa: PTH109
            "env": dict(os.environ if order.env is None else order.env),
            "numbers": order.pass_fds,
        }
        body = json.dumps(request).encode()
        handles = [order.report, order.lifeline, out, err, *order.pass_fds]
        try:
            with lock:
                socket.send_fds(link, [len(body).to_bytes(4, "big")], handles)
                link.sendall(body)
        except OSError:
            self.close()
            raise
        finally:
            os.close(out)
            os.close(err)

    def kill(self) -> None:
        """Kill the supervisor itself; asked only while its report is open, so the number is its own."""
        self._signal(signal.SIGKILL)

    def wake(self) -> None:
        """Let it run on, should the work have stopped it."""
        self._signal(signal.SIGCONT)

    def end_input(self) -> None:
        """There is none."""

    def wait(self) -> int | None:
        """It is not our child: its report has ended, which is all that is known."""
        return None

    def note_pid(self, pid: int) -> None:
        """Take note of its process id, as it reports it."""
        self._pid = pid

    def cause(self) -> Outcome | None:
        """What became of the template, when it is gone."""
        return self._cause()

    def _signal(self, number: int) -> None:
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, number)

    def close(self) -> None:
        """Close the streams."""
        os.close(self.stdout)
        os.close(self.stderr)


def hung_up(handle: int) -> bool:
    """Whether nobody holds the other end of a pipe that we read."""
    poll = select.poll()
    poll.register(handle, 0)
    return bool(poll.poll(0))
