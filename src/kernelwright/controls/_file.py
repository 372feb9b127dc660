"""A target from a Python file of a user's."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright.controls._described import register_target
from kernelwright.controls._target import Target
from kernelwright.errors import UsageError

_NAMES = "a module-level `target`, or a function `make_target()` that returns one"


def load_target(path: Path | str) -> Target:
    """The target that a file defines: its `target`, or what its `make_target()` returns.

    The file is imported under its own name, with its folder first on the path, as `python FILE` has it.
    Raises UsageError when it is not there, raises itself, or defines no target.
    """
    path = Path(path).absolute()
    if not path.is_file():
        raise UsageError(f"there is no file {path}; name an operator, or a Python file with {_NAMES}")
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else "kernelwright_target"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file; its name ends in .py")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        found = getattr(module, "target", None)
        if found is None and callable(getattr(module, "make_target", None)):
            found = module.make_target()
    except Exception as error:
        del sys.modules[name]
        raise UsageError(f"{path} cannot be used: {type(error).__name__}: {error}") from error
    if not isinstance(found, Target):
        raise UsageError(f"{path} defines {found!r:.80}; it needs {_NAMES}, with build, measure and provider")
    return found


def from_file(path: Path | str) -> dict[str, Any]:
    """The description of the target of a file, where the target has none of its own."""
    return {"kind": "file", "target": str(Path(path).absolute())}


@register_target("file")
def _from_description(description: Mapping[str, Any]) -> Target:
    return load_target(description["target"])
