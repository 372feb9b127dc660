"""Is it right, and how fast?"""

from kernelwright.referee._bench import bench
from kernelwright.referee._bench_result import BenchReport
from kernelwright.referee._bench_result import BenchRow
from kernelwright.referee._child import Patience
from kernelwright.referee._child import RefereeError
from kernelwright.referee._confirm import confirm
from kernelwright.referee._entrant import Describe
from kernelwright.referee._entrant import NativeEntrant
from kernelwright.referee._judge import check
from kernelwright.referee._judge import NativeJudge
from kernelwright.referee._judge import race
from kernelwright.referee._judge import time_native
from kernelwright.referee._perf_report import assert_within_budget
from kernelwright.referee._perf_report import Benchmark
from kernelwright.referee._perf_report import do_bench
from kernelwright.referee._perf_report import gigabytes_per_second
from kernelwright.referee._perf_report import perf_report
from kernelwright.referee._perf_report import race_callables
from kernelwright.referee._perf_report import teraflops
from kernelwright.referee._race import RaceResult
from kernelwright.referee._statistics import compare
from kernelwright.referee._statistics import timing
from kernelwright.referee._verdict import Comparison
from kernelwright.referee._verdict import Contest
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Regime
from kernelwright.referee._verdict import Status
from kernelwright.referee._verdict import Timing
from kernelwright.referee._verdict import Verdict
from kernelwright.referee.contract._judge import ContractJudge
from kernelwright.referee.contract._judge import ContractTarget

__all__ = [
    "BenchReport",
    "BenchRow",
    "Benchmark",
    "Comparison",
    "Contest",
    "ContractJudge",
    "ContractTarget",
    "Describe",
    "Mode",
    "NativeEntrant",
    "NativeJudge",
    "Patience",
    "RaceResult",
    "RefereeError",
    "Regime",
    "Status",
    "Timing",
    "Verdict",
    "assert_within_budget",
    "bench",
    "check",
    "compare",
    "confirm",
    "do_bench",
    "gigabytes_per_second",
    "perf_report",
    "race",
    "race_callables",
    "teraflops",
    "time_native",
    "timing",
]
