"""Is it right, and how fast?"""

from kernelwright.referee._child import Patience
from kernelwright.referee._child import RefereeError
from kernelwright.referee._entrant import Describe
from kernelwright.referee._entrant import NativeEntrant
from kernelwright.referee._judge import check
from kernelwright.referee._judge import NativeJudge
from kernelwright.referee._statistics import compare
from kernelwright.referee._statistics import timing
from kernelwright.referee._verdict import Comparison
from kernelwright.referee._verdict import Contest
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Regime
from kernelwright.referee._verdict import Status
from kernelwright.referee._verdict import Timing
from kernelwright.referee._verdict import Verdict

__all__ = [
    "Comparison",
    "Contest",
    "Describe",
    "Mode",
    "NativeEntrant",
    "NativeJudge",
    "Patience",
    "RefereeError",
    "Regime",
    "Status",
    "Timing",
    "Verdict",
    "check",
    "compare",
    "timing",
]
