"""How it is computed: one folder a backend, one file or folder an operator."""

from kernelwright.kernels import cpu

__all__ = ["connect"]


def connect() -> None:
    """Register the kernels of every backend with dispatch."""
    cpu.connect()
