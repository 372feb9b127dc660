"""How does source become something callable? build.toml, compilers, artifacts, what a binary contains."""

from kernelwright.build._artifact import Artifact
from kernelwright.build._build import build
from kernelwright.build._build import build_many
from kernelwright.build._build import find
from kernelwright.build._buildfile import BuildFile
from kernelwright.build._buildfile import KernelSection
from kernelwright.build._buildfile import read_build_file
from kernelwright.build._load import load
from kernelwright.build._request import BuildRequest
from kernelwright.build._request import requests_of

__all__ = [
    "Artifact",
    "BuildFile",
    "BuildRequest",
    "KernelSection",
    "build",
    "build_many",
    "find",
    "load",
    "read_build_file",
    "requests_of",
]
