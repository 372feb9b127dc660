"""How an objective gets into another process.

By name where that is possible: its module is imported there, or, where it is not on the path, loaded from
the same file; a script's `__main__` is run as `__mp_main__`, as multiprocessing does, so that what stands
under `if __name__ == "__main__":` is not. What has no name that can be looked up (a lambda, a closure, a
function typed into a notebook) travels by value, with cloudpickle.
"""

from __future__ import annotations

import base64
import importlib.machinery
import inspect
import io
import json
import math
import os
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType
from types import ModuleType
from typing import Any

from kernelwright.errors import KernelwrightError
from kernelwright.errors import MissingExtraError
from kernelwright.search import _task
from kernelwright.search._evaluation import INVALID_SCORE


class ObjectiveError(KernelwrightError, TypeError):
    """An objective that cannot be called as one, or that cannot be had in another process."""


class Parcel:
    """An objective, packed, in a file without a name that any process of this user can read by its path.

    Nothing is left on disk, whatever becomes of us. As long as it is open, `path` can be read.
    """

    def __init__(self, content: bytes) -> None:
        self._handle = os.memfd_create("kernelwright-objective")
        with os.fdopen(os.dup(self._handle), "wb") as stream:
            stream.write(content)
        self.path = f"/proc/{os.getpid()}/fd/{self._handle}"

    def close(self) -> None:
        """Let it go."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def check(objective: Any) -> None:
    """Raise ObjectiveError unless this is something that takes one configuration."""
    if _task.loading or _task_of_child().loading:
        raise ObjectiveError(
            "a search is started while a worker imports the script to find the objective in it; put what "
            'starts the search under `if __name__ == "__main__":`'
        )
    _check_invalid_score(objective)
    if _task.is_staged(objective):
        for stage, method in (("build", "build"), ("features", "features"), ("measure", "measure")):
            _check_call(getattr(objective, method, None), f"the method {stage} of the objective")
    elif callable(objective):
        _check_call(objective, "the objective")
    else:
        raise ObjectiveError(
            f"the objective is {_task.repr_of(objective)}, which cannot be called and has no method `measure`"
        )


def _check_invalid_score(objective: Any) -> None:
    """Refuse a module that has an INVALID_SCORE of its own, which would be a score like any other."""
    called = inspect.unwrap(getattr(objective, "measure", objective))
    there = getattr(inspect.unwrap(getattr(called, "__func__", called)), "__globals__", {})
    own = there.get("INVALID_SCORE", INVALID_SCORE)
    if isinstance(own, int | float) and math.isfinite(own):
        raise ObjectiveError(
            f"the objective's module, {there.get('__name__')!r}, has an INVALID_SCORE of its own, {own!r}, "
            "which would be a score like any other; write `from kernelwright.search import INVALID_SCORE`"
        )


def _check_call(called: Any, what: str) -> None:
    if called is None:
        return
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return  # a builtin that does not say
    try:
        signature.bind({})
    except TypeError as error:
        raise ObjectiveError(
            f"{what} is called with one argument, the configuration, but takes {signature} ({error})"
        ) from None


def _task_of_child() -> ModuleType:
    return sys.modules.get(_task.NAME, _task)


def pack(objective: Any, settings: Mapping[str, Any], *, by_value: bool = False) -> bytes:
    """The objective as `_task.load` reads it; `by_value` where another machine may lack the script.

    Raises ObjectiveError, or MissingExtraError when only cloudpickle could do it and it is not there.
    """
    main: dict[str, str] | None = None
    modules: dict[str, str] = {}
    if by_value:
        data = _by_value(objective, None)
    else:
        try:
            data, named = _by_name(objective)
            main = _main() if "__main__" in named else None
            modules = _unfindable(named)
        except Exception as error:  # noqa: BLE001 - pickling runs methods of the user's classes
            data = _by_value(objective, error)
    parcel = {
        "path": [str(Path(entry).absolute()) if entry == "" else entry for entry in sys.path],
        "main": main,
        "modules": modules,
        "pickle": base64.b64encode(data).decode(),
        "settings": dict(settings),
    }
    return json.dumps(parcel).encode()


def pack_configuration(config: Any) -> str:
    """A configuration as a message carries it; what pickling raises for one that cannot be sent."""
    return base64.b64encode(pickle.dumps(config)).decode()


class _Pickler(pickle.Pickler):
    """Takes note of the modules of all functions and classes that it writes by name."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream)
        self.modules: set[str] = set()

    def persistent_id(self, value: Any) -> None:
        """Look at every object that is pickled; none is treated in a way of its own."""
        if isinstance(value, (type, FunctionType)):
            self.modules.add(value.__module__)


def _by_name(objective: Any) -> tuple[bytes, set[str]]:
    """The objective, pickled, and the modules that it needs."""
    stream = io.BytesIO()
    pickler = _Pickler(stream)
    pickler.dump(objective)
    return stream.getvalue(), pickler.modules


def _by_value(objective: Any, error: Exception | None) -> bytes:
    cloudpickle = _cloudpickle(objective)
    module = sys.modules.get(getattr(objective, "__module__", None) or type(objective).__module__)
    if module is not None and module.__name__ != "__main__" and not _is_findable(module.__name__):
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(objective))
    except Exception as second:  # noqa: BLE001 - as above
        raise ObjectiveError(
            f"the objective {_task.repr_of(objective)} cannot be sent to another process: {second}; make it "
            "a function at the top level of a module, and open what it needs (locks, files, clients, "
            "devices) inside it"
        ) from error


def _cloudpickle(objective: Any) -> Any:
    try:
        import cloudpickle  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError(
            "cloudpickle",
            "search",
            f"to send {_task.repr_of(objective)} to another process, since it is no function at the top "
            "level of a module (making it one does without)",
        ) from None
    return cloudpickle


def _main() -> dict[str, str] | None:
    """How to run our `__main__` again, as multiprocessing would."""
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:
        return {"module": name}
    file = getattr(main, "__file__", None)
    if file is None or not Path(file).is_file():
        raise pickle.PicklingError("__main__ has no file")
    return {"file": str(Path(file).absolute())}


def _unfindable(names: set[str]) -> dict[str, str]:
    """The modules that importing their names would not find, and their files."""
    found = {}
    for name in sorted(names - {"__main__", "builtins"}):
        if not _is_findable(name):
            file = getattr(sys.modules.get(name), "__file__", None)
            if file is None:
                raise pickle.PicklingError(f"module {name!r} has no file")
            found[name] = str(Path(file).absolute())
    return found


def _is_findable(name: str) -> bool:
    """Whether importing a module by its name, in a new process with our path, finds the file it has here."""
    if name in sys.builtin_module_names:
        return True
    module = sys.modules.get(name)
    path = None
    spec = None
    words = name.split(".")
    for count in range(1, len(words) + 1):
        spec = importlib.machinery.PathFinder.find_spec(".".join(words[:count]), path)
        if spec is None:
            return _is_editable(words[0])
        path = spec.submodule_search_locations
    file = getattr(module, "__file__", None)
    return spec is not None and (file is None or spec.origin is None or Path(file).samefile(spec.origin))


def _is_editable(package: str) -> bool:
    """Whether it is found by a finder that site-packages install, as editable installs do."""
    return any(
        getattr(finder, "__module__", "").startswith("__editable__")
        and finder.find_spec(package, None) is not None
        for finder in sys.meta_path
    )
