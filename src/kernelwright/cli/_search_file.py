"""A file that says what to search: the objective, its space, and what goes with them."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from types import ModuleType
from typing import Any
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.search import Search
    from kernelwright.search import SearchConfiguration

#: Names of a file that go to `Search` as they are, and to its `start`.
_SEARCH = ("tracker_config", "dump_results", "cache_folder", "exit_on_failure", "debug", "store")
_START = ("num_workers", "task_timeout")
_OBJECTIVE = ("objective_function", "objective")
#: What --worker-type may say for a class of `kernelwright.search`.
WORKERS = {
    "iso": "IsoMultiProcessWorker",
    "pool": "MultiProcessWorker",
    "ray": "RayWorker",
    "async": "AsyncWorker",
}


@dataclass
class Job:
    """What a file says; `search_config` is a SearchConfiguration, its fields as a dict, or None."""

    path: Path
    objective: Any
    search_space: Any
    search_config: Any = None
    worker_type: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    start: dict[str, Any] = field(default_factory=dict)

    def configuration(self, overrides: Mapping[str, Any]) -> SearchConfiguration:
        """The file's configuration with what was said besides. Raises UsageError."""
        import dataclasses

        from kernelwright.errors import UsageError
        from kernelwright.search import SearchConfiguration

        known = {one.name for one in dataclasses.fields(SearchConfiguration)}
        given = self.search_config
        if given is None:
            stated: dict[str, Any] = {}
        elif isinstance(given, SearchConfiguration):
            stated = {name: getattr(given, name) for name in known}
        elif isinstance(given, Mapping):
            stated = dict(given)
        else:
            raise UsageError(
                f"{self.path}: search_config is a SearchConfiguration or a dict of its fields; got {given!r}"
            )
        unknown = sorted(set(stated) - known)
        if unknown:
            raise UsageError(
                f"{self.path}: search_config has no {', '.join(unknown)}; known: {', '.join(sorted(known))}"
            )
        return SearchConfiguration(**{**stated, **overrides})

    def search(self, configuration: SearchConfiguration, options: Mapping[str, Any]) -> Search:
        """The search, not started; `options` go before what the file says."""
        from kernelwright.search import Search

        arguments = {**self.options, **options}
        worker = arguments.pop("worker_type", None) or self.worker_type
        if worker is not None:
            arguments["worker_type"] = worker_class(worker)
        return Search(self.objective, self.search_space, configuration, source=self.path, **arguments)

    def started(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `start`."""
        return {**self.start, **options}


def load(path: Path) -> Job:
    """Read a file that defines `objective` or `objective_function`, `search_space`, and perhaps more.

    The file is imported under its own name, with its folder first on the path, as `python FILE` has it.
    Raises UsageError when it is not there, raises itself, or lacks a name.
    """
    from kernelwright.errors import UsageError

    path = path.absolute()
    if not path.is_file():
        raise UsageError(
            f"there is no file {path}; give a Python file that defines objective and search_space"
        )
    module = _imported(path)
    found = vars(module)
    objective = next((found[name] for name in _OBJECTIVE if name in found), None)
    missing = [
        name
        for name, value in (("objective", objective), ("search_space", found.get("search_space")))
        if value is None
    ]
    if missing:
        public = sorted(name for name in found if not name.startswith("_"))
        raise UsageError(
            f"{path} does not define {' and '.join(missing)} (objective_function is a name for the first, "
            f"too); it has: {', '.join(public) or 'nothing'}"
        )
    return Job(
        path,
        objective,
        found["search_space"],
        found.get("search_config"),
        found.get("worker_type"),
        {name: found[name] for name in _SEARCH if name in found},
        {name: found[name] for name in _START if name in found},
    )


def job_of_target(info: Any) -> Job:
    """The job of a run over compiler controls, made again from the description that its journal holds.

    Raises what `controls.target_from` raises.
    """
    from kernelwright import controls

    description = info.settings["target"]
    target = controls.target_from(description)
    objective = controls.ControlsObjective(
        target, constraints=description.get("constraints", ()), description=description
    )
    calibrate = getattr(target, "calibrate", None)
    if calibrate is not None:
        calibrate()
    return Job(
        Path(info.settings["objective_file"] or "."),
        objective,
        objective.search_space,
        worker_type=controls.precompiling_worker(target),
        start={"num_workers": controls.ahead_of(target)},
    )


def worker_class(worker: Any) -> Any:
    """The class that `worker` names, or what it is. Raises UnknownNameError, MissingExtraError."""
    if not isinstance(worker, str):
        return worker
    from kernelwright import search
    from kernelwright.errors import UnknownNameError

    name = WORKERS.get(worker, worker)
    if name not in WORKERS.values() or not hasattr(search, name):
        raise UnknownNameError("worker type", worker, WORKERS)
    return getattr(search, name)


def _imported(path: Path) -> ModuleType:
    from kernelwright.cli._isolate import candidate_path
    from kernelwright.errors import UsageError

    # As `python FILE` has it. What the caller put on PYTHONPATH is for the objective's imports.
    sys.path.insert(0, str(path.parent))
    sys.path += [entry for entry in candidate_path() if entry not in sys.path]
    name = (
        path.stem if path.stem.isidentifier() and path.stem not in sys.modules else "kernelwright_objective"
    )
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file; its name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UsageError(f"{path} cannot be imported: {_where(error, path)}") from error
    return module


def _where(error: Exception, path: Path) -> str:
    """The error with the last line of the file that led to it."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    if isinstance(error, SyntaxError) and error.filename == str(path):
        lines = [error.lineno]
    at = f"line {lines[-1]}: " if lines else ""
    return f"{at}{type(error).__name__}: {error}"
