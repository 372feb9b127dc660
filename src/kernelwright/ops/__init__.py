"""What is computed: one file an operator."""

from kernelwright.ops._baseline import Baseline
from kernelwright.ops._baseline import load_baseline
from kernelwright.ops._baseline_budget import BaselineBudget
from kernelwright.ops._rms_norm import rms_norm
from kernelwright.ops._rms_norm import RmsNormSpec
from kernelwright.ops._silu_and_mul import silu_and_mul
from kernelwright.ops._silu_and_mul import SiluAndMulSpec
from kernelwright.ops._softmax import softmax
from kernelwright.ops._softmax import SoftmaxSpec
from kernelwright.ops._spec import Cost
from kernelwright.ops._spec import dtype_name
from kernelwright.ops._spec import DTYPES
from kernelwright.ops._spec import ErrorBudget
from kernelwright.ops._spec import OperatorSpec
from kernelwright.ops._spec import parse_dtype
from kernelwright.ops._spec import Workload

__all__ = [
    "DTYPES",
    "Baseline",
    "BaselineBudget",
    "Cost",
    "ErrorBudget",
    "OperatorSpec",
    "RmsNormSpec",
    "SiluAndMulSpec",
    "SoftmaxSpec",
    "Workload",
    "dtype_name",
    "load_baseline",
    "parse_dtype",
    "rms_norm",
    "silu_and_mul",
    "softmax",
]
