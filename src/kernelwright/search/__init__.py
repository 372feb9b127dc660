"""What to try next, and what was tried: optimisers and the journal. Knows nothing of kernels."""

from kernelwright.search._annealing import Annealing
from kernelwright.search._annealing import LocalSearch
from kernelwright.search._conformance import check_optimizer
from kernelwright.search._conformance import ConformanceError
from kernelwright.search._genetic import GeneticSearch
from kernelwright.search._hill import HillClimbing
from kernelwright.search._journal import Event
from kernelwright.search._journal import Journal
from kernelwright.search._journal import read_journal
from kernelwright.search._nsga2 import NSGA2
from kernelwright.search._optimizer import Failure
from kernelwright.search._optimizer import Optimizer
from kernelwright.search._optimizer import Proposal
from kernelwright.search._optimizers import make_optimizer
from kernelwright.search._optimizers import OPTIMIZERS
from kernelwright.search._optuna import OptunaSearch
from kernelwright.search._pareto import hypervolume
from kernelwright.search._pymoo import PymooSearch
from kernelwright.search._random import RandomSearch
from kernelwright.search._replay import load_recorded
from kernelwright.search._replay import Recorded
from kernelwright.search._replay import recorded_spaces
from kernelwright.search._replay import ReplayObjective

__all__ = [
    "NSGA2",
    "OPTIMIZERS",
    "Annealing",
    "ConformanceError",
    "Event",
    "Failure",
    "GeneticSearch",
    "HillClimbing",
    "Journal",
    "LocalSearch",
    "Optimizer",
    "OptunaSearch",
    "Proposal",
    "PymooSearch",
    "RandomSearch",
    "Recorded",
    "ReplayObjective",
    "check_optimizer",
    "hypervolume",
    "load_recorded",
    "make_optimizer",
    "read_journal",
    "recorded_spaces",
]
