"""How a person sees it: numbers in the terminal, and a run's report as one file."""

from kernelwright.report._format import bandwidth
from kernelwright.report._format import configuration
from kernelwright.report._format import duration
from kernelwright.report._format import elapsed
from kernelwright.report._format import geometric_mean
from kernelwright.report._format import NOT_KNOWN
from kernelwright.report._format import percent
from kernelwright.report._format import ratio
from kernelwright.report._format import size
from kernelwright.report._format import style
from kernelwright.report._format import styled
from kernelwright.report._format import table
from kernelwright.report._format import throughput

__all__ = [
    "NOT_KNOWN",
    "bandwidth",
    "configuration",
    "duration",
    "elapsed",
    "geometric_mean",
    "percent",
    "ratio",
    "size",
    "style",
    "styled",
    "table",
    "throughput",
]
