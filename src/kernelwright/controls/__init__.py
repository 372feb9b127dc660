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
from kernelwright.controls._errors import ControlsError
from kernelwright.controls._errors import UnknownToolError
from kernelwright.controls._gcc import GccSearchSpace
from kernelwright.controls._gpu_case import GpuCase
from kernelwright.controls._native import NativeTarget
from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.controls._target import Artifact
from kernelwright.controls._target import BuildFailure
from kernelwright.controls._target import split_config
from kernelwright.controls._target import Target
from kernelwright.controls._tile import TileAdapter
from kernelwright.controls._tile_space import TileSearchSpace
from kernelwright.controls._tile_target import TileTarget
from kernelwright.controls._triton import TritonAdapter
from kernelwright.controls._triton_space import TritonSearchSpace
from kernelwright.controls._triton_target import TritonTarget

__all__ = [
    "Adapter",
    "Artifact",
    "BuildFailure",
    "ClangAdapter",
    "ClangSearchSpace",
    "CompilerSearchSpace",
    "Controls",
    "ControlsError",
    "GccAdapter",
    "GccSearchSpace",
    "GpuCase",
    "Injection",
    "NativeTarget",
    "Target",
    "TileAdapter",
    "TileSearchSpace",
    "TileTarget",
    "TritonAdapter",
    "TritonSearchSpace",
    "TritonTarget",
    "UnknownToolError",
    "adapter",
    "compiler_arguments",
    "decode_controls",
    "encode_controls",
    "load_compiler_config",
    "save_compiler_config",
    "split_config",
]
