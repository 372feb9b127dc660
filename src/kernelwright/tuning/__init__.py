"""The main job: operator and machine in, proven winner out."""

from kernelwright.tuning._record import EvaluationRecord
from kernelwright.tuning._record import load_run
from kernelwright.tuning._record import run_ids
from kernelwright.tuning._record import RunRecord
from kernelwright.tuning._record import WorkloadResult

__all__ = [
    "EvaluationRecord",
    "RunRecord",
    "WorkloadResult",
    "load_run",
    "run_ids",
]
