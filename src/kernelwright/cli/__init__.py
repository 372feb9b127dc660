"""The command `kernelwright`: one file a command."""

from kernelwright.cli._app import main

__all__ = ["main"]
