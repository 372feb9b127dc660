"""What one call of a candidate has to return: form, exact types, layout, numbers, and what it may share.

Built in the judge from what the reference's process wrote into its board; judged on the judge's own copies of
what a candidate returned.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kernelwright.ops import BaselineBudget
from kernelwright.ops import dtype_name
from kernelwright.referee._oracle import exact
from kernelwright.referee._oracle import expectation
from kernelwright.referee._verdict import Status
from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._diagnosis import diagnose
from kernelwright.referee.contract._diagnosis import Earlier
from kernelwright.referee.contract._diagnosis import Fault
from kernelwright.referee.contract._diagnosis import Rule
from kernelwright.referee.contract._facts import Node
from kernelwright.referee.contract._facts import TensorFact

#: A reference that cannot be run in more digits is no oracle: it is off by as much as a kernel may be.
_OWN_SLACK = 2.0
#: Beyond how far the oracle moves when inputs are off by a rounding.
_SLACK_FACTOR = 2.0
#: Kinds of tensors that compute when they are looked at.
_LAZY_PROBLEMS = ("functorch", "copy on write", "without memory")
_VALUE_ULPS = 16.0


@dataclass(frozen=True)
class Leaf:
    """One tensor that a call has to give: an output, a changed argument, a gradient; `name` says which."""

    name: str
    rule: Rule
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def layout_fault(self, fact: TensorFact, *, dense: bool) -> Fault | None:
        """What is wrong with type, device, dtype, shape or strides; `dense`: in any order of dimensions."""
        if fact.type != "torch.Tensor":
            return self._type_fault(fact)
        if fact.device != "cpu":
            return Fault(Status.WRONG, f"{self.name} is on device {fact.device}, not on cpu")
        if fact.problem or fact.layout != "strided":
            lazy = any(mark in fact.problem for mark in _LAZY_PROBLEMS)
            said = fact.problem or f"laid out as {fact.layout}"
            return Fault(Status.CHEATED if lazy else Status.WRONG, f"{self.name} is {said}")
        got = tree.DTYPES.get(fact.dtype)
        if got != self.dtype:
            shown = dtype_name(got) if got is not None else fact.dtype
            return Fault(Status.WRONG, f"{self.name} is {shown}, the reference's is {dtype_name(self.dtype)}")
        if fact.shape != self.shape:
            return Fault(Status.WRONG, f"{self.name} has shape {fact.shape}, the reference's {self.shape}")
        if not same_strides(self.shape, fact.strides, self.strides) and not (
            dense and is_dense(self.shape, fact.strides)
        ):
            return Fault(
                Status.WRONG,
                f"{self.name} has strides {fact.strides}, the reference's has {self.strides} "
                f"(shape {self.shape})",
            )
        if fact.is_conj or fact.is_neg:
            return Fault(Status.WRONG, f"{self.name} is a view that negates or conjugates when it is read")
        return None

    def _type_fault(self, fact: TensorFact) -> Fault:
        if fact.type.startswith("torch.") and fact.type.endswith("Parameter"):
            return Fault(Status.WRONG, f"{self.name} is a {fact.type}, not exactly a torch.Tensor")
        return Fault(
            Status.CHEATED,
            f"{self.name} is a {fact.type}, a subclass of torch.Tensor that may compute only when it is "
            f"looked at; a kernel returns exactly torch.Tensor",
        )

    def fault(
        self,
        got: Tensor,
        *,
        inputs: Sequence[tuple[str, Tensor]] = (),
        earlier: Sequence[Earlier] = (),
        share: str = "",
    ) -> Fault | None:
        """What is wrong with the numbers."""
        got = plain_numbers(got)
        text = self.rule.fault(got)
        if text is None:
            return None
        fault = diagnose(got, self.rule, text, inputs=inputs, earlier=earlier, share=share)
        return Fault(fault.status, f"{self.name}: {fault.reason}")


@dataclass(frozen=True)
class ExpectedCall:
    """Everything that one call has to give.

    `form` is the output's tree; `leaves` its tensors, in order; `values` what else is in it, by path: value,
    and how far a number may be from it. `mutated` are the arguments that the contract lets it change, by
    index among the tensors of the call; `gradients` those of the tensors that want one.
    """

    form: Node
    leaves: tuple[Leaf, ...]
    values: Mapping[str, tuple[Any, float]]
    mutated: Mapping[int, Leaf]
    gradients: tuple[Leaf | None, ...]
    precision: str
    shares_input: bool

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to a user's tolerances."""
        return tuple(dict.fromkeys(leaf.rule.note for leaf in self.leaves if leaf.rule.note))

    @property
    def nbytes(self) -> int:
        """Bytes of all outputs, packed."""
        return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in self.leaves)

    def form_fault(self, value: Node) -> Fault | None:
        """What is wrong with the form of an output, or with what in it is no tensor."""
        text = _form_fault(self.form, value, "the output")
        if text is not None:
            return Fault(Status.WRONG, text)
        for path, (want, slack) in self.values.items():
            if want is None:
                continue
            got = dict(values_of(value)).get(path)
            if not _close(got, want, slack):
                return Fault(Status.WRONG, f"output{path} is {got!r}, expected {want!r}")
        return None


def build(
    answer: Mapping[str, Any],
    tensor: Callable[[Node], Tensor],
    budget: BaselineBudget,
    names: Sequence[str],
    *,
    flushed: bool = False,
    strict_tolerances: bool = True,
) -> ExpectedCall:
    """The expectation that the reference's process answered; `tensor` copies a node out of its board.

    `names` are those of the call's tensors. `flushed`: denormal inputs may count as zero.
    `strict_tolerances`: a user's atol and rtol replace the rule for the largest error, even where they are
    stricter; otherwise, for inputs that the user did not choose, only where they are wider.
    """
    maker = _Maker(tensor, budget, str(answer["precision"]), flushed, strict_tolerances)
    peers = list(tree.tensors_of(answer["peer"]))
    oracles = list(tree.tensors_of(answer["oracle"]))
    paths = list(tree.paths_of(answer["peer"]))
    wants = [name for name, wanted in zip(names, answer["wants_gradient"], strict=True) if wanted]
    exact_values = dict(values_of(answer["oracle"]))
    values = {}
    for path, value in values_of(answer["peer"]):
        want = exact_values.get(path, value)
        slack = 0.0
        if isinstance(value, float) and isinstance(want, int | float):
            slack = 2 * abs(value - want) + _VALUE_ULPS * 1.2e-7 * abs(want)
        else:
            want = value
        values[path] = (want, slack)
    return ExpectedCall(
        form=tree.map_tensors(answer["peer"], lambda node: {"t": "tensor"}),
        leaves=tuple(
            maker.leaf(f"output{path}" if path else "the output", peer, oracle, slack)
            for path, peer, oracle, slack in zip(paths, peers, oracles, answer["slack"], strict=True)
        ),
        values=values,
        mutated={
            int(index): maker.leaf(f"argument {names[int(index)]} after the call", **parts)
            for index, parts in answer["mutated"].items()
        },
        gradients=tuple(
            None if parts is None else maker.leaf(f"the gradient of {name}", **parts)
            for name, parts in zip(wants, answer["gradients"], strict=False)
        ),
        precision=str(answer["precision"]),
        shares_input=bool(answer["shares_input"]),
    )


class _Maker:
    def __init__(
        self,
        tensor: Callable[[Node], Tensor],
        budget: BaselineBudget,
        precision: str,
        flushed: bool,
        strict: bool,
    ) -> None:
        self._tensor = tensor
        self._budget = budget
        self._own = precision == "own"
        self._flushed = flushed
        self._strict = strict

    def leaf(self, name: str, peer: Node, oracle: Node, slack: Node | None) -> Leaf:
        mine = self._tensor(peer)
        dtype, shape, strides = mine.dtype, tuple(mine.shape), tuple(mine.stride())
        mine, truth = plain_numbers(mine), plain_numbers(self._tensor(oracle))
        moved = None if slack is None else self._tensor(slack).contiguous()
        rule: Rule
        if not mine.is_floating_point():
            rule = exact(truth.contiguous(), mine.contiguous(), moved)
        else:
            rule = self._rule(truth, mine, moved if not dtype.is_complex else None)
        return Leaf(name, rule, dtype, shape, strides)

    def _rule(self, oracle: Tensor, peer: Tensor, moved: Tensor | None) -> Rule:
        budget = self._budget.of(peer.dtype)
        if self._own:
            wider = {dtype: _OWN_SLACK * gate for dtype, gate in budget.relative_l2.items()}
            floor = _OWN_SLACK * budget.floor_ulps
            budget = dataclasses.replace(budget, floor_ulps=floor, relative_l2=wider)
        slack = None if moved is None else _SLACK_FACTOR * moved
        truth, mine = oracle.double().contiguous(), peer.contiguous()
        atol, rtol = self._budget.atol, self._budget.rtol
        rule = expectation(truth, mine, budget, flushed=self._flushed, slack=slack, atol=atol, rtol=rtol)
        if (atol is None and rtol is None) or self._strict:
            return rule
        usual = expectation(truth, mine, budget, flushed=self._flushed, slack=slack)
        return dataclasses.replace(rule, limit=max(rule.limit, usual.limit))


def plain_numbers(tensor: Tensor) -> Tensor:
    """The same numbers as real ones: complex tensors get a last dimension of real and imaginary parts."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def same_strides(shape: Sequence[int], one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether strides mean the same layout: those of dimensions of one element do not count."""
    if 0 in shape:
        return True
    return all(size == 1 or a == b for size, a, b in zip(shape, one, other, strict=True))


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a tensor fills its memory without gaps and overlaps, whatever the order of its dimensions."""
    step = 1
    for stride, size in sorted((stride, size) for size, stride in zip(shape, strides, strict=True)):
        if size == 1:
            continue
        if stride != step:
            return False
        step *= size
    return True


def values_of(node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """What in a tree is no tensor, by path."""
    if node["t"] in ("list", "tuple"):
        for index, one in enumerate(node["items"]):
            yield from values_of(one, f"{path}[{index}]")
    elif node["t"] == "dict":
        for name, one in node["items"].items():
            yield from values_of(one, f"{path}[{name!r}]")
    elif node["t"] != "tensor":
        yield path, node.get("v")


def _form_fault(want: Node, got: Node, name: str) -> str | None:
    """How the form of an output differs; lists and tuples are the same."""
    series = ("list", "tuple")
    if want == {"t": "value", "v": None}:
        return None  # Who expects nothing has no use for anything.
    if want["t"] in series and got["t"] in series:
        if len(want["items"]) != len(got["items"]):
            return f"{name} has {len(got['items'])} parts, the reference's {len(want['items'])}"
        pairs = zip(want["items"], got["items"], strict=True)
        parts = [(one, other, f"{name}[{index}]") for index, (one, other) in enumerate(pairs)]
    elif want["t"] == "dict" and got["t"] == "dict":
        if set(want["items"]) != set(got["items"]):
            return f"{name} has the keys {sorted(got['items'])}, the reference's {sorted(want['items'])}"
        parts = [(one, got["items"][key], f"{name}[{key!r}]") for key, one in want["items"].items()]
    elif want["t"] == got["t"]:
        return None
    else:
        return f"{name} is {_said(got)}, the reference's is {_said(want)}"
    return next((text for one in parts if (text := _form_fault(*one)) is not None), None)


def _said(node: Node) -> str:
    if node["t"] == "value":
        return "None" if node["v"] is None else f"the {type(node['v']).__name__} {node['v']!r}"[:80]
    if node["t"] in ("list", "tuple"):
        return f"a {node['t']} of {len(node['items'])}"
    if node["t"] == "dict":
        return f"a dict of {', '.join(sorted(node['items'])) or 'nothing'}"[:120]
    return {"tensor": "a tensor"}.get(node["t"], f"a {node.get('type') or node['t']}")


def _close(got: object, want: object, slack: float) -> bool:
    if isinstance(want, bool) or not isinstance(want, int | float):
        return type(got) is type(want) and got == want
    if isinstance(got, bool) or not isinstance(got, int | float):
        return False
    if math.isnan(want):
        return math.isnan(got)
    return got == want or abs(got - want) <= slack
