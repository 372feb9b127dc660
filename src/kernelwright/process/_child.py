"""A child that is talked to while it runs."""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import sys
import termios
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from typing import NoReturn

from kernelwright.errors import KernelwrightError
from kernelwright.process._channel import VARIABLE
from kernelwright.process._outcome import Limits
from kernelwright.process._outcome import Outcome
from kernelwright.process._sandbox import Sandbox
from kernelwright.process._start import Order
from kernelwright.process._start import Supervisor
from kernelwright.process._supervised import Supervised

_CHANNEL = Path(__file__).with_name("_channel.py")
_MESSAGE_BYTES = 256 << 20
_SEND_PATIENCE_S = 10.0


class ChildEnded(KernelwrightError):
    """The child is gone; `outcome` says how."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        super().__init__(f"the child process {outcome.describe()}")


class ChildTimeout(KernelwrightError):
    """The child is alive but has not answered, or has not listened, in time."""


class ChildGarbled(KernelwrightError):
    """The child sent something that is not a message."""


def child_script(script: Path, *arguments: str) -> list[str]:
    """The command that runs a standard-library-only script with `kernelwright_channel` importable in it."""
    return [sys.executable, "-I", "-S", str(_CHANNEL), str(script), *arguments]


class Child:
    """A program that is talked to while it runs, over a channel of JSON messages.

    The program finds its end of the channel through the environment variable KERNELWRIGHT_CHANNEL; see
    `child_script` for scripts of ours. `pass_fds` are handed on with their numbers. As a context manager, it
    is dead with all that it started when the block is left.
    """

    def __init__(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        limits: Limits,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        pass_fds: Sequence[int] = (),
        sandbox: Sandbox | None = None,
        _start: Callable[[Sequence[str], Order], Supervisor] | None = None,
    ) -> None:
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._socket.setblocking(False)
        self._inbox = bytearray()
        words = None
        if sandbox is not None:
            folder = sandbox.prepare()
            cwd = folder if cwd is None else cwd
            env = sandbox.environment(env)
            words = sandbox.words(Path(argv[0]) if _start is not None else _CHANNEL)
        environment = {**(os.environ if env is None else env), VARIABLE: str(theirs.fileno())}
        try:
            self._work = Supervised(
                argv,
                limits=limits,
                cwd=cwd,
                env=environment,
                pass_fds=(theirs.fileno(), *pass_fds),
                sandbox=words,
                start=_start,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()

    @property
    def outcome(self) -> Outcome | None:
        """What became of the child, or None while it runs."""
        return self._work.outcome

    @property
    def pid(self) -> int | None:
        """The process id of the program, once it has been started."""
        return self._work.started()

    @property
    def guards(self) -> Mapping[str, str]:
        """What confines a sandboxed child: "" for each guard that holds, else why it does not.

        Known when the child is about to run, which is waited for; empty without a sandbox, and for a child
        that never came so far.
        """
        return self._work.guards() or {}

    def cpu_ns(self) -> int:
        """Nanoseconds of processor time that all processes of the child have used so far.

        Read from outside, so the child has no say in it: live processes to the nanosecond, up to the last
        scheduler tick (a few milliseconds) of what is running right now, with all threads that they ever
        had; processes that were waited for to 10 ms; the sum of all when the child has ended.
        """
        return self._work.cpu_ns()

    def threads(self) -> int:
        """How many live tasks all processes of the child have, seen from outside."""
        return self._work.threads()

    def runnable(self) -> int:
        """How many of them run, or wait for nothing but a processor: zero when the child is at rest.

        `cpu_ns` cannot tell: it stands still between ticks, and for a thread that others keep off the
        processor.
        """
        return self._work.runnable()

    def delayed_ns(self) -> int:
        """How long its live tasks, all together, have wanted a processor that others had, in nanoseconds."""
        return self._work.delayed_ns()

    def answer_delayed_ns(self) -> int:
        """How long the thread that answers has wanted a processor that others had, in nanoseconds."""
        return self._work.answer_delayed_ns()

    def processes(self) -> int:
        """How many processes the child consists of, itself included, seen from outside."""
        return self._work.processes()

    def said(self, since: tuple[int, int] = (0, 0)) -> tuple[str, str, tuple[int, int]]:
        """What the child has written so far: standard output, standard error, and how far that goes.

        What it wrote before it sent a message is there once the message is received. `since` is how far an
        earlier call came; of each stream the last `TAIL_BYTES` are kept.
        """
        return self._work.said(since)

    def unread(self) -> bool:
        """Whether something of what was sent has not been read yet, by whatever in the child."""
        size = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4))
        return any(size)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message.

        Raises ChildEnded when the child is gone, ChildTimeout when it does not read for ten seconds.
        """
        body = json.dumps(message).encode()
        data = memoryview(len(body).to_bytes(4, "big") + body)
        deadline = time.monotonic() + _SEND_PATIENCE_S
        while data:
            try:
                data = data[self._socket.send(data) :]
            except BlockingIOError:
                if not self._wait(select.POLLOUT, deadline):
                    raise ChildTimeout(
                        f"the child has not read its messages for {_SEND_PATIENCE_S} s"
                    ) from None
            except OSError:
                raise ChildEnded(self._end()) from None

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """Wait up to `timeout_s` for one message.

        Raises ChildEnded when the child died (at its limits, too), ChildTimeout when it is late (it is left
        running), ChildGarbled when what it sent is no message (it is killed).
        """
        deadline = time.monotonic() + timeout_s
        while True:
            message = self._next()
            if message is not None:
                return message
            if not self._wait(select.POLLIN, deadline):
                raise ChildTimeout(f"the child has not answered within {timeout_s:.3g} s")
            try:
                part = self._socket.recv(1 << 20)
            except BlockingIOError:
                continue
            except OSError:
                part = b""
            if not part:
                raise ChildEnded(self._end())
            self._inbox += part

    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        """Wait for the child to end by itself or at its limits; None when it has not after `timeout_s`."""
        return self._work.wait(timeout_s)

    def end(self) -> None:
        """Have the child and everything it started end, without waiting for that; `kill` waits."""
        self._work.end()

    def kill(self) -> Outcome:
        """End the child and everything it started, now; the outcome of a child that had ended stays."""
        outcome = self._work.outcome or self._work.kill()
        self._socket.close()
        return outcome

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.kill()
        except OSError:
            # It could not be started; whoever talked to it has been told.
            if kind is None:
                raise

    def _next(self) -> dict[str, Any] | None:
        """Take one whole message out of the inbox, if there is one."""
        if len(self._inbox) < 4:
            return None
        size = int.from_bytes(self._inbox[:4], "big")
        if size > _MESSAGE_BYTES:
            self._garbled(f"a message of {size} bytes; at most {_MESSAGE_BYTES} are allowed")
        if len(self._inbox) < 4 + size:
            return None
        body = bytes(self._inbox[4 : 4 + size])
        del self._inbox[: 4 + size]
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            self._garbled(f"bytes that are not JSON ({error})")
        if not isinstance(message, dict):
            self._garbled(f"JSON that is not an object but {type(message).__name__}")
        return dict(message)

    def _garbled(self, what: str) -> NoReturn:
        self.kill()
        raise ChildGarbled(f"the child sent {what}; it was killed")

    def _wait(self, event: int, deadline: float) -> bool:
        poll = select.poll()
        poll.register(self._socket.fileno(), event)
        left = deadline - time.monotonic()
        return bool(poll.poll(max(0.0, left) * 1000))

    def _end(self) -> Outcome:
        """The outcome of a child whose channel is closed; one that closed it and lives on is killed."""
        outcome = self._work.wait(1.0)
        return outcome if outcome is not None else self._work.kill()
