"""From what a person asked for to what a run takes: operator, workloads, dtype, backends; checked by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelwright import dispatch
from kernelwright import winners
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.ops import dtype_name
from kernelwright.ops import OperatorSpec
from kernelwright.ops import parse_dtype
from kernelwright.ops import Workload
from kernelwright.space import Configuration
from kernelwright.tuning._pipeline import Pipeline

DEFAULT_DTYPE = "bf16"


@dataclass(frozen=True)
class Plan:
    """What to tune, resolved."""

    operator: str
    spec: OperatorSpec
    dtype: str
    workloads: tuple[Workload, ...]
    backends: tuple[str, ...]


def make_plan(
    operator: str, workloads: Sequence[str] | None, dtype: str | None, backends: Sequence[str] | None
) -> Plan:
    """Resolve the names. Raises UnknownNameError with the nearest, UsageError for what cannot be tuned."""
    if operator not in dispatch.operators():
        raise UnknownNameError("operator", operator, dispatch.operators())
    spec = dispatch.spec(operator)
    if spec is None:
        raise UsageError(
            f"operator {operator!r} has no spec: without a reference nothing about it can be checked"
        )
    kind: torch.dtype = parse_dtype(dtype or DEFAULT_DTYPE)
    if kind not in spec.dtypes:
        known = [dtype_name(one) for one in spec.dtypes]
        raise UnknownNameError(f"dtype of {operator}", dtype_name(kind), known)
    if workloads:
        parsed = [spec.parse_workload(text, kind) for text in workloads]
        chosen = tuple({workload.name: workload for workload in parsed}.values())
    else:
        chosen = spec.workloads(kind)
    empty = [one.name for one in chosen if 0 in one.sizes.values()]
    if empty:
        raise UsageError(f"workload {empty[0]} is empty: there is nothing to time")
    known_backends = [one.backend for one in dispatch.implementations(operator)]
    for name in backends or ():
        if name not in known_backends:
            raise UnknownNameError(f"backend of {operator}", name, known_backends)
    return Plan(operator, spec, dtype_name(kind), chosen, tuple(dict.fromkeys(backends or known_backends)))


def stored_winners(plan: Plan, pipeline: Pipeline) -> tuple[dict[str, tuple[str, Configuration]], list[str]]:
    """The winners stored for the plan's buckets that still hold, and why others do not."""
    spaces = {entry.implementation: entry.space for entry in pipeline.entries}
    found: dict[str, tuple[str, Configuration]] = {}
    notes: list[str] = []
    for workload in plan.workloads:
        record, remarks = winners.lookup(plan.operator, workload.bucket)
        notes += [remark for remark in remarks if remark not in notes]
        if record is None or workload.bucket in found:
            continue
        where = f"the stored winner of {workload.bucket} is left aside"
        if record.implementation not in spaces:
            notes.append(f"{where}: {record.implementation!r} does not take part")
            continue
        configuration = dict(record.configuration)
        outdated = record.outdated(pipeline.provenance(record.implementation))
        if outdated is not None:
            notes.append(f"{where}: {outdated}")
        elif not spaces[record.implementation].contains(configuration):
            notes.append(f"{where}: its configuration is outside today's space")
        else:
            found[workload.bucket] = (record.implementation, {**configuration})
    return found, list(dict.fromkeys(notes))
