"""What the reference says of a call: its inputs, its result in fp64 and in their own dtype; runs user code.

A call is described by data, the same on both sides of the channel:

    {"workload": name, "seed": S, "steps": [{"kind": .., "seed": ..}, ..], "gradient": bool, "slack": bool}

A step changes the inputs: those of `_contents.changed`, and `lead` (`rows`, `group`), `layout` (`layout`,
`which`). `slack` asks how far the oracle moves when inputs are off by a rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten
from torch.utils._pytree import tree_unflatten

from kernelwright.errors import UsageError
from kernelwright.ops import Baseline
from kernelwright.referee._oracle import same_bits
from kernelwright.referee.contract import _contents as contents
from kernelwright.referee.contract._fp64 import doubled
from kernelwright.referee.contract._fp64 import in_fp32
from kernelwright.referee.contract._fp64 import in_fp64
from kernelwright.referee.contract._fp64 import NoOracle
from kernelwright.referee.contract._fp64 import private
from kernelwright.referee.contract._fp64 import promotion

#: Inputs are moved by so many units of the format that sums are kept in: what an honest kernel may be off by
#: in other places than torch.
_PERTURBATION_ULPS = 4.0
_PERTURBED_RUNS, _PERTURBED_RUNS_OF_INTEGERS = 1, 6
#: A result in fp64 farther from the one in the own dtype than this, relative L2, is of another computation.
_PLAUSIBLE_L2 = 0.25
#: In units of a rounding; where all inputs are zero, ties are turned by it.
_NEARLY_ZERO = 1e-20
#: Integers of plain inputs that hang on a rounding in more than this part are judged all the same.
_MOST_UNSTABLE = 0.5
_PARALLEL_ELEMENTS = 1 << 20


class Refused(Exception):
    """The reference does not take this call; says nothing about the kernel."""


@dataclass
class Run:
    """What one run of the reference left: output tree, arguments afterwards, gradients."""

    value: Any
    leaves: list[Any]
    gradients: list[Tensor | None]

    def tensors(self) -> list[Tensor]:
        """Output tensors, in order."""
        return [leaf for leaf in tree_flatten(self.value)[0] if isinstance(leaf, Tensor)]


@dataclass
class Testimony:
    """What has to come of one call.

    `peer` and `oracle` are runs in the own dtype and in fp64 (or what `precision` says), `mutated` the
    indices of tensors among the arguments that the contract lets a call change. The slacks hold a tensor, or
    None, for each output, mutated argument and gradient.
    """

    arguments: list[Any]
    peer: Run
    oracle: Run
    slack: list[Tensor | None]
    slack_mutated: dict[int, Tensor | None]
    slack_gradients: list[Tensor | None]
    mutated: list[int]
    grad_outputs: list[Tensor | None] | None
    precision: str
    shares_input: bool


class Witness:
    """A loaded baseline, asked for calls."""

    def __init__(self, baseline: Baseline, threads: int = 1) -> None:
        self.baseline = baseline
        self._threads = threads
        self._module64: torch.nn.Module | None = None
        if baseline.module is not None:
            self._module64 = doubled(baseline.module)
        self._precision: dict[str, str] = {}
        self._bases: dict[tuple[int, str], list[Any]] = {}

    def inputs(self, call: Mapping[str, Any]) -> list[Any]:
        """The arguments of a call. Raises Refused where they cannot be had in this shape or layout."""
        made = self._base(int(call["seed"]), str(call["workload"]))
        leaves, shape = tree_flatten(made)
        for step in call["steps"]:
            generator = torch.Generator().manual_seed(int(step["seed"]))
            if step["kind"] == "lead":
                leaves = contents.with_leading(leaves, step["group"], int(step["rows"]), generator)
            elif step["kind"] == "layout":
                laid = contents.laid_out(leaves, step["layout"], step["which"])
                if laid is None:
                    raise Refused(f"no input can be laid out {step['layout']}")
                leaves = laid
            else:
                leaves = contents.changed(leaves, step, generator)
        return list(tree_unflatten(leaves, shape))

    def testify(self, call: Mapping[str, Any], arguments: list[Any] | None = None) -> Testimony:
        """Everything about one call, or about these arguments.

        Raises Refused, UsageError for a contract that is broken, and what the user's code raises.
        """
        if arguments is None:
            arguments = self.inputs(call)
        workload = str(call["workload"])
        given = [leaf for leaf in tree_flatten(arguments)[0] if isinstance(leaf, Tensor)]
        for tensor in given:
            self._check_tensor(tensor)
        # Waking other threads takes longer than small work, on a busy machine a hundred times as long.
        large = sum(tensor.numel() for tensor in given) >= _PARALLEL_ELEMENTS
        torch.set_num_threads(self._threads if large else 1)
        wanted = bool(call["gradient"])
        peer, grad_outputs = self._peer(arguments, wanted, int(call["seed"]))
        mutated = self._mutated(arguments, given, peer)
        precision, oracle = self._oracle(arguments, grad_outputs, peer, workload, plain=not call["steps"])
        testimony = Testimony(
            arguments,
            peer,
            oracle,
            [None] * len(peer.tensors()),
            dict.fromkeys(mutated),
            [None] * len(peer.gradients),
            mutated,
            grad_outputs,
            precision,
            any(_overlap(out, tensor) for out in peer.tensors() for tensor in peer.leaves),
        )
        if call["slack"] and precision == "fp64":
            self._add_slack(testimony, call)
            if not call["steps"]:
                testimony.slack = [_if_few(slack) for slack in testimony.slack]
        return testimony

    def result(self, call: Mapping[str, Any]) -> Run:
        """What the reference gives, without an oracle. Raises Refused, and what the user's code raises."""
        return self._peer(self.inputs(call), bool(call["gradient"]), int(call["seed"]))[0]

    def _base(self, seed: int, workload: str) -> list[Any]:
        key = (seed, workload)
        if key not in self._bases:
            if len(self._bases) > 3:
                self._bases.clear()
            self._bases[key] = list(self.baseline.inputs(seed, workload))
        return list(private(self._bases[key]))

    def _check_tensor(self, tensor: Tensor) -> None:
        path = self.baseline.path
        if type(tensor) is not Tensor:
            raise UsageError(
                f"{path}: get_inputs() returned a {type(tensor).__name__}; return plain torch.Tensors "
                f"(for the parameters of a module, define a class Model)"
            )
        if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
            raise UsageError(
                f"{path}: get_inputs() returned a tensor on {tensor.device}, laid out as {tensor.layout}; "
                f"only dense tensors on the CPU can be judged"
            )

    def _peer(self, arguments: list[Any], wanted: bool, seed: int) -> tuple[Run, list[Tensor | None] | None]:
        given = private(arguments)
        value = self._called(self.baseline.call, given, wanted)
        tensors = [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Tensor)]
        grad_outputs: list[Tensor | None] | None = None
        if wanted:
            generator = torch.Generator().manual_seed(seed ^ 0x5EED)
            grad_outputs = [
                torch.randn(out.shape, generator=generator).to(out.dtype) if out.requires_grad else None
                for out in tensors
            ]
            if not any(grad is not None for grad in grad_outputs):
                raise UsageError(
                    f"{self.baseline.path}: gradients belong to the contract (BACKWARD, or inputs that "
                    f"require them), but no output of the reference has one; drop BACKWARD, or do not detach"
                )
        return self._run(value, given, grad_outputs), grad_outputs

    def _called(self, function: Callable[..., Any], arguments: list[Any], wanted: bool) -> Any:
        with torch.set_grad_enabled(wanted):
            return function(*arguments)

    def _run(self, value: Any, arguments: list[Any], grad_outputs: Sequence[Tensor | None] | None) -> Run:
        leaves = [leaf for leaf in tree_flatten(arguments)[0] if isinstance(leaf, Tensor)]
        gradients: list[Tensor | None] = []
        if grad_outputs is not None:
            tensors = [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Tensor)]
            pairs = [(out, grad) for out, grad in zip(tensors, grad_outputs, strict=True) if grad is not None]
            found = torch.autograd.grad(
                [out for out, _ in pairs],
                [leaf for leaf in leaves if leaf.requires_grad],
                [grad.to(out.dtype) for out, grad in pairs],
                allow_unused=True,
            )
            gradients = list(found)
        return Run(_detached(value), [leaf.detach() for leaf in leaves], gradients)

    def _mutated(self, arguments: list[Any], given: list[Tensor], peer: Run) -> list[int]:
        """Which tensors may change; the reference must not change another."""
        allowed: list[int] = []
        allowed_arguments = self.baseline.mutated(arguments)
        names = self.baseline.parameters(len(arguments))
        position = 0
        for index, argument in enumerate(arguments):
            count = sum(isinstance(leaf, Tensor) for leaf in tree_flatten(argument)[0])
            for place in range(position, position + count):
                if index in allowed_arguments:
                    allowed.append(place)
                elif not same_bits_as_laid_out(given[place].detach(), peer.leaves[place]):
                    raise UsageError(
                        f"{self.baseline.path}: the reference changes its argument {names[index]} in place; "
                        f"write MUTATES = [{names[index]!r}] if a kernel has to do so too, or clone it"
                    )
            position += count
        return allowed

    def _oracle(
        self,
        arguments: list[Any],
        grad_outputs: list[Tensor | None] | None,
        peer: Run,
        workload: str,
        *,
        plain: bool,
    ) -> tuple[str, Run]:
        """The result in fp64, else in fp32, else the peer itself; the answer is kept for each workload."""
        known = self._precision.get(workload)
        attempts = {"fp64": self._in_fp64, "fp32": self._in_fp32}
        for precision, attempt in attempts.items():
            if known is not None and known != precision:
                continue
            try:
                run = attempt(arguments, grad_outputs)
            except Exception:  # noqa: BLE001 - the reference runs in its own dtype and not in this one
                if known is not None:
                    raise Refused("the oracle cannot be computed for this call") from None
                continue
            if _alike(run, peer, plain=plain and known is None):
                if plain:
                    self._precision[workload] = precision
                return precision, run
            if known is not None:
                raise Refused("the oracle has another form than the reference's result")
        if plain:
            self._precision[workload] = "own"
        return "own", peer

    def _in_fp64(self, arguments: list[Any], grad_outputs: list[Tensor | None] | None) -> Run:
        given = in_fp64(arguments)
        function = self._module64 if self._module64 is not None else self.baseline.call
        with promotion():
            value = self._called(function, given, grad_outputs is not None)
            return self._run(value, given, None if grad_outputs is None else in_fp64(grad_outputs))

    def _in_fp32(self, arguments: list[Any], grad_outputs: list[Tensor | None] | None) -> Run:
        given = in_fp32(arguments)
        if self.baseline.module is not None or not any(
            isinstance(leaf, Tensor) and leaf.dtype in (torch.bfloat16, torch.float16)
            for leaf in tree_flatten(arguments)[0]
        ):
            raise NoOracle("fp32 is what it computes in anyway")
        value = self._called(self.baseline.call, given, grad_outputs is not None)
        return self._run(value, given, None if grad_outputs is None else in_fp32(grad_outputs))

    def _add_slack(self, testimony: Testimony, call: Mapping[str, Any]) -> None:
        oracle = testimony.oracle
        integers = any(not out.is_floating_point() and not out.is_complex() for out in oracle.tensors())
        runs = _PERTURBED_RUNS_OF_INTEGERS if integers else _PERTURBED_RUNS
        kinds = {step["kind"] for step in call["steps"]}
        flushed, filled = "denormals" in kinds, integers and "fill" in kinds
        generator = torch.Generator().manual_seed(int(call["seed"]) ^ 0x51AC)
        for number in range(runs + flushed):
            flush = number == runs
            if number % 2 == 0:
                seed = generator.initial_seed() + number
            # Runs come in pairs of opposite signs: one of the two turns each tie round.
            arguments = _moved(testimony.arguments, seed, -1 if number % 2 else 1, flush=flush, zeros=filled)
            moved = self._in_fp64(arguments, testimony.grad_outputs)
            if not _alike(moved, oracle, plain=False):
                return
            for index, pair in enumerate(zip(moved.tensors(), oracle.tensors(), strict=True)):
                testimony.slack[index] = _wider(testimony.slack[index], *pair, flush=flush)
            for index in testimony.mutated:
                testimony.slack_mutated[index] = _wider(
                    testimony.slack_mutated[index],
                    moved.leaves[index],
                    oracle.leaves[index],
                    flush=flush,
                )
            for index, (one, other) in enumerate(zip(moved.gradients, oracle.gradients, strict=True)):
                if one is not None and other is not None:
                    slack = testimony.slack_gradients[index]
                    testimony.slack_gradients[index] = _wider(slack, one, other, flush=flush)


def same_bits_as_laid_out(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same bits."""
    if one.is_complex():
        return same_bits_as_laid_out(torch.view_as_real(one), torch.view_as_real(other))
    return same_bits(one.contiguous(), other.contiguous())


def _detached(value: Any) -> Any:
    leaves, shape = tree_flatten(value)
    return tree_unflatten([leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in leaves], shape)


def _overlap(one: Tensor, other: Tensor) -> bool:
    if not one.numel() or not other.numel():
        return False
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _alike(run: Run, peer: Run, *, plain: bool) -> bool:
    """Whether a run in another precision is the same computation: form, shapes, and with `plain` numbers."""
    mine, mine_shape = tree_flatten(run.value)
    theirs, their_shape = tree_flatten(peer.value)
    if mine_shape != their_shape or len(run.gradients) != len(peer.gradients):
        return False
    for one, other in zip(mine, theirs, strict=True):
        if isinstance(one, Tensor) != isinstance(other, Tensor):
            return False
        if isinstance(one, Tensor) and (one.shape != other.shape or not _near(one, other, plain)):
            return False
    return True


def _near(one: Tensor, other: Tensor, plain: bool) -> bool:
    if one.is_floating_point() != other.is_floating_point() or one.is_complex() != other.is_complex():
        return False
    if not plain or not one.is_floating_point() or not one.numel():
        return True
    want, got = one.double().reshape(-1), other.double().reshape(-1)
    both = torch.isfinite(want) & torch.isfinite(got)
    norm = float(torch.linalg.vector_norm(got[both]))
    return float(torch.linalg.vector_norm(want[both] - got[both])) <= _PLAUSIBLE_L2 * norm + 1e-30


def _moved(arguments: list[Any], seed: int, sign: int, *, flush: bool, zeros: bool) -> list[Any]:
    """The arguments in fp64, each element off by a few roundings, or with denormals flushed to zero.

    `zeros` become next to nothing of either sign.
    """
    generator = torch.Generator().manual_seed(seed % (1 << 63))
    leaves, shape = tree_flatten(arguments)
    made: list[Any] = []
    for leaf in leaves:
        if not isinstance(leaf, Tensor) or not leaf.is_floating_point():
            made.append(leaf)
            continue
        double = in_fp64(leaf).detach()
        if flush:
            double = torch.where(double.abs() < torch.finfo(leaf.dtype).smallest_normal, 0.0, double)
        else:
            kept = torch.float64 if leaf.dtype == torch.float64 else torch.float32
            step = torch.empty(leaf.shape, dtype=torch.float64).uniform_(0.5, 1.0, generator=generator)
            step *= torch.randint(0, 2, leaf.shape, generator=generator) * 2 - 1
            step *= sign * _PERTURBATION_ULPS * torch.finfo(kept).eps
            double = double * (1 + step)
            if zeros:
                double = torch.where(double == 0, _NEARLY_ZERO * step, double)
        made.append(double.requires_grad_(leaf.requires_grad))
    return list(tree_unflatten(made, shape))


def _if_few(slack: Tensor | None) -> Tensor | None:
    """The slack of an output, unless it says of most of its integers that they are open."""
    if slack is None or slack.dtype != torch.bool or not slack.numel():
        return slack
    return None if float(slack.double().mean()) > _MOST_UNSTABLE else slack


def _wider(slack: Tensor | None, moved: Tensor, oracle: Tensor, *, flush: bool) -> Tensor:
    """The larger slack of two: how far `moved` is from `oracle`; endless where one of them is not finite.

    For integers: whether they ever differ; those of denormals, which may count as zero, are all open.
    """
    if not oracle.is_floating_point():
        differs = torch.ones_like(oracle, dtype=torch.bool) if flush else moved != oracle
        return differs if slack is None else slack | differs
    distance = (moved.double() - oracle.double()).abs_()
    same = (moved == oracle) | (moved.isnan() & oracle.isnan())
    distance = torch.where(same, 0.0, distance).nan_to_num_(nan=float("inf"), posinf=float("inf"))
    return distance if slack is None else torch.maximum(slack, distance)
