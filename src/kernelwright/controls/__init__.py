"""Which knobs each compiler has, and how they reach it."""

from kernelwright.controls._adapter import Adapter
from kernelwright.controls._adapter import adapter
from kernelwright.controls._adapter import Injection
from kernelwright.controls._clang import ClangSearchSpace
from kernelwright.controls._codec import compiler_arguments
from kernelwright.controls._codec import Controls
from kernelwright.controls._codec import decode_controls
from kernelwright.controls._codec import encode_controls
from kernelwright.controls._codec import load_compiler_config
from kernelwright.controls._codec import save_compiler_config
from kernelwright.controls._cpu_adapters import ClangAdapter
from kernelwright.controls._cpu_adapters import GccAdapter
from kernelwright.controls._cpu_resources import cpu_resources
from kernelwright.controls._errors import ControlsError
from kernelwright.controls._errors import UnknownToolError
from kernelwright.controls._gcc import GccSearchSpace
from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.controls._vendor_files import VendorFiles

__all__ = [
    "Adapter",
    "ClangAdapter",
    "ClangSearchSpace",
    "CompilerSearchSpace",
    "Controls",
    "ControlsError",
    "GccAdapter",
    "GccSearchSpace",
    "Injection",
    "UnknownToolError",
    "VendorFiles",
    "adapter",
    "compiler_arguments",
    "cpu_resources",
    "decode_controls",
    "encode_controls",
    "load_compiler_config",
    "save_compiler_config",
]
