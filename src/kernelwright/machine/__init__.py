"""Where are we? The processor as the operating system enables it, caches, memory, compilers, ceilings."""

from kernelwright.machine._benchmark_mode import BenchmarkMode
from kernelwright.machine._benchmark_mode import gpu_benchmark_mode
from kernelwright.machine._ceilings import Ceiling
from kernelwright.machine._ceilings import Ceilings
from kernelwright.machine._ceilings import ceilings_path
from kernelwright.machine._ceilings import load_ceilings
from kernelwright.machine._ceilings import store_ceilings
from kernelwright.machine._compilers import Compiler
from kernelwright.machine._compilers import compiler_at
from kernelwright.machine._compilers import find_compiler
from kernelwright.machine._compilers import find_compilers
from kernelwright.machine._compilers import HOW_TO_INSTALL
from kernelwright.machine._conditions import Conditions
from kernelwright.machine._conditions import watch
from kernelwright.machine._cpu import Cpu
from kernelwright.machine._cuda_tools import cuda_help
from kernelwright.machine._cuda_tools import CUDA_TOOLS
from kernelwright.machine._cuda_tools import CudaTool
from kernelwright.machine._cuda_tools import find_cuda_tool
from kernelwright.machine._cuda_tools import find_cuda_tools
from kernelwright.machine._cuda_tools import HOW_TO_INSTALL_CUDA
from kernelwright.machine._gpus import Gpu
from kernelwright.machine._machine import current
from kernelwright.machine._machine import fingerprint
from kernelwright.machine._machine import Machine
from kernelwright.machine._nvidia_smi import BenchmarkModeError
from kernelwright.machine._nvidia_smi import Refusal
from kernelwright.machine._tiers import available_tiers
from kernelwright.machine._tiers import supported_tiers
from kernelwright.machine._tiers import Tier
from kernelwright.machine._tiers import TIERS
from kernelwright.machine._topology import Cache
from kernelwright.machine._topology import NumaNode

__all__ = [
    "CUDA_TOOLS",
    "HOW_TO_INSTALL",
    "HOW_TO_INSTALL_CUDA",
    "TIERS",
    "BenchmarkMode",
    "BenchmarkModeError",
    "Cache",
    "Ceiling",
    "Ceilings",
    "Compiler",
    "Conditions",
    "Cpu",
    "CudaTool",
    "Gpu",
    "Machine",
    "NumaNode",
    "Refusal",
    "Tier",
    "available_tiers",
    "ceilings_path",
    "compiler_at",
    "cuda_help",
    "current",
    "find_compiler",
    "find_compilers",
    "find_cuda_tool",
    "find_cuda_tools",
    "fingerprint",
    "gpu_benchmark_mode",
    "load_ceilings",
    "store_ceilings",
    "supported_tiers",
    "watch",
]
