"""The process that calls a candidate, or a baseline; run as a script, never imported.

What runs here shares the process with the candidate, so nothing that it says is believed. Still it is made
hard to fool by accident and by the usual tricks: its modules are loaded before the candidate, see builtins of
their own (a copy), take what they need from torch and the standard library at once, and cannot be found in
`sys.modules`.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
import types
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent
_PACKAGE = "kernelwright.referee.contract"
#: In the order in which they import each other.
_MODULES = ("_tree", "_desk", "_outputs", "_allocator", "_find", "_snapshot", "_sensors", "_actor")


def load_modules() -> dict[str, types.ModuleType]:
    """Load our modules, without the packages around them, and take them out of `sys.modules` again."""
    packages = []
    for name in (_PACKAGE.rpartition(".")[0], _PACKAGE):
        package = types.ModuleType(name)
        package.__path__ = []
        sys.modules[name] = package
        packages.append(package)
    loaded = {}
    for name in _MODULES:
        spec = importlib.util.spec_from_file_location(f"{_PACKAGE}.{name}", _FOLDER / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        module.__dict__["__builtins__"] = dict(vars(builtins))
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        setattr(packages[-1], name, module)
        loaded[name] = module
    for name in (_PACKAGE.rpartition(".")[0], _PACKAGE, *(f"{_PACKAGE}.{name}" for name in _MODULES)):
        del sys.modules[name]
    return loaded


if __name__ == "__main__":
    _loaded = load_modules()
    _loaded["_actor"].main(sys.argv[1:], [*_loaded.values()])
