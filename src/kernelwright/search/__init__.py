"""What to try next, and what was tried: optimisers and the journal. Knows nothing of kernels."""

from kernelwright.search._journal import Event
from kernelwright.search._journal import Journal
from kernelwright.search._journal import read_journal

__all__ = [
    "Event",
    "Journal",
    "read_journal",
]
