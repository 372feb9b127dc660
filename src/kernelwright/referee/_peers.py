"""Who an operator is raced against from Python, and how each is called.

A recipe is how a person would write the call: an expression over the operator's parameters. Nothing of ours
stands between the clock and a peer.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import shutil
import sysconfig
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from kernelwright.errors import KernelwrightError
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.ops import OperatorSpec
from kernelwright.referee._verdict import Regime

OURS = "kernelwright"
BUILTIN_PEERS = ("eager", "compile")


class PeerUnsupportedError(KernelwrightError):
    """A peer that cannot take part here; the text says why."""


@dataclass(frozen=True)
class Recipe:
    """How one contestant is called.

    `allocating` and `preallocated` are expressions over the operator's parameters, `out` and `namespace`;
    `preallocated` is None where the contestant has no `out=`, and then it is run with its pages kept mapped.
    """

    allocating: str
    preallocated: str | None
    namespace: Mapping[str, Any] = field(default_factory=dict)

    def call(self, regime: Regime) -> str:
        """The expression for a regime."""
        wanted = self.preallocated if regime is Regime.PREALLOCATED else None
        return wanted or self.allocating

    def form(self, regime: Regime) -> str:
        """What the call does about its output, in words."""
        if regime is Regime.ALLOCATING:
            return "allocates"
        return "out=" if self.preallocated else "allocates, pages kept mapped"


def check_peer_name(name: str) -> None:
    """Refuse a name that can be no peer: UnknownNameError or UsageError, without importing anything."""
    if name in BUILTIN_PEERS:
        return
    if name.endswith(".py"):
        if not Path(name).is_file():
            raise UsageError(f"peer {name!r}: there is no such file")
        return
    module, _, function = name.partition(":")
    if not function:
        raise UnknownNameError("peer", name, [*BUILTIN_PEERS, "module:function", "path/to/peer.py"])
    if not all(part.isidentifier() for part in [*module.split("."), *function.split(".")]):
        raise UsageError(f"peer {name!r}: expected module:function, as in my_package.kernels:rms_norm")


def ours(spec: OperatorSpec, arguments: Mapping[str, Any], backend: str | None) -> Recipe:
    """The public operator, `kw.ops.<name>(...)`; `backend` is passed on where given."""
    import kernelwright

    function = getattr(kernelwright.ops, spec.name)
    chosen = "" if backend is None else f", backend={backend!r}"
    inside = _written(spec, arguments) + chosen
    call = f"{spec.name}({inside}"
    return Recipe(f"{call})", f"{call}, out=out)", {spec.name: function, **_scalars(spec, arguments)})


def peer(name: str, spec: OperatorSpec, arguments: Mapping[str, Any], regime: Regime) -> Recipe:
    """The recipe of the peer called `name`. Raises PeerUnsupportedError where it cannot take part."""
    if name == "eager":
        return _eager(spec, arguments)
    if name == "compile":
        return _compiled(spec, arguments, regime)
    if name.endswith(".py"):
        return _from_file(Path(name), spec, arguments)
    return _from_function(name, spec, arguments)


def compile_problem() -> str | None:
    """Why torch.compile cannot generate CPU code here, or None."""
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.is_file():
        return f"torch.compile needs {header}; install the Python development headers (python3-dev)"
    from torch._inductor import config

    wanted = config.cpp.cxx
    names = [name for name in (wanted if isinstance(wanted, (list, tuple)) else [wanted]) if name]
    if not any(shutil.which(name) for name in names):
        return f"torch.compile needs a C++ compiler (looked for {', '.join(names)}); install g++ or set CXX"
    return None


def _eager(spec: OperatorSpec, arguments: Mapping[str, Any]) -> Recipe:
    """Eager torch as its users write it, straight to the torch function where there is one."""
    if spec.name == "rms_norm":
        shape = (arguments["x"].shape[-1],)
        space = {"torch_rms_norm": torch.rms_norm, "shape": shape, "eps": arguments["eps"]}
        return Recipe("torch_rms_norm(x, shape, weight, eps)", None, space)
    if spec.name == "softmax":
        space = {"torch_softmax": torch.softmax}
        return Recipe("torch_softmax(x, -1)", "torch_softmax(x, -1, out=out)", space)
    if spec.name == "silu_and_mul":
        space = {"silu": torch.nn.functional.silu, "mul": torch.mul, "half": arguments["x"].shape[-1] // 2}
        return Recipe(
            "silu(x[..., :half]) * x[..., half:]", "mul(silu(x[..., :half]), x[..., half:], out=out)", space
        )
    return Recipe(f"reference({_written(spec, arguments)})", None, {"reference": spec.reference, **arguments})


def _compiled(spec: OperatorSpec, arguments: Mapping[str, Any], regime: Regime) -> Recipe:
    """torch.compile of the reference for exactly these shapes; with `out`, the result is written into it."""
    problem = compile_problem()
    if problem:
        raise PeerUnsupportedError(problem)
    # Earlier shapes share the code object; without a reset their guards would be walked at every call.
    torch._dynamo.reset()
    reference = spec.reference
    scalars = _scalars(spec, arguments)
    tensors = spec.tensors

    def allocating(*values: Tensor) -> Tensor:
        return reference(**dict(zip(tensors, values, strict=True)), **scalars)

    def preallocated(out: Tensor, *values: Tensor) -> Tensor:
        return out.copy_(reference(**dict(zip(tensors, values, strict=True)), **scalars))

    names = ", ".join(tensors)
    if regime is Regime.ALLOCATING:
        return Recipe(f"compiled({names})", None, {"compiled": _compile(allocating)})
    return Recipe(f"compiled({names})", f"compiled(out, {names})", {"compiled": _compile(preallocated)})


def _compile(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    compiled: Callable[..., Tensor] = torch.compile(function, dynamic=False, fullgraph=True)
    return compiled


def _from_file(path: Path, spec: OperatorSpec, arguments: Mapping[str, Any]) -> Recipe:
    """A peer described by a file that defines `name` and `operators`; see benchmarks/peers/README.md."""
    module = _load(path)
    unavailable = getattr(module, "unavailable", None)
    reason = unavailable() if callable(unavailable) else None
    if reason:
        raise PeerUnsupportedError(str(reason))
    operators = getattr(module, "operators", None)
    if not isinstance(operators, Mapping):
        raise UsageError(f"peer {path}: expected a mapping `operators` of operator names to functions")
    if spec.name not in operators:
        raise PeerUnsupportedError(
            f"{path} has no {spec.name}; it has {', '.join(sorted(operators)) or 'none'}"
        )
    return _from_callable(str(path), operators[spec.name], spec, arguments)


def _load(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"peer {path}: there is no such file")
    description = importlib.util.spec_from_file_location(f"kernelwright_peer_{path.stem}", path)
    if description is None or description.loader is None:
        raise UsageError(f"peer {path}: Python cannot load it")
    module = importlib.util.module_from_spec(description)
    try:
        description.loader.exec_module(module)
    except ImportError as error:
        raise PeerUnsupportedError(f"{path} cannot be imported: {error}") from error
    return module


def _from_function(name: str, spec: OperatorSpec, arguments: Mapping[str, Any]) -> Recipe:
    module_name, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise PeerUnsupportedError(f"{module_name} cannot be imported: {error}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise UsageError(f"peer {name!r}: {module_name} has no {path}")
        found = getattr(found, part)
    return _from_callable(name, found, spec, arguments)


def _from_callable(name: str, function: Any, spec: OperatorSpec, arguments: Mapping[str, Any]) -> Recipe:
    """A function with the operator's parameters, and `out` where it has one."""
    if not callable(function):
        raise UsageError(f"peer {name!r} is a {type(function).__name__}, not a function")
    try:
        names = set(inspect.signature(function).parameters)
    except ValueError:
        names = set()
    call = f"function({_written(spec, arguments)}"
    takes_out = "out" in names
    space = {"function": function, **_scalars(spec, arguments)}
    return Recipe(f"{call})", f"{call}, out=out)" if takes_out else None, space)


def _scalars(spec: OperatorSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in spec.tensors}


def _written(spec: OperatorSpec, arguments: Mapping[str, Any]) -> str:
    """The arguments as a person writes them: tensors in order, scalars by name."""
    return ", ".join([*spec.tensors, *(f"{name}={name}" for name in _scalars(spec, arguments))])
