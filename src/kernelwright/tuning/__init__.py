"""The main job: operator and machine in, proven winner out."""

from kernelwright.tuning._events import BestChanged
from kernelwright.tuning._events import EvaluationFinished
from kernelwright.tuning._events import Listener
from kernelwright.tuning._events import Noted
from kernelwright.tuning._events import Phase
from kernelwright.tuning._events import PhaseChanged
from kernelwright.tuning._events import RunEvent
from kernelwright.tuning._events import RunOpened
from kernelwright.tuning._events import WorkloadDecided
from kernelwright.tuning._pipeline import Built
from kernelwright.tuning._pipeline import Candidate
from kernelwright.tuning._pipeline import Entry
from kernelwright.tuning._pipeline import Pipeline
from kernelwright.tuning._pipeline import Unbuilt
from kernelwright.tuning._plan import Plan
from kernelwright.tuning._record import EvaluationRecord
from kernelwright.tuning._record import load_run
from kernelwright.tuning._record import run_ids
from kernelwright.tuning._record import RunRecord
from kernelwright.tuning._record import WorkloadResult
from kernelwright.tuning._tune import tune

__all__ = [
    "BestChanged",
    "Built",
    "Candidate",
    "Entry",
    "EvaluationFinished",
    "EvaluationRecord",
    "Listener",
    "Noted",
    "Phase",
    "PhaseChanged",
    "Pipeline",
    "Plan",
    "RunEvent",
    "RunOpened",
    "RunRecord",
    "Unbuilt",
    "WorkloadDecided",
    "WorkloadResult",
    "load_run",
    "run_ids",
    "tune",
]
