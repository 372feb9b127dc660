"""What to try next, and what was tried: optimisers and the journal. Knows nothing of kernels."""

from kernelwright.search._annealing import LocalSearch
from kernelwright.search._journal import Event
from kernelwright.search._journal import Journal
from kernelwright.search._journal import read_journal
from kernelwright.search._optimizer import Failure
from kernelwright.search._optimizer import Optimizer
from kernelwright.search._optimizer import Proposal
from kernelwright.search._random import RandomSearch
from kernelwright.search._replay import load_recorded
from kernelwright.search._replay import Recorded
from kernelwright.search._replay import recorded_spaces
from kernelwright.search._replay import ReplayObjective

__all__ = [
    "Event",
    "Failure",
    "Journal",
    "LocalSearch",
    "Optimizer",
    "Proposal",
    "RandomSearch",
    "Recorded",
    "ReplayObjective",
    "load_recorded",
    "read_journal",
    "recorded_spaces",
]
