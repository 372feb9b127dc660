"""How a person sees it: numbers in the terminal, and a run's report as one file."""

from kernelwright.report._format import bandwidth
from kernelwright.report._format import configuration
from kernelwright.report._format import duration
from kernelwright.report._format import elapsed
from kernelwright.report._format import NOT_KNOWN
from kernelwright.report._format import percent
from kernelwright.report._format import ratio
from kernelwright.report._format import size
from kernelwright.report._format import style
from kernelwright.report._format import styled
from kernelwright.report._format import table
from kernelwright.report._format import throughput
from kernelwright.report._search_page import plot
from kernelwright.report._write import locate
from kernelwright.report._write import REPORT
from kernelwright.report._write import RESULTS
from kernelwright.report._write import write

__all__ = [
    "NOT_KNOWN",
    "REPORT",
    "RESULTS",
    "bandwidth",
    "configuration",
    "duration",
    "elapsed",
    "locate",
    "percent",
    "plot",
    "ratio",
    "size",
    "style",
    "styled",
    "table",
    "throughput",
    "write",
]
