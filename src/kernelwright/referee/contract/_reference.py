"""The process of the reference, seen from the judge: what a user's contract says, what a call has to give."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any
from typing import NoReturn

from torch import Tensor

from kernelwright.errors import UsageError
from kernelwright.ops import BaselineBudget
from kernelwright.process import Limits
from kernelwright.referee._child import RefereeError
from kernelwright.referee._verdict import Status
from kernelwright.referee.contract import _expect
from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._facts import Deadlines
from kernelwright.referee.contract._facts import Node
from kernelwright.referee.contract._facts import PerformerFailure
from kernelwright.referee.contract._stage import Handle

_SCRIPT = Path(__file__).with_name("_reference_start.py")
_DEADLINES = Deadlines(first_s=60.0, idle_s=20.0, call_s=60.0)
#: The least room for one call in the board, and how much more than inputs and outputs it may take: each
#: output is there in its own dtype, in fp64, and with its slack.
_LEAST_ROOM, _ROOM_FACTOR = 16 << 20, 24


@dataclass(frozen=True)
class Contract:
    """What a `baseline.py` says of itself; see `ops.Baseline`."""

    path: Path
    workloads: tuple[str, ...]
    budget: BaselineBudget
    deterministic: bool
    shares: bool
    nonfinite: bool
    module: bool


@dataclass(frozen=True)
class LeafFacts:
    """One argument of a call, or one output, in the order of the flattened arguments."""

    tensor: bool
    dtype: str = ""
    floating: bool = False
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    nbytes: int = 0


@dataclass(frozen=True)
class WorkloadFacts:
    """What the reference does with a workload.

    `parameters` names its tensors; `leaves` are all its arguments, flattened. `fixed`: `get_inputs()` gives
    the same under every seed. `repeats` is how far two runs of the reference differ, relative L2. `groups`
    are sets of leaves whose leading dimension may change. `precision` is that of the oracle: `fp64`, `fp32`,
    or `own` where the reference runs in no other. `seconds` is what one testimony takes.
    """

    name: str
    parameters: tuple[str, ...]
    leaves: tuple[LeafFacts, ...]
    outputs: tuple[LeafFacts, ...]
    mutated: tuple[int, ...]
    gradient: bool
    fixed: bool
    precision: str
    shares_input: bool
    repeats: float
    groups: tuple[tuple[int, ...], ...]
    seconds: float

    @property
    def nbytes(self) -> int:
        """Bytes of all inputs and outputs."""
        return sum(leaf.nbytes for leaf in (*self.leaves, *self.outputs))


@dataclass(frozen=True)
class Made:
    """One call, as the reference made it; private tensors of the judge.

    `arguments` are trees whose tensors are, in order, `tensors`; `grad_outputs` has a tensor or None for each
    output tensor, or is None where no gradient is judged.
    """

    arguments: tuple[Node, ...]
    tensors: tuple[Tensor, ...]
    wants_gradient: tuple[bool, ...]
    expected: _expect.ExpectedCall
    grad_outputs: tuple[Tensor | None, ...] | None


@dataclass(frozen=True)
class Refusal:
    """A call that the reference does not take, and why."""

    said: str


@dataclass
class _Ahead:
    """A call that the reference was asked to make: its place in the board until it has come."""

    call: Mapping[str, Any]
    strict_tolerances: bool
    mark: int = field(default=0, compare=False)
    made: Made | Refusal | None = field(default=None, compare=False)


class Reference(Handle):
    """A process that runs a user's `baseline.py` for the judge; it never meets the candidate.

    Raises UsageError for what is wrong with the file, RefereeError when its code raises, crashes or hangs as
    it is called.
    """

    def __init__(
        self,
        baseline: Path,
        *,
        refuse: str | None = None,
        template: Any = None,
        threads: int = 1,
        board_bytes: int | None = None,
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
        sandbox: Any = None,
        atol: float | None = None,
        rtol: float | None = None,
    ) -> None:
        self._baseline = Path(baseline).absolute()
        self._refuse = refuse
        self._threads = threads
        self._contract: Contract | None = None
        self._facts: dict[str, WorkloadFacts] = {}
        self._atol, self._rtol = atol, rtol
        self._ahead: _Ahead | None = None
        super().__init__(
            _SCRIPT,
            who="the reference",
            template=template,
            deadlines=_DEADLINES,
            board_bytes=board_bytes,
            limits=limits,
            env=env,
            sandbox=sandbox,
        )

    @property
    def contract(self) -> Contract:
        """The contract; loading it starts the process."""
        if self._contract is None:
            answer = self._answer(
                "load",
                baseline=str(self._baseline),
                refuse=self._refuse,
                threads=self._threads,
                within_s=self.deadlines.first_s,
            )
            atol, rtol = answer["atol"], answer["rtol"]
            if self._atol is not None or self._rtol is not None:
                atol, rtol = self._atol, self._rtol
            self._contract = Contract(
                path=self._baseline,
                workloads=tuple(answer["workloads"]),
                budget=BaselineBudget(
                    factor=float(answer["factor"]),
                    floor_ulps={tree.DTYPES[key]: float(v) for key, v in answer["floor_ulps"].items()},
                    relative_l2={tree.DTYPES[key]: float(v) for key, v in answer["relative_l2"].items()},
                    atol=atol,
                    rtol=rtol,
                ),
                deterministic=bool(answer["deterministic"]),
                shares=bool(answer["shares"]),
                nonfinite=bool(answer["nonfinite"]),
                module=bool(answer["module"]),
            )
        return self._contract

    @property
    def largest_bytes(self) -> int:
        """Bytes of inputs and outputs of the largest workload described so far."""
        return max((facts.nbytes for facts in self._facts.values()), default=0)

    def describe(self, workload: str, seeds: tuple[int, int]) -> WorkloadFacts:
        """What a workload is; asked once for each."""
        if workload not in self.contract.workloads:
            known = ", ".join(self.contract.workloads)
            raise UsageError(f"{self._baseline} has no workload {workload!r}; it has {known}")
        if workload not in self._facts:
            answer = self._answer("describe", workload=workload, seeds=list(seeds))
            self._facts[workload] = WorkloadFacts(
                name=workload,
                parameters=tuple(answer["parameters"]),
                leaves=tuple(_leaf(leaf) for leaf in answer["leaves"]),
                outputs=tuple(_leaf(leaf) for leaf in answer["outputs"]),
                mutated=tuple(answer["mutated"]),
                gradient=bool(answer["gradient"]),
                fixed=bool(answer["fixed"]),
                precision=str(answer["precision"]),
                shares_input=bool(answer["shares_input"]),
                repeats=float(answer["repeats"]),
                groups=tuple(tuple(group) for group in answer["groups"]),
                seconds=float(answer["seconds"]),
            )
        return self._facts[workload]

    def state(self) -> tuple[tuple[Node, ...], dict[str, Node], tuple[Tensor, ...]]:
        """What a candidate that is a class is made with.

        Initial arguments, and parameters and buffers by name, as trees; private copies of their tensors, in
        order.
        """
        mark = self.board.mark()
        try:
            room = self.board.size // 4
            answer = self._answer("state", at=self.board.room(room), room=room)
            nodes = [*answer["init"], *answer["state"].values()]
            tensors = [self.board.copy(node) for one in nodes for node in tree.tensors_of(one)]
            return tuple(answer["init"]), dict(answer["state"]), tuple(tensors)
        finally:
            self.board.release(mark)

    def make(
        self, call: Mapping[str, Any], *, rows: float = 1.0, strict_tolerances: bool = True
    ) -> Made | Refusal:
        """One call from its description (see `_witness`); `rows` is how many times larger it is than plain.

        `strict_tolerances`: see `_expect.build`.
        """
        wanted = _Ahead(call, strict_tolerances)
        if self._ahead != wanted:
            self.make_ahead(call, rows=rows, strict_tolerances=strict_tolerances)
        made = self._come()
        self._ahead = None
        assert made is not None
        return made

    def make_ahead(
        self, call: Mapping[str, Any], *, rows: float = 1.0, strict_tolerances: bool = True
    ) -> None:
        """Let a call be made meanwhile; the next `make`, with the same arguments, takes it."""
        self._come()
        facts = self._facts[call["workload"]]
        room = max(_LEAST_ROOM, int(_ROOM_FACTOR * max(1.0, rows) * facts.nbytes))
        self._ahead = _Ahead(call, strict_tolerances, mark=self.board.mark())
        try:
            with self._accounting_for("make"), self._short_of_memory():
                self._post("make", {"call": dict(call), "at": self._room(room), "room": room})
        except BaseException:
            self._forget()
            raise

    def _come(self) -> Made | Refusal | None:
        """What was asked ahead, once it is there; None where nothing was."""
        ahead = self._ahead
        if ahead is None or ahead.made is not None:
            return ahead.made if ahead is not None else None
        flushed = any(step["kind"] == "denormals" for step in ahead.call["steps"])
        names = self._facts[ahead.call["workload"]].parameters
        try:
            with self._accounting_for("make"):
                answer = self._take(None, None)
            ahead.made = self._read(answer, names, flushed=flushed, strict_tolerances=ahead.strict_tolerances)
        except BaseException:
            self._forget()
            raise
        self.board.release(ahead.mark)
        return ahead.made

    def _forget(self) -> None:
        assert self._ahead is not None
        self.board.release(self._ahead.mark)
        self._ahead = None

    def answer(
        self,
        workload: str,
        arguments: Sequence[Node],
        tensors: Sequence[Tensor],
        *,
        gradient_seed: int | None = None,
    ) -> Made | Refusal:
        """What has to come of a call with these arguments: trees, and the tensors in them, in order.

        `gradient_seed` is where the gradients of the outputs are drawn from; None: none are judged.
        """
        facts = self._facts[workload]
        room = max(_LEAST_ROOM, _ROOM_FACTOR * facts.nbytes)
        self._come()
        mark = self.board.mark()
        try:
            left = iter(tensors)
            with self._short_of_memory():
                given = [tree.map_tensors(one, lambda _: self.board.put(next(left))) for one in arguments]
                at = self._room(room)
            answer = self._answer(
                "answer", workload=workload, arguments=given, seed=gradient_seed, at=at, room=room
            )
            return self._read(answer, facts.parameters, flushed=False, strict_tolerances=True)
        finally:
            self.board.release(mark)

    def _room(self, room: int) -> int:
        return self.board.room(min(room, self.board.size // 2))

    def _read(
        self, answer: Mapping[str, Any], names: Sequence[str], *, flushed: bool, strict_tolerances: bool
    ) -> Made | Refusal:
        """A call as the reference described it; private copies of its tensors."""
        if "refused" in answer:
            return Refusal(str(answer["refused"]))
        with self._short_of_memory():
            copy = self.board.copy
            expected = _expect.build(
                answer,
                copy,
                self.contract.budget,
                names,
                flushed=flushed,
                strict_tolerances=strict_tolerances,
            )
            grads = answer["grad_outputs"]
            return Made(
                arguments=tuple(answer["arguments"]),
                tensors=tuple(copy(node) for one in answer["arguments"] for node in tree.tensors_of(one)),
                wants_gradient=tuple(answer["wants_gradient"]),
                expected=expected,
                grad_outputs=None
                if grads is None
                else tuple(None if node is None else copy(node) for node in grads),
            )

    @contextmanager
    def _short_of_memory(self) -> Iterator[None]:
        try:
            yield
        except MemoryError as error:
            raise RefereeError(
                f"{self._baseline}: a call needs more memory than the judge may share ({error}); name "
                f"smaller WORKLOADS"
            ) from error

    def _answer(self, op: str, *, within_s: float | None = None, **fields: Any) -> dict[str, Any]:
        self._come()
        with self._accounting_for(op):
            return self.ask(op, within_s=within_s, **fields)

    @contextmanager
    def _accounting_for(self, op: str) -> Iterator[None]:
        try:
            yield
        except PerformerFailure as failure:
            self._give_up(failure, op)

    def _give_up(self, failure: PerformerFailure, op: str) -> NoReturn:
        raised = failure.raised
        if raised is None:
            raise RefereeError(
                f"{self._baseline}: the reference {_did(failure)}; without it nothing can be judged"
            ) from failure
        if raised.type == "UsageError":
            raise UsageError(raised.message) from failure
        if raised.type == "BoardFullError":
            raise RefereeError(
                f"{self._baseline}: a call needs {raised.message} in the judge's memory; name smaller "
                f"WORKLOADS"
            ) from failure
        where = f" ({raised.where})" if raised.where else ""
        raise RefereeError(
            f"{self._baseline}: the reference raised {raised.type}: {raised.message}{where} on inputs of "
            f"get_inputs(); make it take them"
        ) from failure


def _did(failure: PerformerFailure) -> str:
    words = {Status.HUNG: "hung", Status.OUT_OF_MEMORY: "ran out of memory", Status.CRASHED: "crashed"}
    return f"{words.get(failure.status, 'failed')}: {failure.reason}"


def _leaf(facts: Mapping[str, Any]) -> LeafFacts:
    if not facts["tensor"]:
        return LeafFacts(False)
    return LeafFacts(
        True,
        str(facts["dtype"]),
        bool(facts["floating"]),
        tuple(facts["shape"]),
        tuple(facts["strides"]),
        int(facts["nbytes"]),
    )
