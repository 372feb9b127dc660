"""The judge's handles on processes that run what is not trusted.

`Handle` is one such process with its board, spoken to under deadlines; whatever becomes of it is a
`PerformerFailure`. `Performer` is the one that calls a candidate, or a baseline. The judge places arguments
in the handle's `board`, looks there afterwards by itself, and copies outputs out:

    candidate = Candidate("my_kernel", "my_kernel.rms_norm", path=(folder,))
    with Performer(candidate, template=template) as performer:
        performer.load()
        mark = performer.board.mark()
        args = [performer.board.put(x, guard="after"), performer.board.put(weight)]
        result = performer.call(args, room=2 * x.nbytes + 65536, settle_ms=1.0)
        harm = [performer.board.harm(node) for node in args]     # fences and gaps: "" when intact
        same = performer.board.holds(args[0], x)                 # not mutated?
        performer.board.release(mark)
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from kernelwright.process import Limits
from kernelwright.process import Sandbox
from kernelwright.process import Template
from kernelwright.referee.contract import _tree as tree
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
from kernelwright.referee.contract._facts import Taken
from kernelwright.referee.contract._facts import TensorFact
from kernelwright.referee.contract._handle import DEADLINES
from kernelwright.referee.contract._handle import Handle
from kernelwright.referee.contract._reading import read_act
from kernelwright.referee.contract._reading import read_facts
from kernelwright.referee.contract._reading import read_names

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
    "Taken",
    "TensorFact",
]

PERFORMER = Path(__file__).with_name("_performer.py")
_ROOM = 64 << 20
#: Of so many calls the number of outputs is known; fewer are kept.
_REMEMBERED = 16


class Performer(Handle):
    """A process that calls a candidate or a baseline on arguments in its board."""

    def __init__(
        self,
        target: Candidate | Baseline,
        *,
        template: Template | None = None,
        deadlines: Deadlines = DEADLINES,
        board_bytes: int | None = None,
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
        sandbox: Sandbox | None = None,
        cwd: Path | None = None,
        watched: Mapping[str, Path] | None = None,
        keep_pages: bool = True,
    ) -> None:
        """`watched` names files and folders that the candidate has no business with ("the baseline" -> …).

        `keep_pages`: the allocator never gives freed memory back to the system: calls that allocate do not
        pay page faults, and get memory that was used (and poisoned) before, not zeros.
        """
        super().__init__(
            PERFORMER,
            who="the baseline" if isinstance(target, Baseline) else "the candidate",
            template=template,
            deadlines=deadlines,
            board_bytes=board_bytes,
            limits=limits,
            env=env,
            sandbox=sandbox,
            cwd=cwd,
        )
        self.target = target
        self._watched = {name: str(Path(path).absolute()) for name, path in (watched or {}).items()}
        self._keep_pages = keep_pages
        self._called = False
        self._number = 0
        self._counts: dict[int, int] = {}
        self._slots: tuple[Arguments, ...] = ()
        self._threads: int | None = None
        self._order: tuple[int, ...] = ()
        self._first = 0
        self._told: dict[tuple[str, str], Act] = {}

    def load(self, *, threads: int | None = None) -> Loaded:
        """Import the target and find the callable; within `deadlines.first_s`.

        Raises PerformerFailure; `unsupported` when the target raised NotImplementedError.
        """
        target = self.target
        fields: dict[str, Any] = {"baseline": None}
        if isinstance(target, Baseline):
            fields["baseline"] = str(target.file.absolute())
        else:
            fields["path"] = [str(path.absolute()) for path in target.path]
            fields.update(package=target.package, name=target.op, init_seed=target.init_seed)
            fields.update(init=[*target.init], state=dict(target.state))
        answer, took = self.ask_timed(
            "load",
            within_s=self.deadlines.first_s,
            threads=threads,
            watched=self._watched,
            keep_pages=self._keep_pages,
            **fields,
        )
        state = answer.get("state")
        return Loaded(
            kind="function" if answer.get("kind") == "function" else "object",
            seconds=took / 1e9,
            modules=read_names(answer.get("modules")),
            state={str(k)[:200]: str(v)[:200] for k, v in state.items()} if isinstance(state, dict) else {},
        )

    def call(
        self,
        args: Sequence[Node],
        kwargs: Mapping[str, Node] | None = None,
        *,
        room: int = _ROOM,
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
        Raises PerformerFailure.
        """
        limit = self.deadlines.call_s if self._called else self.deadlines.first_s
        self._number += 1
        needed = (True, settle_ms is not None, grad_outputs is not None)
        with self._rooms(needed, room) as (at, settled_at, gradients_at):
            answer, took = self.ask_timed(
                "call",
                within_s=limit if within_s is None else within_s,
                args=[*args],
                kwargs=dict(kwargs or {}),
                number=self._number,
                at=at,
                settled_at=settled_at,
                gradients_at=gradients_at,
                room=room,
                threads=threads,
                grad_outputs=None if grad_outputs is None else [*grad_outputs],
                settle_ms=settle_ms,
                poison=None if poison is None else [*poison],
                trace=trace,
            )
            self._called = True
            taken = self._taken(answer, at, room)
            settled = gradients = None
            if settle_ms is not None:
                copies = self._copies(answer.get("settled"), settled_at, room)[1]
                settled = _as_many(copies, len(taken.tensors))
            if grad_outputs is not None:
                asked = [one for node in (*args, *(kwargs or {}).values()) for one in tree.tensors_of(node)]
                wanted = sum(1 for one in asked if one.get("grad"))
                gradients = self._gradients(answer.get("gradients"), wanted, gradients_at, room)
        self._counts = {**dict([*self._counts.items()][-_REMEMBERED:]), self._number: len(taken.tensors)}
        return CallResult(
            value=taken.value,
            tensors=taken.tensors,
            facts=taken.facts,
            settled=settled,
            gradients=gradients,
            number=self._number,
            seconds=took / 1e9,
            operators=read_names([*answer["operators"]]) if isinstance(answer.get("operators"), dict) else (),
        )

    def recopy(self, number: int, *, room: int = _ROOM) -> tuple[Tensor | None, ...]:
        """The outputs of an earlier call as they are now; the last eight calls are kept (up to 512 MiB).

        Raises PerformerFailure, with `alive`, when it is no longer kept.
        """
        with self._rooms((True,), room) as (at,):
            answer = self.ask("recopy", number=number, at=at, room=room)
            copies = self._copies(answer.get("value"), at, room)[1]
        return _as_many(copies, self._counts.get(number, len(copies)))

    def arrange(self, slots: Sequence[Arguments], *, threads: int | None = None) -> None:
        """Build the argument tuples of a race once; their tensors stay in place in the board.

        `threads` is torch's number of threads in all batches that follow.
        """
        self._slots, self._threads = tuple(slots), threads
        told = [{"args": [*args], "kwargs": dict(kwargs)} for args, kwargs in slots]
        self.ask("arrange", slots=told, threads=threads)

    def batch(
        self,
        order: Sequence[int],
        *,
        lead: Sequence[int] = (),
        keep: int | None = None,
        refresh: Callable[[], None] | None = None,
        within_s: float | None = None,
        processor: int | None = None,
    ) -> Batch:
        """Call the slots of `order` back to back, after those of `lead`, untimed.

        All outputs are kept until the next batch, or the last `keep` of them; call i is the i-th of `order`.
        The calls of `lead` end before the clock starts, and before `refresh`, in which the judge may rewrite
        the contents of slots. An empty order is allowed: it takes the messages' time. `processor` is where
        the calls begin; see `_placement`.
        """
        limit = self.deadlines.batch_s if within_s is None else within_s
        self._order, self._first = tuple(order), 0 if keep is None else max(0, len(order) - keep)
        self.ask(
            "plan",
            within_s=limit,
            order=[*order],
            lead=[*lead],
            keep=keep,
            threads=self._threads,
            processor=processor,
        )
        if refresh is not None:
            refresh()
        used = self.cpu_ns()
        answer, took = self.ask_timed("go", within_s=limit)
        used = self.cpu_ns() - used
        own = answer.get("own_ns")
        return Batch(len(order), took, own if isinstance(own, int) else 0, used)

    def collect(self, calls: Sequence[int], *, room: int = _ROOM) -> tuple[Taken, ...]:
        """Outputs of those calls of the last batch, as they are now; `room` is for all of them.

        Raises IndexError for a call whose output was not kept.
        """
        for index in calls:
            if not self._first <= index < len(self._order):
                raise IndexError(f"the output of call {index} of the last batch was not kept")
        inputs = []
        for index in calls:
            args, kwargs = self._slots[self._order[index]]
            inputs.append([one for node in (*args, *kwargs.values()) for one in tree.tensors_of(node)])
        with self._rooms((True,), room) as (at,):
            answer = self.ask("collect", calls=[*calls], inputs=inputs, at=at, room=room)
            given = answer.get("taken")
            if not isinstance(given, list) or len(given) != len(calls):
                self._wrote_channel("an answer without the outputs that were asked for")
            return tuple(self._taken(one, at, room) for one in given)

    def drop(self) -> None:
        """Forget the outputs of the last batch."""
        self._order = ()
        self.ask("drop")

    def overhead_ns(self, times: int = 50) -> int:
        """Median nanoseconds that an empty batch takes on the judge's clock. Measure it on the baseline's."""
        return int(statistics.median(self.batch(()).wall_ns for _ in range(times)))

    def acts(self) -> tuple[Act, ...]:
        """What the sensors saw so far, and what the judge saw on the channel; of a dead performer, too."""
        self._read_log()
        if self._child is not None and self.outcome is None:
            try:
                given = self.ask("acts").get("acts")
            except PerformerFailure:
                given = []  # its end is known to the next who asks; what was noted on the way is in the log
            for one in given if isinstance(given, list) else []:
                self._tell(read_act(one))
        return (*self._told.values(), *([self._channel_act] if self._channel_act is not None else []))

    def _read_log(self) -> None:
        for line in self.board.log().splitlines():
            try:
                self._tell(read_act(json.loads(line)))
            except (ValueError, RecursionError):
                continue  # the candidate can write here, too

    def _tell(self, act: Act | None) -> None:
        if act is not None and len(self._told) < 256:
            self._told.setdefault((act.act, act.what), act)

    def _noted(self) -> Act | None:
        self._read_log()
        return next((act for act in self._told.values() if act.deceives), None)

    @contextmanager
    def _rooms(self, needed: Sequence[bool], nbytes: int) -> Iterator[tuple[int, ...]]:
        mark = self.board.mark()
        try:
            yield tuple(self.board.room(nbytes) if one else 0 for one in needed)
        finally:
            self.board.release(mark)

    def _taken(self, answer: Mapping[str, Any], at: int, room: int) -> Taken:
        value, tensors = self._copies(answer.get("value"), at, room)
        facts = read_facts(answer.get("facts"), value)
        if facts is None:
            self._wrote_channel("an answer that does not describe the output")
        return Taken(value, tensors, facts)

    def _copies(self, node: object, at: int, room: int) -> tuple[Node, tuple[Tensor | None, ...]]:
        """A tree that the performer sent, and the judge's own copies of its tensors."""
        try:
            value = tree.checked(node, low=at, high=at + room)
        except tree.TreeError as error:
            self._wrote_channel(f"an answer with {error}")
        nodes = [*tree.tensors_of(value)]
        if sum(one.get("nbytes", 0) for one in nodes) > room:
            self._wrote_channel("an answer with more bytes than there is room for")
        return value, tuple(None if "missing" in one else self.board.copy(one) for one in nodes)

    def _gradients(self, given: object, wanted: int, at: int, room: int) -> tuple[Tensor | None, ...]:
        empty: Node = {"t": "tensor", "missing": "no gradient"}
        nodes = [empty if one is None else one for one in given] if isinstance(given, list) else []
        copies = self._copies({"t": "list", "items": nodes}, at, room)[1]
        if len(copies) != wanted:
            self._wrote_channel("an answer without the gradients that were asked for")
        return copies


def _as_many(copies: tuple[Tensor | None, ...], count: int) -> tuple[Tensor | None, ...]:
    """As many as there were at the first look: a container may have lost or won some since."""
    return (*copies, *[None] * count)[:count]
