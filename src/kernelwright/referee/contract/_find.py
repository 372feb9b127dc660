"""Finding the callable that a candidate names, and building it where it is a class; runs in its process."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import torch

_import_module = importlib.import_module
_seed = torch.manual_seed
_no_grad = torch.no_grad
_copy = torch.Tensor.copy_
_Module = torch.nn.Module
_named_parameters = torch.nn.Module.named_parameters
_named_buffers = torch.nn.Module.named_buffers


class NotFoundError(Exception):
    """The package has no such callable."""


def files_of(package: str) -> tuple[str, ...]:
    """Where the code of a package lies, links resolved: its folder, or the file of a single module.

    Empty when it cannot be found; importing it will say why.
    """
    top = package.partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return ()
    if spec is None:
        return ()
    if spec.submodule_search_locations:
        places = [*spec.submodule_search_locations]
        places = [place.rstrip(os.sep) + os.sep for place in (*places, *map(os.path.realpath, places))]
    else:
        places = [spec.origin, os.path.realpath(spec.origin)] if spec.origin else []
    return tuple({*places})


def find(package: str, op: str) -> Any:
    """The object that `op` names in `package`; modules on the way are imported.

    Raises NotFoundError, and whatever importing raises.
    """
    target = _import_module(package)
    names, front = op.split("."), package.split(".")
    if names[: len(front)] == front:
        names = names[len(front) :]
    if not names:
        raise NotFoundError(f"{op!r} names a package, not a callable in it; name a function or class")
    path = package
    for name in names:
        try:
            target = getattr(target, name)
        except AttributeError:
            target = _submodule(f"{path}.{name}", path, name)
        path = f"{path}.{name}"
    if not callable(target):
        raise NotFoundError(f"{path} is a {type(target).__name__}, which cannot be called")
    return target


def _submodule(path: str, parent: str, name: str) -> Any:
    try:
        return _import_module(path)
    except ModuleNotFoundError as error:
        # Only the module asked for is "not there"; one that it imports itself is an error of its own.
        if error.name is not None and path.startswith(error.name):
            known = ", ".join(
                sorted(one for one in vars(sys.modules[parent]) if not one.startswith("_"))[:20]
            )
            raise NotFoundError(f"{parent} has no {name!r}; it has {known}") from None
        raise


def build(
    kind: type, init: Sequence[Any], seed: int, state: Mapping[str, torch.Tensor]
) -> tuple[Callable[..., Any], dict[str, str]]:
    """An object of a candidate's class, and for each tensor of `state` "" or why it was not taken."""
    _seed(seed)
    made = kind(*init)
    if not callable(made):
        raise NotFoundError(f"objects of {kind.__name__} cannot be called; define forward or __call__")
    own = state_of(made)
    told = {}
    for name, tensor in state.items():
        mine = own.get(name)
        if mine is None:
            told[name] = "the candidate has no parameter or buffer of this name"
        elif mine.shape != tensor.shape:
            told[name] = f"the candidate's has shape {tuple(mine.shape)}, not {tuple(tensor.shape)}"
        else:
            with _no_grad():
                _copy(mine, tensor)
            told[name] = ""
    return made, told


def state_of(made: object) -> dict[str, torch.Tensor]:
    """The parameters and buffers of a module by name; nothing for other objects."""
    if not isinstance(made, _Module):
        return {}
    return {**dict(_named_parameters(made)), **dict(_named_buffers(made))}
