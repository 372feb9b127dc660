"""The child of a bench: torch and one contestant, our operator or a peer, called from Python.

It times and judges the blocks that it is asked for and sends raw times back; who is asked when, statistics
and verdicts are the parent's. Forked from a template, with a channel; see `Session` for the messages.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kernelwright.errors import KernelwrightError
from kernelwright.errors import UnsupportedCallError
from kernelwright.errors import UsageError
from kernelwright.files import as_plain
from kernelwright.ops import OperatorSpec
from kernelwright.ops import parse_dtype
from kernelwright.ops import Workload
from kernelwright.process import connect
from kernelwright.referee._oracle import expect
from kernelwright.referee._oracle import Expectation
from kernelwright.referee._oracle import same_bits
from kernelwright.referee._peers import OURS
from kernelwright.referee._peers import ours
from kernelwright.referee._peers import peer
from kernelwright.referee._peers import PeerUnsupportedError
from kernelwright.referee._peers import Recipe
from kernelwright.referee._python_clock import calibrate
from kernelwright.referee._python_clock import Contestant
from kernelwright.referee._python_clock import without_garbage
from kernelwright.referee._python_judge import fault
from kernelwright.referee._python_judge import loosened
from kernelwright.referee._python_judge import misplaced
from kernelwright.referee._python_rotation import Layout
from kernelwright.referee._python_rotation import Plan
from kernelwright.referee._python_rotation import plan_ring
from kernelwright.referee._python_rotation import Pool
from kernelwright.referee._python_rotation import Ring
from kernelwright.referee._python_rotation import SLOTS_EACH
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Regime
from kernelwright.referee._verdict import Status

#: A peer rounds where it likes; its output shows that it computes the operator, not how well.
_PEER_SLACK = 8.0
_LARGE_ELEMENTS = 1 << 22


@dataclass
class _Side:
    """One contestant of a workload: its recipe, or why it has none."""

    name: str
    recipe: Recipe | None
    status: Status = Status.PASSED
    reason: str = ""


class _Checker:
    """Judges outputs of timed calls: the last one of blocks 1, 2, 4, 8, … of a contestant."""

    def __init__(
        self, ring: Ring, expected: list[Expectation], inputs: list[dict[str, Tensor]], *, given_out: bool
    ) -> None:
        self.checked = 0
        self.problem = ""
        self._ring = ring
        self._expected = expected
        self._inputs = inputs
        self._given_out = given_out
        self._blocks = 0
        self._most = 3 if expected[0].peer.numel() > _LARGE_ELEMENTS else 12

    def before(self) -> None:
        self._blocks += 1
        if self._due():
            self._ring.poison_last()

    def after(self, result: Any) -> None:
        if self._due():
            self.check(result)
            self.checked += 1

    def _due(self) -> bool:
        return self.checked < self._most and self._blocks & (self._blocks - 1) == 0

    def check(self, result: Any) -> None:
        number = self._ring.last_content
        problem = fault(result, self._expected[number])
        if not problem:
            given = self._ring.last_output() if self._given_out else None
            problem = misplaced(result, given, self._ring.last_inputs())
        # To compare inputs is as much work as some operators; at the first and the last look it is done.
        inputs = self._ring.last_inputs() if self.checked in (0, self._most - 1) else {}
        for name, view in inputs.items():
            if not problem and not same_bits(view, self._inputs[number][name]):
                problem = f"the call changed its input {name}"
        self.problem = self.problem or problem or ""


class Session:
    """One contestant of one operator, dtype and regime; workloads come one after the other.

    Messages, each answered by one: `setup`, then for each row `begin` (inputs, warm-up, block sizes), any
    number of `block`s, `finish` (the judgement). All contestants of a bench map the same ring.
    """

    def __init__(self) -> None:
        self._spec: OperatorSpec | None = None
        self._prepared: Workload | None = None
        self._inputs: list[dict[str, Any]] = []
        self._expected: list[Expectation] = []
        self._side = _Side("", None)
        self._ring: Ring | None = None
        self._contestant: Contestant | None = None
        self._checker: _Checker | None = None

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Do what the message asks and describe the outcome."""
        ask = {"setup": self._setup, "begin": self._begin, "block": self._block, "finish": self._finish}
        with torch.inference_mode():
            return ask[message["do"]](message)

    def _setup(self, message: Mapping[str, Any]) -> dict[str, Any]:
        sys.path += [folder for folder in message["path"] if folder not in sys.path]
        from kernelwright import dispatch

        self._spec = dispatch.spec(message["operator"])
        self._name = str(message["side"])
        self._dtype = parse_dtype(message["dtype"])
        self._regime = Regime(message["regime"])
        self._backend = message["backend"]
        self._contestants = int(message["contestants"])
        self._pool = Pool(message["ring"])
        self._cold = int(message["cold_bytes"])
        self._llc = int(message["llc_bytes"])
        self._available = int(message["available_bytes"])
        self._seed = int(message["seed"])
        if message["threads"]:
            torch.set_num_threads(message["threads"])
        return {"torch": torch.__version__, "threads": torch.get_num_threads()}

    def _begin(self, message: Mapping[str, Any]) -> dict[str, Any]:
        spec = self._spec
        if spec is None:
            raise RuntimeError("begin came before setup")
        workload = spec.workload(*message["sizes"], dtype=self._dtype)
        mode = Mode(message["mode"])
        self._contestant = self._checker = None
        try:
            # Asked before any input is made, from the least that a call can take.
            self._plan(spec.cost(workload).bytes, mode)
            if workload != self._prepared:
                self._prepare(spec, workload)
            layout = self._layout(spec)
            plan = self._plan(layout.slot_bytes, mode)
        except UsageError as error:
            return {"status": Status.UNSUPPORTED, "reason": str(error), "side": None}
        contents = [{name: arguments[name] for name in spec.tensors} for arguments in self._inputs]
        self._ring = Ring(
            self._pool,
            layout,
            contents,
            "out",
            slots=plan.slots,
            warm=mode is Mode.WARM,
            seed=self._seed,
            fill=bool(message["fill"]),
        )
        self._side = self._recipe(spec)
        if self._side.recipe is not None:
            self._enter(self._side, self._ring, contents)
        return {
            "status": Status.PASSED,
            "reason": "",
            "side": self._described(),
            "rotation": plan.as_dict(),
            "served_by": self._served_by(spec) if self._name == OURS else {},
        }

    def _plan(self, footprint: int, mode: Mode) -> Plan:
        return plan_ring(
            footprint,
            self._contestants,
            wanted_bytes=self._cold if mode is Mode.COLD else 0,
            llc_bytes=self._llc,
            available_bytes=self._available,
        )

    def _prepare(self, spec: OperatorSpec, workload: Workload) -> None:
        """Inputs and oracles of a workload, for both modes; the same seed gives every child the same."""
        self._prepared = None
        generator = torch.Generator().manual_seed(self._seed)
        first = spec.inputs(workload, generator)
        large = max(value.numel() for name, value in first.items() if name in spec.tensors) > _LARGE_ELEMENTS
        self._inputs = [first, *(spec.inputs(workload, generator) for _ in range(0 if large else 3))]
        expected = [expect(spec, arguments) for arguments in self._inputs]
        slack = 1.0 if self._name == OURS else _PEER_SLACK
        self._expected = [loosened(one, slack) for one in expected]
        self._prepared = workload

    def _recipe(self, spec: OperatorSpec) -> _Side:
        first = self._inputs[0]
        if self._name == OURS:
            return _Side(OURS, ours(spec, first, self._backend))
        try:
            return _Side(self._name, peer(self._name, spec, first, self._regime))
        except PeerUnsupportedError as error:
            return _Side(self._name, None, Status.UNSUPPORTED, str(error))

    def _layout(self, spec: OperatorSpec) -> Layout:
        tensors = {name: self._inputs[0][name] for name in spec.tensors}
        return Layout({**tensors, "out": self._output()})

    def _output(self) -> Tensor:
        """A tensor like the output of a call."""
        return torch.empty(self._expected[0].shape, dtype=self._dtype)

    def _enter(self, side: _Side, ring: Ring, contents: list[dict[str, Tensor]]) -> None:
        """Warm the contestant up and look at its first outputs; a failure is its status."""
        assert side.recipe is not None
        given_out = side.recipe.form(self._regime) == "out="
        checker = _Checker(ring, self._expected, contents, given_out=given_out)
        contestant = Contestant(
            side.name,
            side.recipe.call(self._regime),
            ring.layout.names,
            side.recipe.namespace,
            ring.take,
            checker,
            lead=SLOTS_EACH if ring.warm else 1,
        )
        try:
            calibrate([contestant])
        except UnsupportedCallError as error:
            side.recipe, side.status, side.reason = None, Status.UNSUPPORTED, str(error)
        except Exception as error:  # noqa: BLE001 - whatever a contestant raises is what is said of it
            failed = Status.CRASHED if side.name == OURS else Status.UNSUPPORTED
            side.recipe, side.status, side.reason = None, failed, _said(error)
        else:
            self._checker = checker
            if checker.problem:
                side.status, side.reason = Status.WRONG, checker.problem
            else:
                self._contestant = contestant

    def _described(self) -> dict[str, Any]:
        side, contestant = self._side, self._contestant
        return {
            "name": side.name,
            "status": side.status,
            "reason": side.reason,
            "form": side.recipe.form(self._regime) if side.recipe else "",
            "calls": contestant.calls if contestant else 0,
            "lead": contestant.block_lead if contestant else 0,
        }

    def _served_by(self, spec: OperatorSpec) -> dict[str, Any]:
        from kernelwright import dispatch

        out = None
        if self._regime is Regime.PREALLOCATED:
            out = self._output()
        try:
            explanation = dispatch.explain(spec.name, **self._inputs[0], out=out, backend=self._backend)
        except KernelwrightError as error:
            return {"error": str(error)}
        fields = ("implementation", "backend", "tier", "because", "configuration")
        return {name: as_plain(getattr(explanation, name)) for name in fields}

    def _block(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """One block, from the given place of the ring's order; how long the next one should be, and what this
        one took of the ring."""
        contestant, ring = self._contestant, self._ring
        if contestant is None or ring is None:
            raise RuntimeError("block came before begin, or to a contestant that takes no part")
        calls, lead = int(message["calls"]), int(message["lead"])
        ring.seek(int(message["place"]))
        with without_garbage(collect=False):
            ns = contestant.run(calls, lead)
        return {
            "ns": ns,
            "calls": contestant.calls,
            "lead": contestant.block_lead,
            "used": ring.used(calls + lead),
        }

    def _finish(self, message: Mapping[str, Any]) -> dict[str, Any]:
        del message
        checker = self._checker
        if checker is None:
            return {"problem": "", "checked": 0}
        return {"problem": checker.problem, "checked": checker.checked}


def _said(error: BaseException) -> str:
    text = str(error).strip()
    first = text.splitlines()[0] if text else ""
    return f"{type(error).__name__}: {first}"


def main() -> None:
    """Answer messages until the parent closes the channel."""
    channel = connect()
    session = Session()
    while (message := channel.receive()) is not None:
        try:
            reply = {"ok": True, **session.answer(message)}
        except KernelwrightError as error:
            reply = {"ok": False, "error": str(error)}
        except Exception as error:  # noqa: BLE001 - told to the parent, which ends this child
            reply = {"ok": False, "error": _said(error), "traceback": traceback.format_exc()}
        channel.send(reply)


if __name__ == "__main__":
    main()
