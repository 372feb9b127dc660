"""What to try next, and what was tried: optimisers and the journal. Knows nothing of kernels."""

from kernelwright.search._annealing import Annealing
from kernelwright.search._annealing import LocalSearch
from kernelwright.search._async import AsyncWorker
from kernelwright.search._configuration import SearchConfiguration
from kernelwright.search._conformance import check_optimizer
from kernelwright.search._conformance import ConformanceError
from kernelwright.search._diagnose import diagnose
from kernelwright.search._diagnose import Finding
from kernelwright.search._evaluation import BASELINE_CONFIG
from kernelwright.search._evaluation import Evaluation
from kernelwright.search._evaluation import INVALID_SCORE
from kernelwright.search._genetic import GeneticSearch
from kernelwright.search._hill import HillClimbing
from kernelwright.search._importance import Importance
from kernelwright.search._importance import Importances
from kernelwright.search._importance import parameter_importance
from kernelwright.search._iso import IsoMultiProcessWorker
from kernelwright.search._journal import Event
from kernelwright.search._journal import Journal
from kernelwright.search._journal import read_journal
from kernelwright.search._lanes import Device
from kernelwright.search._lanes import Lanes
from kernelwright.search._loguru import LoguruTracker
from kernelwright.search._minimize import Ablation
from kernelwright.search._minimize import minimize_settings
from kernelwright.search._minimize import Minimized
from kernelwright.search._mlflow import MLflowTracker
from kernelwright.search._nsga2 import NSGA2
from kernelwright.search._objective import ObjectiveError
from kernelwright.search._optimizer import Failure
from kernelwright.search._optimizer import Optimizer
from kernelwright.search._optimizer import Proposal
from kernelwright.search._optimizers import make_optimizer
from kernelwright.search._optimizers import OPTIMIZERS
from kernelwright.search._optuna import OptunaSearch
from kernelwright.search._pareto import hypervolume
from kernelwright.search._pool import MultiProcessWorker
from kernelwright.search._pymoo import PymooSearch
from kernelwright.search._random import RandomSearch
from kernelwright.search._ray import RayWorker
from kernelwright.search._remedies import remedy
from kernelwright.search._replay import load_recorded
from kernelwright.search._replay import Recorded
from kernelwright.search._replay import recorded_spaces
from kernelwright.search._replay import ReplayObjective
from kernelwright.search._result import SearchResult
from kernelwright.search._search import Search
from kernelwright.search._serial import SerialWorker
from kernelwright.search._stages import Skip
from kernelwright.search._stages import Staged
from kernelwright.search._stages import StageFailure
from kernelwright.search._store import read_run
from kernelwright.search._store import read_runs
from kernelwright.search._store import Run
from kernelwright.search._store import RunInfo
from kernelwright.search._store import Store
from kernelwright.search._through import Through
from kernelwright.search._tracker import DisabledTracker
from kernelwright.search._tracker import Guarded
from kernelwright.search._tracker import make_tracker
from kernelwright.search._tracker import Tracker
from kernelwright.search._worker import Task
from kernelwright.search._worker import TaskResult
from kernelwright.search._worker import Worker

__all__ = [
    "BASELINE_CONFIG",
    "INVALID_SCORE",
    "NSGA2",
    "OPTIMIZERS",
    "Ablation",
    "Annealing",
    "AsyncWorker",
    "ConformanceError",
    "Device",
    "DisabledTracker",
    "Evaluation",
    "Event",
    "Failure",
    "Finding",
    "GeneticSearch",
    "Guarded",
    "HillClimbing",
    "Importance",
    "Importances",
    "IsoMultiProcessWorker",
    "Journal",
    "Lanes",
    "LocalSearch",
    "LoguruTracker",
    "MLflowTracker",
    "Minimized",
    "MultiProcessWorker",
    "ObjectiveError",
    "Optimizer",
    "OptunaSearch",
    "Proposal",
    "PymooSearch",
    "RandomSearch",
    "RayWorker",
    "Recorded",
    "ReplayObjective",
    "Run",
    "RunInfo",
    "Search",
    "SearchConfiguration",
    "SearchResult",
    "SerialWorker",
    "Skip",
    "StageFailure",
    "Staged",
    "Store",
    "Task",
    "TaskResult",
    "Through",
    "Tracker",
    "Worker",
    "check_optimizer",
    "diagnose",
    "hypervolume",
    "load_recorded",
    "make_optimizer",
    "make_tracker",
    "minimize_settings",
    "parameter_importance",
    "read_journal",
    "read_run",
    "read_runs",
    "recorded_spaces",
    "remedy",
]
