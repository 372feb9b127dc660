"""Which knobs each compiler has, and how they reach it."""

from kernelwright.controls._codec import compiler_arguments
from kernelwright.controls._codec import Controls
from kernelwright.controls._codec import decode_controls
from kernelwright.controls._codec import encode_controls
from kernelwright.controls._codec import load_compiler_config
from kernelwright.controls._codec import save_compiler_config
from kernelwright.controls._gcc import GccSearchSpace

__all__ = [
    "Controls",
    "GccSearchSpace",
    "compiler_arguments",
    "decode_controls",
    "encode_controls",
    "load_compiler_config",
    "save_compiler_config",
]
