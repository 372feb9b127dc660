"""Starts the process of the reference; run as a script.

It needs a few modules of this room, not all that a referee is made of, whose import would take longer than
most checks: so the room's own `__init__` is not run.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent


def without_init(name: str, folder: Path) -> None:
    """Make a package importable from, without running its `__init__`."""
    package = types.ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package


if __name__ == "__main__":
    without_init("kernelwright.referee", _FOLDER.parent)
    from kernelwright.referee.contract._reference_child import main

    main()
