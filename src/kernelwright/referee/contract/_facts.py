"""What the judge is told of a performer, and what becomes of one; plain data."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

from torch import Tensor

from kernelwright.errors import KernelwrightError
from kernelwright.referee._verdict import Status

Node = dict[str, Any]
"""A value as JSON; see `_tree`. Tensors are places in a board."""


@dataclass(frozen=True)
class Deadlines:
    """How long a performer may take, in seconds of the judge's clock.

    `first_s` holds for the import and for a performer's first call, which may compile; within it the
    performer counts as hung once none of its processes has used the processor for `idle_s`. `call_s` holds
    for each later call, `batch_s` for a batch unless it names its own.
    """

    first_s: float = 60.0
    idle_s: float = 10.0
    call_s: float = 10.0
    batch_s: float = 30.0


@dataclass(frozen=True)
class Candidate:
    """A callable of anyone: attribute `op` of `package`, found on `path`.

    `op` is dotted, with or without the package in front (`my_kernel.rms_norm`,
    `my_kernel.cpu.fast.rms_norm`, `rms_norm`). A class is instantiated with `init` under
    `torch.manual_seed(init_seed)`, and tensors of `state` are copied into its parameters and buffers where
    names and shapes match; then the object is called.
    """

    package: str
    op: str
    path: tuple[Path, ...] = ()
    init: tuple[Node, ...] = ()
    init_seed: int = 0
    state: Mapping[str, Node] = field(default_factory=dict)


@dataclass(frozen=True)
class Baseline:
    """The reference of a user's `baseline.py`, as the callable that is timed."""

    file: Path


@dataclass(frozen=True)
class Act:
    """Something that the performer's process was seen to do.

    `act` is one of `patched` (replaced a function of torch, of a clock or of the judge), `left_on` (a mode
    that intercepts other code's calls), `state` (a setting of torch that it did not put back), `opened` (a
    file that is none of its business), `signalled` (a process that is not its own), `channel` (wrote to the
    judge's channel), `looked` (at the frames or objects of the judge). `what` is the thing, `said` completes
    a sentence that begins with "the candidate", `where` is file and line of the candidate, where known.
    `deceives`: it can only serve to deceive the judge.
    """

    act: str
    what: str
    said: str
    where: str = ""
    deceives: bool = True


@dataclass(frozen=True)
class Raised:
    """An exception that left the candidate: type, bases (nearest first), message, file and line."""

    type: str
    bases: tuple[str, ...]
    message: str
    where: str = ""


class PerformerFailure(KernelwrightError):
    """A performer did not do what it was asked.

    `status` is crashed, hung, out_of_memory, unsupported or cheated; `reason` a sentence for the verdict.
    `raised` is set when an exception left the candidate; then `alive`: the performer can be asked further.
    `act` is set for a cheat.
    """

    def __init__(
        self,
        status: Status,
        reason: str,
        *,
        act: Act | None = None,
        raised: Raised | None = None,
        alive: bool = False,
    ) -> None:
        self.status = status
        self.reason = reason
        self.act = act
        self.raised = raised
        self.alive = alive
        super().__init__(reason)


@dataclass(frozen=True)
class Loaded:
    """A candidate that was imported; `kind` is `function`, or `object` for anything else that can be called.

    `modules` are the top-level names of what its import loaded; `state` says of each tensor of
    `Candidate.state` whether it was taken (`""`) or why not; `seconds` is the judge's clock.
    """

    kind: str
    seconds: float
    modules: tuple[str, ...] = ()
    state: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TensorFact:
    """What the performer says of one output tensor; untrusted, except that its bytes were read.

    `path` is where in the output (`""` for the output itself, `[0]`, `['lse']`, …). `type` is the exact type
    (`torch.Tensor` is what it should be). `strides` and `offset` are in elements, `storage_bytes` the size of
    the storage it lies in. `shares_input` is the index of a tensor argument (in the order of
    `_tree.tensors_of` over args, then kwargs) whose memory it shares (-1: other memory of the judge's);
    `shares_output` is the index of an output of the same call in the same storage; `shares_earlier` how many
    calls ago an output lay in it, as far as they are kept; `shares_state` the name of the module's parameter
    or buffer it lies in. `problem` says why its bytes were not copied, or is empty.
    """

    path: str
    type: str
    dtype: str
    device: str
    layout: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage_bytes: int
    is_conj: bool
    is_neg: bool
    requires_grad: bool
    shares_input: int | None = None
    shares_output: int | None = None
    shares_earlier: int | None = None
    shares_state: str | None = None
    problem: str = ""

    @property
    def plain(self) -> bool:
        """Whether it is exactly a dense torch.Tensor on the CPU whose bytes say what it holds."""
        return (
            self.type == "torch.Tensor"
            and self.device == "cpu"
            and self.layout == "strided"
            and not self.is_conj
            and not self.is_neg
            and not self.problem
        )


@dataclass(frozen=True)
class CallResult:
    """One call. Tensors are the judge's own copies, with the output's strides.

    `value` is the output as a tree; its tensors, in the order of `_tree.tensors_of(value)`, are `tensors`
    (as they were when the call returned), `settled` (as they were `settle_ms` later; None when not asked) and
    `facts`. None stands for a tensor whose bytes could not be had; its fact says why. `gradients` are those
    of the tensor arguments that wanted one, in order, None where autograd gave none; None as a whole when not
    asked. `number` names the call for `Performer.recopy`. `seconds` is the judge's clock, messages included.
    `operators` are the torch operators reached, when traced.
    """

    value: Node
    tensors: tuple[Tensor | None, ...]
    facts: tuple[TensorFact, ...]
    settled: tuple[Tensor | None, ...] | None
    gradients: tuple[Tensor | None, ...] | None
    number: int
    seconds: float
    operators: tuple[str, ...] = ()


@dataclass(frozen=True)
class Taken:
    """An output that was copied out: `value`, `tensors` and `facts` as in `CallResult`."""

    value: Node
    tensors: tuple[Tensor | None, ...]
    facts: tuple[TensorFact, ...]


@dataclass(frozen=True)
class Batch:
    """One batch of calls.

    `wall_ns` is on the judge's clock, from asking to answer (messages included, see
    `Performer.overhead_ns`); `own_ns` on the performer's, around the calls alone, and not to be trusted;
    `cpu_ns` is the processor time that all its processes used meanwhile.
    """

    calls: int
    wall_ns: int
    own_ns: int
    cpu_ns: int


Arguments = tuple[Sequence[Node], Mapping[str, Node]]
"""Positional and keyword arguments of one call."""
