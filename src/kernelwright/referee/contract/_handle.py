"""One process that is not trusted, spoken to under deadlines."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import statistics
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any
from typing import NoReturn
from typing import Self

from kernelwright.process import Child
from kernelwright.process import ChildEnded
from kernelwright.process import ChildGarbled
from kernelwright.process import ChildTimeout
from kernelwright.process import End
from kernelwright.process import Limits
from kernelwright.process import Outcome
from kernelwright.process import Sandbox
from kernelwright.process import TAIL_BYTES
from kernelwright.process import Template
from kernelwright.referee._child import describe_doing
from kernelwright.referee._child import RefereeError
from kernelwright.referee._verdict import Status
from kernelwright.referee._waiting import Waiting
from kernelwright.referee.contract._board import Board
from kernelwright.referee.contract._board import PAGE
from kernelwright.referee.contract._desk import CHANNEL_GONE
from kernelwright.referee.contract._facts import Act
from kernelwright.referee.contract._facts import Deadlines
from kernelwright.referee.contract._facts import PerformerFailure
from kernelwright.referee.contract._facts import Raised

DEADLINES = Deadlines()
_LIFE_S = 24 * 3600.0
_START_S = 120.0
_LOOK_S = 0.5
#: Processor time that a sleeping process may use between two looks and still count as idle.
_IDLE_NS = 2_000_000
#: Whoever waits so long for a processor within a look might have used it otherwise.
_DELAYED_NS = 500_000
#: So many looks tell what somebody uses whom others do not let run.
_LAST_LOOKS = 8
#: So much of what it printed is left of a process that did little else.
_FLOOD = TAIL_BYTES // 2
_TEXT = 500
_MEMORY_TEXT = re.compile(r"out of memory|can't allocate memory|DefaultCPUAllocator|bad_alloc", re.IGNORECASE)


def default_board_bytes() -> int:
    """A quarter of the machine's memory, 8 GiB at most: what a child may fill without being noticed."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(8 << 30, memory // 4 // PAGE * PAGE)


class Handle:
    """One untrusted process that runs a script of ours, and the board shared with it.

    The script is started as `script --board=DESCRIPTOR,SIZE` and answers each message once, with the
    message's `id` in the answer; `_desk` has both ends of that for a script that maps operations to
    functions. `who` names the process in reasons ("the candidate", "the reference"). With a `template` it is
    forked from that, else a fresh interpreter is started. `limits.memory_bytes` is for what it uses besides
    the board, which has `board_bytes` (by default a quarter of the machine's memory, up to 8 GiB).

    The process starts at the first message; RefereeError when that fails. As a context manager, it is dead
    with all that it started when the block is left.
    """

    def __init__(
        self,
        script: Path,
        *,
        who: str,
        template: Template | None = None,
        deadlines: Deadlines = DEADLINES,
        board_bytes: int | None = None,
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
        sandbox: Sandbox | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.who = who
        self.deadlines = deadlines
        self.board = Board(default_board_bytes() if board_bytes is None else board_bytes)
        self._script = script
        self._template = template
        self._limits = limits or Limits(wall_s=_LIFE_S)
        if self._limits.memory_bytes is not None:
            # What is asked for is the process's own memory; the board is mapped besides.
            self._limits = replace(self._limits, memory_bytes=self._limits.memory_bytes + self.board.size)
        self._env = env
        self._sandbox = sandbox
        self._cwd = cwd
        self._child: Child | None = None
        self._asked = "", ""
        self._channel_act: Act | None = None
        self._closed = False

    def ask(
        self, op: str, *, within_s: float | None = None, idle_s: float | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Send one message, wait for its answer; `within_s` defaults to `deadlines.call_s`.

        Raises PerformerFailure: hung when it is late (or none of its processes has used the processor for
        `idle_s`), crashed or out_of_memory when it died, cheated when what came is not the one answer; and,
        with `raised` and `alive`, what the script's operation raised.
        """
        return self.ask_timed(op, within_s=within_s, idle_s=idle_s, **fields)[0]

    def ask_timed(
        self, op: str, *, within_s: float | None = None, idle_s: float | None = None, **fields: Any
    ) -> tuple[dict[str, Any], int]:
        """As `ask`; also the nanoseconds between sending and having the answer."""
        begin = self._post(op, fields)
        answer = self._take(within_s, idle_s)
        return answer, time.perf_counter_ns() - begin

    def _post(self, op: str, fields: Mapping[str, Any]) -> int:
        """Send one message, to be answered later; when it was sent, on the clock of `perf_counter_ns`."""
        child = self._started()
        self._nothing_unasked(child)
        self._asked = op, secrets.token_hex(8)
        message = {"op": op, "id": self._asked[1], **fields}
        begin = time.perf_counter_ns()
        try:
            child.send(message)
        except ChildEnded as error:
            self._died(error.outcome)
        except ChildTimeout:
            self._hung(f"{self.who} did not read the judge's message for ten seconds")
        return begin

    def _take(self, within_s: float | None, idle_s: float | None) -> dict[str, Any]:
        """Wait for the answer to what was sent last; raises as `ask`."""
        op, number = self._asked
        limit = self.deadlines.call_s if within_s is None else within_s
        try:
            answer = self._await(self._started(), limit, idle_s)
        except ChildEnded as error:
            self._died(error.outcome)
        except ChildGarbled as error:
            self._wrote_channel(str(error))
        if answer.get("id") != number:
            self._wrote_channel("the child sent an answer that nobody had asked for")
        if "error" in answer:
            self._raised(op, answer["error"])
        if "too_long" in answer:
            raise PerformerFailure(
                Status.CRASHED, f"{self.who} gave an answer that is too long to be sent", alive=True
            )
        return answer

    def cpu_ns(self) -> int:
        """Processor time of all its processes so far, seen from outside."""
        return self._child.cpu_ns() if self._child is not None else 0

    def threads(self) -> int:
        """Live tasks of all its processes, seen from outside."""
        return self._child.threads() if self._child is not None else 0

    def runnable(self) -> int:
        """How many of them run or want to, seen from outside; zero: the performer is at rest."""
        return self._child.runnable() if self._child is not None else 0

    def settled(self, grace_s: float = 0.3, watch_s: float = 0.03, *, surely: bool = False) -> float:
        """CPU seconds used while nobody asks for anything: what still runs after a call returned.

        Waits up to `grace_s` for threads to go idle (OpenMP's spin for some milliseconds after a parallel
        region), looking every `watch_s`, and returns what was used in the last look: near zero when it is
        idle, `watch_s` for each thread that works on. `surely`: one that used nothing because others had the
        processors has not gone idle; where that is so to the end, what it used in the mean of the last looks
        is returned.
        """
        child = self._started()
        deadline = time.monotonic() + grace_s
        looks: deque[int] = deque(maxlen=_LAST_LOOKS)
        while True:
            before, waited = child.cpu_ns(), child.delayed_ns() if surely else 0
            time.sleep(watch_s)
            used = child.cpu_ns() - before
            looks.append(used)
            kept_off = surely and (child.runnable() > 0 or child.delayed_ns() - waited > _DELAYED_NS)
            if used < _IDLE_NS and not kept_off:
                return used / 1e9
            if time.monotonic() >= deadline:
                return (statistics.mean(looks) if kept_off else used) / 1e9

    def guards(self) -> Mapping[str, str]:
        """Isolation of the process: guard name -> "" when active, else why it is not."""
        return self._started().guards

    @property
    def outcome(self) -> Outcome | None:
        """What became of the process, or None while it runs or has not been started."""
        return self._child.outcome if self._child is not None else None

    @property
    def closed(self) -> bool:
        """Whether it is over for good: neither the process nor anything that it started is left."""
        return self._closed

    def close(self) -> None:
        """End the process and everything it started, and give the board back."""
        if self._child is not None:
            with contextlib.suppress(OSError):
                self._child.kill()
        self.board.close()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _started(self) -> Child:
        if self._child is not None:
            return self._child
        words = f"--board={self.board.descriptor},{self.board.size}"
        options: dict[str, Any] = {
            "limits": self._limits,
            "env": self._env,
            "cwd": self._cwd,
            "pass_fds": (self.board.descriptor,),
            "sandbox": self._sandbox,
        }
        try:
            if self._template is not None:
                self._child = self._template.child(self._script, words, **options)
            else:
                self._child = Child([sys.executable, "-I", os.fspath(self._script), words], **options)
        except (ChildEnded, OSError) as error:
            raise RefereeError(f"the process for {self.who} could not be started: {error}") from error
        # A template may still be importing: that time is neither the candidate's nor a sign of a hang.
        deadline = time.monotonic() + _START_S
        while self._child.pid is None and self._child.outcome is None:
            if time.monotonic() > deadline:
                self._end()
                raise RefereeError(f"the process for {self.who} did not start within {_START_S:.3g} s")
        return self._child

    def _await(self, child: Child, limit_s: float, idle_s: float | None) -> dict[str, Any]:
        """Wait for one message; looks now and then whether anything is going on at all."""
        waiting = Waiting()
        idle_s = self.deadlines.idle_s if idle_s is None else idle_s
        look_s = min(_LOOK_S, idle_s / 4)
        used, busy_at = -_IDLE_NS, 0.0
        while True:
            asked_s = min(max(limit_s - waiting.passed_s, 0.001), look_s)
            try:
                return child.receive(asked_s)
            except ChildTimeout:
                passed_s = waiting.look(asked_s)
            if passed_s >= limit_s:
                self._hung(f"{self.who} had not answered after {limit_s:.3g} s")
            using = child.cpu_ns()
            if using - used >= _IDLE_NS:
                used, busy_at = using, passed_s
            elif passed_s - busy_at >= idle_s:
                self._hung(
                    f"{self.who} made no progress: none of its processes used the processor "
                    f"for {idle_s:.3g} s"
                )

    def _nothing_unasked(self, child: Child) -> None:
        """See to it that the channel is empty before a question is asked."""
        try:
            child.receive(0.0)
        except ChildTimeout:
            return
        except ChildEnded as error:
            self._died(error.outcome)
        except ChildGarbled as error:
            self._wrote_channel(str(error))
        self._wrote_channel("the child sent an answer that nobody had asked for")

    def _wrote_channel(self, how: str) -> NoReturn:
        act = Act("channel", "channel", f"wrote to the judge's channel: {how}")
        self._channel_act = act
        self._end()
        raise PerformerFailure(Status.CHEATED, f"{self.who} {act.said}", act=act)

    def _hung(self, reason: str) -> NoReturn:
        child = self._child
        doing = describe_doing(child) if child is not None else []
        self._end()
        printed = child.outcome.stdout if child is not None and child.outcome is not None else ""
        if len(printed) >= _FLOOD:
            last = printed.strip().splitlines()[-1:] or [""]
            doing.append(f"it flooded its standard output ({last[0][:60]!r})")
        raise PerformerFailure(Status.HUNG, "; ".join([reason, *doing]), act=self._noted())

    def _died(self, outcome: Outcome) -> NoReturn:
        raise PerformerFailure(*self._cause(outcome), act=self._noted())

    def _cause(self, outcome: Outcome) -> tuple[Status, str]:
        said = outcome.stderr.strip().splitlines()
        last = f"; it last said: {said[-1][:_TEXT]}" if said else ""
        if outcome.end is End.OUT_OF_MEMORY:
            return Status.OUT_OF_MEMORY, f"{self.who} ran out of memory{last}"
        if outcome.end is End.TIMED_OUT:
            return Status.HUNG, f"{self.who} was ended at its limit of time{last}"
        if outcome.returncode == CHANNEL_GONE:
            return Status.CRASHED, f"{self.who} closed the judge's channel, a descriptor that is not its own"
        if outcome.end is End.EXITED:
            return (
                Status.CRASHED,
                f"{self.who} ended its process itself with exit code {outcome.returncode}{last}",
            )
        return Status.CRASHED, f"the process of {self.who} {outcome.describe()}"

    def _raised(self, op: str, error: object) -> NoReturn:
        told = _read_raised(error)
        names = {told.type, *told.bases}
        place = f" ({told.where})" if told.where else ""
        text = f"{told.type}: {told.message}" if told.message else told.type
        doing = "importing it" if op == "load" else "calling it"
        if "NotImplementedError" in names:
            status, reason = (
                Status.UNSUPPORTED,
                f"{self.who} says that it does not support this: {text}{place}",
            )
        elif "MemoryError" in names or ("RuntimeError" in names and _MEMORY_TEXT.search(told.message)):
            status, reason = Status.OUT_OF_MEMORY, f"{self.who} ran out of memory: {text}{place}"
        elif told.type == "SystemExit":
            code = told.message or "0"
            status = Status.CRASHED
            reason = (
                f"{self.who} ended its process itself with exit code {code}: sys.exit when {doing}{place}"
            )
        else:
            status, reason = Status.CRASHED, f"{self.who}: {doing} raised {text}{place}"
        raise PerformerFailure(status, reason, raised=told, alive=True, act=self._noted())

    def _noted(self) -> Act | None:
        """An act that explains an end, where one was noted."""
        return None

    def _end(self) -> None:
        if self._child is not None:
            with contextlib.suppress(OSError):
                self._child.kill()


def _read_raised(error: object) -> Raised:
    """An exception as a child describes it; what is missing is empty."""
    told = error if isinstance(error, dict) else {}
    bases = told.get("bases")
    return Raised(
        type=text_of(told.get("type")) or "an exception",
        bases=tuple(text_of(base) for base in bases[:10]) if isinstance(bases, list) else (),
        message=text_of(told.get("message")),
        where=text_of(told.get("where")),
    )


def text_of(value: object) -> str:
    """A string of a child's, on one line and cut to 500 characters; "" for anything else."""
    return " ".join(value.split())[:_TEXT] if isinstance(value, str) else ""
