"""Right or not: all calls of a check, made in the child and judged here."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kernelwright.referee import _layout as layout
from kernelwright.referee._cases import Case
from kernelwright.referee._child import KernelFailure
from kernelwright.referee._child import MeasuringChild
from kernelwright.referee._child import Patience
from kernelwright.referee._entrant import NativeEntrant
from kernelwright.referee._oracle import count_unwritten
from kernelwright.referee._oracle import INTEGERS
from kernelwright.referee._oracle import same_bits
from kernelwright.referee._verdict import Status
from kernelwright.referee._verdict import Verdict

KERNEL_OK, UNSUPPORTED_DTYPE, UNSUPPORTED_LAYOUT, BAD_ARGUMENT, KERNEL_OUT_OF_MEMORY, ABI_MISMATCH = range(6)
_ERRORS = {
    UNSUPPORTED_DTYPE: (Status.UNSUPPORTED, "refuses the dtype"),
    UNSUPPORTED_LAYOUT: (Status.UNSUPPORTED, "refuses the layout"),
    BAD_ARGUMENT: (Status.WRONG, "calls a valid argument bad"),
    KERNEL_OUT_OF_MEMORY: (Status.OUT_OF_MEMORY, "says that it got no memory"),
    ABI_MISMATCH: (Status.UNSUPPORTED, "was built for another version of the ABI"),
}
_FLUSH_TO_ZERO, _DENORMALS_ARE_ZERO = 0x8000, 0x0040


def kernel_error(status: int) -> tuple[Status, str]:
    """Status and words for an error code that a kernel returned."""
    return _ERRORS.get(status, (Status.WRONG, f"returned {status}, which is no kw_status"))


@dataclass
class _Place:
    """Where one case's results lie in the board."""

    case: Case
    outputs: list[int]
    nbytes: int


class CheckRun:
    """One check of one entrant: its table of calls, and the verdict on what came of them."""

    def __init__(self, child: MeasuringChild, cases: Sequence[Case], threads: int) -> None:
        self._child = child
        self._threads = threads
        self._cases = cases
        self._places: list[_Place] = []

    def run(self, entrant: NativeEntrant, patience: Patience, evidence: dict[str, Any]) -> Verdict:
        """Make all calls and judge them. Never raises for what the kernel does."""
        self._child.start()
        store, board = self._child.store, self._child.board
        store_top, board_top = store.top, board.top
        try:
            table, results_at = self._write_table()
            evidence = {**evidence, "guards": dict(self._child.guards)}
            failure = self._make_calls(entrant, table, results_at, patience)
            if failure is not None and not failure.progress:
                return Verdict(failure.status, failure.reason, evidence=evidence)
            results = board.records(layout.CaseResult, results_at, len(self._cases))
            verdict = self._judge(results, failure, evidence)
            del results
            return verdict
        finally:
            store.release(store_top)
            board.release(board_top)

    def _write_table(self) -> tuple[int, int]:
        store, board = self._child.store, self._child.board
        count = len(self._cases)
        results_at = board.take(count * ctypes.sizeof(layout.CaseResult))
        table = store.take(count * ctypes.sizeof(layout.CaseEntry))
        entries = store.records(layout.CaseEntry, table, count)
        for index, case in enumerate(self._cases):
            entry = entries[index]
            fill_call(entry.call, case.call.block)
            entry.buffers = len(case.call.buffers)
            entry.runs = case.runs
            # Two runs alike, which must agree; the third with the guards on the other side and one thread.
            sides = (layout.AT_START, layout.AT_END) if index % 2 == 0 else (layout.AT_END, layout.AT_START)
            outputs: list[int] = []
            nbytes = 0
            for run in range(case.runs):
                entry.placement[run] = sides[run == 2]
                entry.threads[run] = 1 if run == 2 else 0
                entry.poison[run] = layout.POISON[run]
                entry.null_if_empty[run] = int(run != 1)
            for position, buffer in enumerate(case.call.buffers):
                place = entry.buffer[position]
                place.nbytes = buffer.nbytes
                place.input = layout.NONE if buffer.output else case.inputs[buffer.name]
                for run in range(layout.RUNS):
                    place.output[run] = layout.NONE
                    if buffer.output and run < case.runs:
                        place.output[run] = board.take(buffer.nbytes)
                        outputs.append(place.output[run])
                        nbytes = buffer.nbytes
            self._places.append(_Place(case, outputs, nbytes))
        return table, results_at

    def _make_calls(
        self, entrant: NativeEntrant, table: int, results_at: int, patience: Patience
    ) -> KernelFailure | None:
        """Make the calls, in a child that no other kernel has used."""
        try:
            answer = self._child.request(
                {
                    "op": "check",
                    "cases": table,
                    "results": results_at,
                    "count": len(self._cases),
                    "kernel": self._child.load(entrant, patience),
                    "threads": self._threads,
                },
                patience,
            )
        except KernelFailure as failure:
            return failure
        if answer.get("rc") != 0:
            return KernelFailure(Status.OUT_OF_MEMORY, "left no memory for the buffers of its calls", {})
        words = self._child.tampered()
        return None if words is None else KernelFailure(Status.CHEATED, words, {})

    def _judge(self, results: Any, failure: KernelFailure | None, evidence: dict[str, Any]) -> Verdict:
        refused: list[str] = []
        runs = 0
        control: int | None = None
        for index, place in enumerate(self._places):
            result = results[index]
            if failure is not None and failure.progress.get("phase") != layout.CHECKING:
                break
            if failure is not None and index > failure.progress["index"]:
                break
            # What the child wrote is taken for data: it can be any number.
            for run in range(min(max(int(result.runs_done), 0), place.case.runs)):
                runs += 1
                status = result.status[run]
                if status == UNSUPPORTED_LAYOUT and place.case.may_refuse:
                    refused.append(place.case.title)
                    break
                fault = self._fault(place, result, run)
                if fault is not None:
                    return Verdict(
                        fault[0], f"{place.case.title}: {fault[1]}", evidence={**evidence, "runs": runs}
                    )
                control = int(result.float_control[run])
        evidence = {**evidence, "cases": len(self._places), "runs": runs, "refused": refused}
        if control is not None:
            evidence["flush_to_zero"] = bool(control & _FLUSH_TO_ZERO)
            evidence["denormals_are_zero"] = bool(control & _DENORMALS_ARE_ZERO)
        if failure is not None:
            return Verdict(failure.status, self._death(failure), evidence=evidence)
        return Verdict(
            Status.PASSED, f"right in {runs} calls of {len(self._places)} cases", evidence=evidence
        )

    def _fault(self, place: _Place, result: Any, run: int) -> tuple[Status, str] | None:
        case = place.case
        buffers = case.call.buffers
        if result.written_outside[run]:
            name = _first(buffers, result.written_outside[run])
            return Status.WRONG, f"wrote outside of buffer {_spot(name, result.outside_at[run])}"
        if result.inputs_changed[run]:
            return Status.WRONG, f"changed its input {_first(buffers, result.inputs_changed[run]).name}"
        if result.block_changed[run]:
            return Status.WRONG, "changed its call block, which is shared between calls"
        if result.status[run] != KERNEL_OK:
            status, words = kernel_error(result.status[run])
            return status, words
        if result.float_control[run] != result.float_control_before:
            return Status.WRONG, _changed_controls(result.float_control_before, result.float_control[run])
        output = self._output(place, run)
        text = case.expectation.fault(output, unwritten=layout.POISON[run])
        if text is None and run != 1:
            text = self._gaps(place, run)
        if run == 1:
            first = self._output(place, 0)
            if not same_bits(first, output):
                missing = count_unwritten(output, layout.POISON[run])
                if missing:
                    return Status.WRONG, f"called again with the same addresses, {missing}"
                count = int((first != output).sum())
                return Status.NONDETERMINISTIC, (
                    f"the same call on the same data gave {count} of {output.numel()} other elements"
                    + (f"; {text}" if text else "")
                )
        if text is not None:
            return Status.WRONG, text + (" (on one thread)" if run == 2 else "")
        return None

    def _output(self, place: _Place, run: int) -> Tensor:
        case = place.case
        flat = self._child.board.view(place.outputs[run], place.nbytes, case.dtype)
        return torch.as_strided(flat, case.shape, case.strides) if flat.numel() else flat.reshape(case.shape)

    def _gaps(self, place: _Place, run: int) -> str | None:
        """A write between the rows of a strided output."""
        case = place.case
        size = case.dtype.itemsize
        if place.nbytes == case.expectation.elements * size:
            return None
        raw = self._child.board.view(place.outputs[run], place.nbytes, torch.uint8)
        raw_elements = raw.view(INTEGERS[size])
        inside = torch.zeros(raw_elements.shape, dtype=torch.bool)
        torch.as_strided(inside, case.shape, case.strides).fill_(True)
        poison = torch.full_like(raw, layout.POISON[run]).view(INTEGERS[size])
        changed = int(((raw_elements != poison) & ~inside).sum())
        return f"wrote {changed} elements between the rows of its output" if changed else None

    def _death(self, failure: KernelFailure) -> str:
        progress = failure.progress
        if progress.get("phase") == layout.LOADING:
            return f"{failure.reason} while its library was loaded"
        if progress.get("phase") != layout.CHECKING or not 0 <= progress["index"] < len(self._places):
            return f"{failure.reason} outside of any call"
        case = self._places[progress["index"]].case
        text = f"{case.title}: {failure.reason} in run {progress['run'] + 1}"
        if progress["faults"] and 0 <= progress["fault_buffer"] < len(case.call.buffers):
            buffer = case.call.buffers[progress["fault_buffer"]]
            text += f", reading or writing outside of buffer {_spot(buffer, progress['fault_at'])}"
        return text


def fill_call(target: Any, block: bytes) -> None:
    """Copy a `kw_call`. Raises ValueError when it has another size."""
    if len(block) != layout.CALL_BYTES:
        raise ValueError(f"a kw_call has {layout.CALL_BYTES} bytes; got {len(block)}")
    target[:] = block


def _first(buffers: Sequence[Any], mask: int) -> Any:
    return next(buffer for position, buffer in enumerate(buffers) if mask >> position & 1)


def _spot(buffer: Any, at: int) -> str:
    if at < 0:
        return f"{buffer.name} ({-at} bytes before its start)"
    return f"{buffer.name} ({at - buffer.nbytes} bytes past its end of {buffer.nbytes})"


def _changed_controls(before: int, after: int) -> str:
    changed = [
        name
        for name, bit in (("flush-to-zero", _FLUSH_TO_ZERO), ("denormals-are-zero", _DENORMALS_ARE_ZERO))
        if (before ^ after) & bit
    ]
    what = " and ".join(changed) or "rounding or exceptions"
    return f"left the floating-point controls changed ({what}: {before:#x} to {after:#x})"
