"""How does source become something callable? build.toml, compilers, artifacts, what a binary contains."""

from kernelwright.build._artifact import Artifact
from kernelwright.build._build import build
from kernelwright.build._build import build_many
from kernelwright.build._build import find
from kernelwright.build._buildfile import BuildFile
from kernelwright.build._buildfile import KernelSection
from kernelwright.build._buildfile import read_build_file
from kernelwright.build._code_key import code_key
from kernelwright.build._disassembly import BASELINE
from kernelwright.build._disassembly import Contents
from kernelwright.build._disassembly import disassemble
from kernelwright.build._disassembly import features_used
from kernelwright.build._disassembly import with_implied
from kernelwright.build._load import load
from kernelwright.build._mix import instruction_mix
from kernelwright.build._mix import Loop
from kernelwright.build._mix import Mix
from kernelwright.build._request import BuildRequest
from kernelwright.build._request import requests_of

__all__ = [
    "BASELINE",
    "Artifact",
    "BuildFile",
    "BuildRequest",
    "Contents",
    "KernelSection",
    "Loop",
    "Mix",
    "build",
    "build_many",
    "code_key",
    "disassemble",
    "features_used",
    "find",
    "instruction_mix",
    "load",
    "read_build_file",
    "requests_of",
    "with_implied",
]
