"""The judge's handles on processes that run what is not trusted.

`Handle` is one such process with its board, spoken to under deadlines; whatever becomes of it is a
`PerformerFailure`. `Performer` is the one that calls a candidate, or a baseline. Arguments are placed by the
judge in the handle's `board`; it looks there afterwards by itself, and copies outputs out:

    performer = Performer(Candidate("my_kernel", "my_kernel.rms_norm", path=(folder,)), template=template)
    performer.load()
    mark = performer.board.mark()
    args = [performer.board.put(x, guard="after"), performer.board.put(weight)]
    result = performer.call(args, room=2 * x.nbytes + 65536, settle_ms=1.0)
    harmed = [performer.board.harm(node) for node in args]       # fences, gaps: "" when intact
    same = performer.board.holds(args[0], x)                     # not mutated?
    performer.board.release(mark)
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from typing import Self

from torch import Tensor

from kernelwright.process import Limits
from kernelwright.referee.contract._board import Board
from kernelwright.referee.contract._facts import Act
from kernelwright.referee.contract._facts import Arguments
from kernelwright.referee.contract._facts import Baseline
from kernelwright.referee.contract._facts import Batch
from kernelwright.referee.contract._facts import CallResult
from kernelwright.referee.contract._facts import Candidate
from kernelwright.referee.contract._facts import Deadlines
from kernelwright.referee.contract._facts import Loaded
from kernelwright.referee.contract._facts import Node
from kernelwright.referee.contract._facts import PerformerFailure
from kernelwright.referee.contract._facts import Raised
from kernelwright.referee.contract._facts import TensorFact

__all__ = [
    "Act",
    "Arguments",
    "Baseline",
    "Batch",
    "CallResult",
    "Candidate",
    "Deadlines",
    "Handle",
    "Loaded",
    "Node",
    "Performer",
    "PerformerFailure",
    "Raised",
    "TensorFact",
]


class Handle:
    """One untrusted process that runs a script of ours, and the board shared with it.

    The script is started as `script --board=DESCRIPTOR,SIZE`, finds its channel with
    `kernelwright.process.connect`, and answers each message once, with the message's `id` in the answer
    (`_desk.serve` does both for a script that maps operations to functions). `who` names it in reasons
    ("the candidate", "the reference"). `template` is a `process.Template` that it is forked from; without
    one, a fresh interpreter is started. The process starts at the first message. As a context manager, it is
    dead with all that it started when the block is left.
    """

    def __init__(
        self,
        script: Path,
        *,
        who: str,
        template: Any = None,
        deadlines: Deadlines = Deadlines(),
        board_bytes: int = 8 << 30,
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
        sandbox: Any = None,
        cwd: Path | None = None,
    ) -> None: ...

    board: Board

    def ask(
        self, op: str, *, within_s: float | None = None, idle_s: float | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Send one message, wait for its answer; `within_s` defaults to `deadlines.call_s`.

        Raises PerformerFailure: hung when it is late (or idle for `idle_s`), crashed or out_of_memory when it
        died, cheated when what came is not the one answer, and with `raised` and `alive` when the script
        answered that something raised.
        """
        raise NotImplementedError

    def ask_timed(
        self, op: str, *, within_s: float | None = None, **fields: Any
    ) -> tuple[dict[str, Any], int]:
        """As `ask`; also the nanoseconds between sending and having the answer."""
        raise NotImplementedError

    def cpu_ns(self) -> int:
        """Processor time of all its processes so far, seen from outside; 0 where that cannot be seen."""
        raise NotImplementedError

    def settled(self, grace_s: float = 0.3, watch_s: float = 0.05) -> float:
        """CPU seconds used while nobody asks for anything: what still runs after a call returned.

        Waits up to `grace_s` for threads to go idle (OpenMP's spin for some milliseconds after a parallel
        region), then measures for `watch_s`; returns at once when it is idle. The answer is the use within
        `watch_s`: near `watch_s` or more means that something works on.
        """
        raise NotImplementedError

    def guards(self) -> Mapping[str, str]:
        """Isolation of the process: guard name -> "" when active, else why it is not."""
        raise NotImplementedError

    def close(self) -> None:
        """End the process and everything it started, and give the board back."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Performer(Handle):
    """A process that calls a candidate or a baseline on arguments in its board."""

    def __init__(
        self,
        target: Candidate | Baseline,
        *,
        template: Any = None,
        deadlines: Deadlines = Deadlines(),
        board_bytes: int = 8 << 30,
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
        sandbox: Any = None,
        watched: Mapping[str, Path] | None = None,
        keep_pages: bool = False,
    ) -> None:
        """`watched` names files and folders that the candidate has no business with ("the baseline" -> …).

        `keep_pages`: the allocator never gives freed memory back to the system, so that calls that allocate
        do not pay page faults.
        """

    def load(self, *, threads: int | None = None) -> Loaded:
        """Import the target and find the callable; within `deadlines.first_s`.

        Raises PerformerFailure; `unsupported` when the target raised NotImplementedError.
        """
        raise NotImplementedError

    def call(
        self,
        args: Sequence[Node],
        kwargs: Mapping[str, Node] | None = None,
        *,
        room: int = 64 << 20,
        threads: int | None = None,
        grad_outputs: Sequence[Node | None] | None = None,
        settle_ms: float | None = None,
        poison: Sequence[int] | None = None,
        trace: bool = False,
        within_s: float | None = None,
    ) -> CallResult:
        """One call; outputs (and gradients) are copied out as soon as it returns.

        `room` is how many bytes of outputs are taken, each snapshot and the gradients by themselves; larger
        ones are a fact's `problem`. The call runs under no_grad, unless `grad_outputs` has a tensor (or None)
        for each output tensor: then arguments put with `grad=True` get gradients. `poison`: sizes in bytes of
        memory filled with 0xFF (NaN) and freed just before, default the sizes of the tensor arguments; `()`
        for none. `trace` notes the torch operators reached, under a dispatch mode: not for judging values.
        """
        raise NotImplementedError

    def recopy(self, number: int, *, room: int = 64 << 20) -> tuple[Tensor | None, ...]:
        """The outputs of an earlier call as they are now; the last eight calls are kept (up to 512 MiB)."""
        raise NotImplementedError

    def arrange(self, slots: Sequence[Arguments], *, threads: int | None = None) -> None:
        """Build the argument tuples of a race once; their tensors stay in place in the board."""
        raise NotImplementedError

    def batch(
        self,
        order: Sequence[int],
        *,
        lead: Sequence[int] = (),
        keep: int | None = None,
        within_s: float | None = None,
    ) -> Batch:
        """Call the slots of `order` back to back, after those of `lead`, untimed.

        All outputs are kept until the next batch, or the last `keep` of them; call i is the i-th of `order`.
        The calls of `lead` end before the clock starts. An empty order is allowed: it takes the messages' time.
        """
        raise NotImplementedError

    def collect(
        self, calls: Sequence[int], *, room: int = 64 << 20
    ) -> tuple[tuple[Node, tuple[Tensor | None, ...], tuple[TensorFact, ...]], ...]:
        """Outputs of those calls of the last batch, as they are now: value, tensors, facts as in CallResult."""
        raise NotImplementedError

    def drop(self) -> None:
        """Forget the outputs of the last batch."""
        raise NotImplementedError

    def overhead_ns(self, times: int = 50) -> int:
        """Median nanoseconds that an empty batch takes on the judge's clock. Measure it on the BASELINE's."""
        raise NotImplementedError

    def acts(self) -> tuple[Act, ...]:
        """What the sensors saw so far, and what the judge saw on the channel; works for a dead performer too."""
        raise NotImplementedError
