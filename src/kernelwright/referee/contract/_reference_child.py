"""The process of the reference: makes inputs and says what has to come of them. Runs the user's baseline.py.

Operations (see `_reference` for the other side):

    load {baseline, refuse, threads} -> what the contract says
    describe {workload, seeds}       -> the inputs of a workload, and what the reference does with them
    state {at, room}                 -> initial arguments, parameters and buffers of a Model
    make {call, at, room}            -> one call: arguments and results, in the board
    answer {workload, arguments, ..} -> the same for arguments that the judge put into the board
"""

from __future__ import annotations

import mmap
import sys
import time
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from kernelwright.errors import UsageError
from kernelwright.ops import load_baseline
from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._contents import leading_groups
from kernelwright.referee.contract._desk import Desk
from kernelwright.referee.contract._desk import open_board
from kernelwright.referee.contract._fp64 import private
from kernelwright.referee.contract._tree import Node
from kernelwright.referee.contract._witness import Refused
from kernelwright.referee.contract._witness import Run
from kernelwright.referee.contract._witness import same_bits_as_laid_out
from kernelwright.referee.contract._witness import Testimony
from kernelwright.referee.contract._witness import Witness

_ALIGN = 64


class BoardFullError(Exception):
    """A call that does not fit into the room it was given."""


class Writer:
    """Writes tensors one after the other into a part of a board."""

    def __init__(self, mapping: mmap.mmap, at: int, room: int) -> None:
        self._mapping = mapping
        self._end = at + room
        self._top = at

    def place(self, tensor: Tensor) -> Node:
        """Copy a tensor with its strides; its node."""
        tensor = tensor.detach().resolve_conj().resolve_neg()
        shape, strides = list(tensor.shape), list(tensor.stride())
        at = (self._top + _ALIGN - 1) // _ALIGN * _ALIGN
        node = tree.tensor_node(tree.dtype_name(tensor.dtype), shape, strides, at)
        if at + node["nbytes"] > self._end:
            raise BoardFullError(f"{node['nbytes']} bytes more than there is room for")
        self._top = at + int(node["nbytes"])
        if node["nbytes"]:
            span = tree.span(shape, strides)
            source = torch.as_strided(tensor, (span,), (1,))
            torch.as_strided(tree.tensor_in(self._mapping, node), (span,), (1,), 0).copy_(source)
        return node

    def maybe(self, tensor: Tensor | None) -> Node | None:
        """The node of a tensor, or None for None."""
        return None if tensor is None else self.place(tensor)

    def tree(self, value: object) -> Node:
        """The tree of a value."""
        return tree.encode(value, self.place)


class ReferenceDesk:
    """The operations; what they raise is answered by whoever serves them."""

    def __init__(self, mapping: mmap.mmap) -> None:
        self._mapping = mapping
        self._witness: Witness | None = None

    @property
    def witness(self) -> Witness:
        """The loaded reference."""
        if self._witness is None:
            raise RuntimeError("asked for a reference before one was loaded")
        return self._witness

    def load(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Run the user's file."""
        torch.set_num_threads(1)
        baseline = load_baseline(Path(message["baseline"]), refuse=message["refuse"])
        self._witness = Witness(baseline, int(message["threads"]))
        budget = baseline.budget
        return {
            "workloads": list(baseline.workloads),
            "deterministic": baseline.deterministic,
            "shares": baseline.shares,
            "nonfinite": baseline.nonfinite,
            "module": baseline.module is not None,
            "factor": budget.factor,
            "floor_ulps": {tree.dtype_name(key): value for key, value in budget.floor_ulps.items()},
            "relative_l2": {tree.dtype_name(key): value for key, value in budget.relative_l2.items()},
            "atol": budget.atol,
            "rtol": budget.rtol,
        }

    def describe(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """What a workload's inputs are; the reference runs on them, twice, and on other numbers of rows."""
        witness, workload = self.witness, str(message["workload"])
        seeds = [int(seed) for seed in message["seeds"]]
        call = _plain(workload, seeds[0])
        arguments = witness.inputs(call)
        leaves = tree_flatten(arguments)[0]
        gradient = any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves)
        call["gradient"] = gradient
        started = time.monotonic()
        testimony = witness.testify(call)
        seconds = time.monotonic() - started
        other = tree_flatten(witness.inputs(_plain(workload, seeds[1])))[0]
        again = witness.result(call)
        return {
            "parameters": self._names(arguments),
            "leaves": [_leaf(leaf) for leaf in leaves],
            "mutated": testimony.mutated,
            "gradient": gradient,
            "fixed": all(_same(one, two) for one, two in zip(leaves, other, strict=True)),
            "precision": testimony.precision,
            "shares_input": testimony.shares_input,
            "repeats": _same_run(testimony.peer, again),
            "outputs": [_leaf(out) for out in testimony.peer.tensors()],
            "groups": self._groups(leaves, workload),
            "seconds": seconds,
        }

    def state(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """What a candidate needs to be made as the reference's Model was."""
        writer = Writer(self._mapping, int(message["at"]), int(message["room"]))
        baseline = self.witness.baseline
        state = {} if baseline.module is None else baseline.module.state_dict()
        return {
            "init": [writer.tree(value) for value in baseline.init_inputs],
            "state": {name: writer.place(value) for name, value in state.items()},
        }

    def make(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """One call; `refused` says why the reference does not take it."""
        call = message["call"]
        try:
            testimony = self.witness.testify(call)
        except Refused as error:
            return {"refused": str(error)}
        except UsageError:
            raise
        except Exception as error:
            if not call["steps"]:
                raise
            return {"refused": f"{type(error).__name__}: {error}"[:300]}
        return _written(testimony, Writer(self._mapping, int(message["at"]), int(message["room"])), call)

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """One call with arguments from the board; `refused` says why the reference does not take it."""
        seed = message["seed"]
        arguments = [
            tree.decode(node, lambda one: tree.tensor_in(self._mapping, one), pickles=True)
            for node in message["arguments"]
        ]
        leaves = tree_flatten(arguments)[0]
        if seed is not None:
            for leaf in leaves:
                if isinstance(leaf, Tensor) and leaf.is_floating_point():
                    leaf.requires_grad_(True)
        call = {
            "workload": message["workload"],
            "seed": seed or 0,
            "steps": [{"kind": "given"}],
            "gradient": seed is not None,
            "slack": True,
        }
        try:
            testimony = self.witness.testify(call, private(arguments))
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001 - what the user's code raises is the answer
            return {"refused": f"{type(error).__name__}: {error}"[:300]}
        return _written(testimony, Writer(self._mapping, int(message["at"]), int(message["room"])), call)

    def _names(self, arguments: Sequence[Any]) -> list[str]:
        """A name for each tensor among the arguments, as the user calls them."""
        names = self.witness.baseline.parameters(len(arguments))
        found = []
        for name, argument in zip(names, arguments, strict=True):
            node = tree.encode(argument, lambda tensor: {"t": "tensor"})
            found += [name + path for path in tree.paths_of(node)]
        return found

    def _groups(self, leaves: Sequence[Any], workload: str) -> list[list[int]]:
        """Sets of leaves whose leading dimension the reference lets change."""
        taken = []
        for group in leading_groups(leaves):
            rows = int(leaves[group[0]].shape[0])
            call = _plain(workload, 0)
            call["steps"] = [{"kind": "lead", "rows": rows + 1, "group": group, "seed": 1}]
            try:
                result = self.witness.result(call)
            except Exception:  # noqa: BLE001 - what the reference refuses is not asked of a kernel
                continue
            if any(rows + 1 in out.shape for out in result.tensors()):
                taken.append(group)
                break
        return taken


def _plain(workload: str, seed: int) -> dict[str, Any]:
    return {"workload": workload, "seed": seed, "steps": [], "gradient": False, "slack": False}


def _leaf(value: Any) -> dict[str, Any]:
    if not isinstance(value, Tensor):
        return {"tensor": False}
    return {
        "tensor": True,
        "dtype": str(value.dtype).removeprefix("torch."),
        "floating": value.is_floating_point(),
        "shape": list(value.shape),
        "strides": list(value.stride()),
        "nbytes": value.numel() * value.element_size(),
    }


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(two, Tensor):
        return one.shape == two.shape and one.dtype == two.dtype and same_bits_as_laid_out(one, two)
    return isinstance(one, Tensor) == isinstance(two, Tensor)


def _same_run(one: Run, two: Run) -> float:
    """How far apart two runs on the same inputs are, relative L2; 0 when bit by bit the same."""
    worst = 0.0
    for first, second in zip(one.tensors(), two.tensors(), strict=True):
        if first.shape != second.shape:
            return float("inf")
        if not same_bits_as_laid_out(first, second):
            wide = torch.complex128 if first.is_complex() else torch.float64
            difference = (first.to(wide) - second.to(wide)).abs().nan_to_num_(nan=0.0)
            norm = float(torch.linalg.vector_norm(first.to(wide).nan_to_num(nan=0.0))) or 1.0
            worst = max(worst, float(torch.linalg.vector_norm(difference)) / norm, 1e-300)
    return worst


def _written(testimony: Testimony, writer: Writer, call: Mapping[str, Any]) -> dict[str, Any]:
    leaves = [leaf for leaf in tree_flatten(testimony.arguments)[0] if isinstance(leaf, Tensor)]
    wants = bool(call["gradient"])
    mutated = testimony.mutated
    peer, oracle = testimony.peer, testimony.oracle
    return {
        "arguments": [writer.tree(value) for value in testimony.arguments],
        "wants_gradient": [wants and leaf.requires_grad for leaf in leaves],
        "peer": writer.tree(peer.value),
        "oracle": writer.tree(oracle.value),
        "slack": [writer.maybe(one) for one in testimony.slack],
        "mutated": {
            str(index): {
                "peer": writer.place(peer.leaves[index]),
                "oracle": writer.place(oracle.leaves[index]),
                "slack": writer.maybe(testimony.slack_mutated[index]),
            }
            for index in mutated
        },
        "gradients": [
            None
            if one is None or other is None
            else {"peer": writer.place(one), "oracle": writer.place(other), "slack": writer.maybe(slack)}
            for one, other, slack in zip(
                peer.gradients, oracle.gradients, testimony.slack_gradients, strict=True
            )
        ],
        "grad_outputs": None
        if testimony.grad_outputs is None
        else [writer.maybe(one) for one in testimony.grad_outputs],
        "precision": testimony.precision,
        "shares_input": testimony.shares_input,
    }


def main() -> None:
    """Serve the operations until the judge closes the channel."""
    desk = ReferenceDesk(open_board(sys.argv))
    operations = {
        "load": desk.load,
        "describe": desk.describe,
        "state": desk.state,
        "make": desk.make,
        "answer": desk.answer,
    }
    Desk().serve(operations, lambda: ())
