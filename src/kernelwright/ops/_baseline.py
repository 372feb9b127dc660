"""A user's `baseline.py`: what is computed, for which inputs, and how near a kernel has to come.

The file defines `get_inputs()` and either `get_reference_output(*inputs)` or a class `Model`, which is made
and called as KernelBench does it: `Model(*get_init_inputs())`, `forward(*inputs)`. It may define

- `WORKLOADS`: a mapping of names to specifications or a list of them; a specification is a dict of keywords
  for `get_inputs`, a tuple or list of its positional arguments, or a callable that returns inputs;
- `ERROR_BUDGET`: an `ErrorBudget`, or a dict with any of `factor`, `floor_ulps`, `relative_l2` (a number or
  numbers by dtype name), `atol`, `rtol`, `deterministic`;
- `MUTATES`: names or indices of the arguments that are changed in place, or True for all tensors;
- `SHARES`: True where an output may lie in the memory of an input or of an earlier output;
- `NONFINITE`: False where inputs never hold infinities or NaN, so that what becomes of them is left open;
- `DETERMINISTIC`: False where two calls on the same inputs may differ by rounding;
- `BACKWARD`: True where gradients of all floating inputs belong to the contract; otherwise they do where
  inputs require them.

Loading runs the user's code: only a process that may be lost does it.
"""

from __future__ import annotations

import ast
import importlib.abc
import inspect
import random
import sys
import types
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kernelwright.errors import UsageError
from kernelwright.ops._baseline_budget import article
from kernelwright.ops._baseline_budget import BaselineBudget
from kernelwright.ops._baseline_budget import read_budget

MODULE_NAME = "kernelwright_user_baseline"
#: Parameters of a `Model` are drawn from this seed in every process.
PARAMETER_SEED = 0
#: Packages that a reference is made of: they are no secret of a candidate that lives in one of them.
_SHARED_PACKAGES = ("torch", "numpy", "kernelwright")


@dataclass(frozen=True)
class Baseline:
    """A loaded `baseline.py`. `call` is the reference as the user wrote it, to be called with inputs."""

    path: Path
    workloads: tuple[str, ...]
    budget: BaselineBudget
    call: Callable[..., Any]
    deterministic: bool = True
    mutates: tuple[str | int, ...] | bool = False
    shares: bool = False
    nonfinite: bool = True
    backward: bool = False
    module: torch.nn.Module | None = None
    init_inputs: tuple[Any, ...] = ()
    _makers: Mapping[str, Callable[[int], Any]] = field(default_factory=dict, repr=False)

    def inputs(self, seed: int, workload: str) -> tuple[Any, ...]:
        """Positional arguments of one call, drawn from `seed`; raises what the user's code raises, and
        UsageError for what is no list of arguments."""
        seed_everything(seed)
        made = self._makers[workload](seed)
        if isinstance(made, Tensor):
            made = (made,)
        if not isinstance(made, list | tuple):
            raise UsageError(
                f"{self.path}: get_inputs() returned {article(made)} for workload {workload!r}; return a "
                f"list or tuple of the arguments of one call"
            )
        if not any(isinstance(value, Tensor) for value in flat(made)):
            raise UsageError(
                f"{self.path}: get_inputs() returned no tensor for workload {workload!r}; return a list of "
                f"the arguments of one call, tensors among them"
            )
        inputs = tuple(made)
        if self.backward:
            for value in flat(inputs):
                if isinstance(value, Tensor) and value.is_floating_point():
                    value.requires_grad_(True)
        return inputs

    def parameters(self, count: int) -> tuple[str, ...]:
        """Names of the first `count` positional arguments, as the user called them where that is known."""
        target = self.module.forward if self.module is not None else self.call
        try:
            declared = list(inspect.signature(target).parameters.values())
        except (TypeError, ValueError):
            declared = []
        names = [one.name for one in declared if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        return tuple(names[index] if index < len(names) else f"input {index}" for index in range(count))

    def mutated(self, inputs: Sequence[Any]) -> tuple[int, ...]:
        """Indices of the arguments that the contract lets a call change. Raises UsageError."""
        if isinstance(self.mutates, bool):
            return tuple(range(len(inputs))) if self.mutates else ()
        names = self.parameters(len(inputs))
        found = []
        for entry in self.mutates:
            if isinstance(entry, int) and -len(inputs) <= entry < len(inputs):
                found.append(entry % len(inputs))
            elif isinstance(entry, str) and entry in names:
                found.append(names.index(entry))
            else:
                raise UsageError(
                    f"{self.path}: MUTATES names {entry!r}, which is no argument of the reference; its "
                    f"arguments are {', '.join(f'{index} ({name})' for index, name in enumerate(names))}"
                )
        return tuple(sorted(set(found)))


def load_baseline(path: Path, *, refuse: str | None = None) -> Baseline:
    """Run a `baseline.py` and read what it defines.

    `refuse` is the package of the candidate, which a reference must not import. The file's folder is put
    last on `sys.path`. Raises UsageError, whatever is wrong with the file.
    """
    path = Path(path).absolute()
    source = _read(path)
    if refuse is not None and refuse.partition(".")[0] not in _SHARED_PACKAGES:
        _refuse_import(path, source, refuse.partition(".")[0])
    namespace = _run(path, source)
    get_inputs = namespace.get("get_inputs")
    if not callable(get_inputs):
        raise UsageError(
            f"{path} defines no get_inputs(); write `def get_inputs(): return [torch.randn(...), ...]`, the "
            f"arguments of one call"
        )
    call, module, init_inputs = _reference(path, namespace)
    makers = _makers(path, get_inputs, namespace.get("WORKLOADS"))
    budget, deterministic = read_budget(path, namespace.get("ERROR_BUDGET"))
    return Baseline(
        path=path,
        workloads=tuple(makers),
        budget=budget,
        call=call,
        deterministic=deterministic and _flag(path, namespace, "DETERMINISTIC", default=True),
        mutates=_mutates(path, namespace.get("MUTATES")),
        shares=_flag(path, namespace, "SHARES", default=False),
        nonfinite=_flag(path, namespace, "NONFINITE", default=True),
        backward=_flag(path, namespace, "BACKWARD", default=False),
        module=module,
        init_inputs=init_inputs,
        _makers=makers,
    )


def seed_everything(seed: int) -> None:
    """Seed torch, `random`, and numpy where it is loaded."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))


def flat(value: Any) -> list[Any]:
    """The leaves of nested lists, tuples and dicts."""
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in flat(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in flat(item)]
    return [value]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist; name a baseline.py that defines get_inputs()") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read ({error}); name a Python file") from error


def _run(path: Path, source: str) -> dict[str, Any]:
    # Compiled here, not imported: no bytecode is written beside the user's file, none that is stale is read.
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    module = types.ModuleType(MODULE_NAME)
    module.__file__ = str(path)
    sys.modules[MODULE_NAME] = module
    seed_everything(PARAMETER_SEED)
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{path} cannot be run: {_where(error, path)}; make it import cleanly") from error
    return module.__dict__


def _reference(
    path: Path, namespace: Mapping[str, Any]
) -> tuple[Callable[..., Any], torch.nn.Module | None, tuple[Any, ...]]:
    function = namespace.get("get_reference_output")
    if callable(function):
        return function, None, ()
    kind = namespace.get("Model")
    if not isinstance(kind, type) or not issubclass(kind, torch.nn.Module):
        raise UsageError(
            f"{path} defines neither get_reference_output(*inputs) nor a class Model(torch.nn.Module); write "
            f"one of them: it computes what the kernel has to"
        )
    init = namespace.get("get_init_inputs")
    try:
        seed_everything(PARAMETER_SEED)
        made = init() if callable(init) else []
        given = tuple(made) if isinstance(made, list | tuple) else (made,)
        seed_everything(PARAMETER_SEED)
        module = kind(*given)
    except Exception as error:
        raise UsageError(
            f"{path}: Model(*get_init_inputs()) raised {_where(error, path)}; make it constructible"
        ) from error
    return module, module, given


def _makers(path: Path, get_inputs: Callable[..., Any], given: object) -> dict[str, Callable[[int], Any]]:
    if given is None:
        return {"default": _maker(path, get_inputs, "default", {})}
    if isinstance(given, Mapping):
        named = [(str(name), spec) for name, spec in given.items()]
    elif isinstance(given, list | tuple):
        named = [(_name(spec), spec) for spec in given]
    else:
        raise UsageError(
            f"{path}: WORKLOADS is {article(given)}; write a dict of names to specifications, or a list"
        )
    if not named:
        raise UsageError(f"{path}: WORKLOADS is empty; leave it out, or name at least one workload")
    makers: dict[str, Callable[[int], Any]] = {}
    for name, spec in named:
        unique, number = name, 1
        while unique in makers:
            number += 1
            unique = f"{name} #{number}"
        makers[unique] = _maker(path, get_inputs, unique, spec)
    return makers


def _maker(path: Path, get_inputs: Callable[..., Any], name: str, spec: object) -> Callable[[int], Any]:
    if callable(spec):
        return lambda seed: spec(**_drawn(spec, {}, seed))
    if isinstance(spec, Mapping):
        keywords = {str(key): value for key, value in spec.items()}
        return lambda seed: get_inputs(**keywords, **_drawn(get_inputs, keywords, seed))
    if isinstance(spec, list | tuple):
        positional = list(spec)
        return lambda seed: get_inputs(*positional, **_drawn(get_inputs, positional, seed))
    raise UsageError(
        f"{path}: workload {name!r} is {article(spec)}; write a dict of keywords for get_inputs, a list of "
        f"its positional arguments, or a function that returns inputs"
    )


def _drawn(function: Callable[..., Any], given: Mapping[str, Any] | list[Any], seed: int) -> dict[str, Any]:
    """A seed or generator for a function that takes one; `given` are keywords, or positional arguments."""
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}
    if isinstance(given, list):
        given = dict.fromkeys(parameters[: len(given)])
    drawn: dict[str, Any] = {}
    if "seed" in parameters and "seed" not in given:
        drawn["seed"] = seed
    if "generator" in parameters and "generator" not in given:
        drawn["generator"] = torch.Generator().manual_seed(seed)
    return drawn


def _name(spec: object) -> str:
    if isinstance(spec, Mapping):
        return ",".join(f"{key}={value}" for key, value in spec.items())
    if isinstance(spec, list | tuple):
        return "x".join(str(value) for value in spec)
    return str(getattr(spec, "__name__", spec))


def _mutates(path: Path, given: object) -> tuple[str | int, ...] | bool:
    if given is None or isinstance(given, bool):
        return bool(given)
    if isinstance(given, str | int):
        return (given,)
    if isinstance(given, list | tuple | set | frozenset) and all(isinstance(one, str | int) for one in given):
        return tuple(given)
    raise UsageError(f"{path}: MUTATES is {given!r}; write names or indices of arguments, or True")


def _flag(path: Path, namespace: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = namespace.get(name, default)
    if not isinstance(value, bool):
        raise UsageError(f"{path}: {name} is {value!r}; write True or False")
    return value


class _Refusal(importlib.abc.MetaPathFinder):
    """Keeps the candidate's package out of the process of the reference."""

    def __init__(self, path: Path, package: str) -> None:
        self._path = path
        self._package = package

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] == self._package:
            raise UsageError(_refusal(self._path, self._package))
        return None


def _refuse_import(path: Path, source: str, package: str) -> None:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # Running the file says where.
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        else:
            continue
        if any(name.partition(".")[0] == package for name in names):
            raise UsageError(f"{_refusal(path, package)} (line {node.lineno})")
    sys.meta_path.insert(0, _Refusal(path, package))


def _refusal(path: Path, package: str) -> str:
    return (
        f"{path} imports {package!r}, the package under judgement; a reference has to stand on its own: "
        f"compute the result with torch"
    )


def _where(error: BaseException, path: Path) -> str:
    """The error in one line, with the last line of the user's file that it went through."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError):
        line = error.lineno
    text = f"{type(error).__name__}: {error}"
    return f"{text} (line {line})" if line is not None else text
