"""What a run tells whoever watches it, as it happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from kernelwright.tuning._record import EvaluationRecord
from kernelwright.tuning._record import RunRecord
from kernelwright.tuning._record import WorkloadResult


class Phase(StrEnum):
    """What the run is doing."""

    BUILDING = "building"
    SCREENING = "screening"
    FINALS = "racing finalists"
    CONFIRMING = "confirming"
    PEERS = "racing torch"
    FINISHED = "finished"


@dataclass(frozen=True)
class RunOpened:
    """The run has a folder and can be resumed from now on."""

    run: RunRecord


@dataclass(frozen=True)
class PhaseChanged:
    """The run goes over to something else."""

    run: RunRecord
    phase: Phase


@dataclass(frozen=True)
class EvaluationFinished:
    """A candidate has its verdict."""

    run: RunRecord
    evaluation: EvaluationRecord


@dataclass(frozen=True)
class BestChanged:
    """A candidate screened faster on a workload than all before it. Not proven yet."""

    run: RunRecord
    workload: str
    evaluation: EvaluationRecord


@dataclass(frozen=True)
class WorkloadDecided:
    """A workload has its result."""

    run: RunRecord
    result: WorkloadResult


@dataclass(frozen=True)
class Noted:
    """Something worth saying."""

    run: RunRecord
    text: str


RunEvent: TypeAlias = RunOpened | PhaseChanged | EvaluationFinished | BestChanged | WorkloadDecided | Noted
Listener: TypeAlias = Callable[[RunEvent], None]
