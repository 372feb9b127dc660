"""Targets and providers as plain JSON, for the journal of a run, and back."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from kernelwright import controls
from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.controls._target import Target
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError

_PROVIDERS: Mapping[str, str] = {
    "gcc": "GccSearchSpace",
    "clang": "ClangSearchSpace",
    "ptxas": "PtxasSearchSpace",
    "nvcc": "NvccSearchSpace",
    "triton": "TritonSearchSpace",
    "cutile": "TileSearchSpace",
}
_makers: dict[str, Callable[[Mapping[str, Any]], Target]] = {}


def register_target(
    kind: str,
) -> Callable[[Callable[[Mapping[str, Any]], Target]], Callable[[Mapping[str, Any]], Target]]:
    """Decorator of the function that makes the targets whose description has this `kind`."""

    def enter(maker: Callable[[Mapping[str, Any]], Target]) -> Callable[[Mapping[str, Any]], Target]:
        _makers[kind] = maker
        return maker

    return enter


def target_from(description: Mapping[str, Any]) -> Target:
    """The target that `describe` described, as what is here now makes it.

    Raises UnknownNameError for a kind of target that is not known, and what making it raises.
    """
    kind = str(description.get("kind"))
    if kind not in _makers:
        raise UnknownNameError("kind of target", kind, _makers)
    return _makers[kind](description)


def provider_description(provider: CompilerSearchSpace) -> dict[str, Any]:
    """What `provider_from` reads: which compiler, and which of its options."""
    compiler = provider.compiler
    return {**provider.pin(), "compiler": None if compiler is None else str(compiler)}


def provider_from(description: Mapping[str, Any]) -> CompilerSearchSpace:
    """The options of the compiler described. Its version may be another by now: `version` of both tells.

    Raises UnknownNameError for a tool that is not known, NoCompilerError where the compiler is gone.
    """
    kind = provider_class(str(description.get("tool")))
    made: CompilerSearchSpace = kind(
        description.get("compiler"),
        variant=description.get("variant", "default"),
        unsafe_math=bool(description.get("unsafe_math", False)),
    )
    return made


def provider_class(tool: str) -> Any:
    """The search space of a tool's options. Raises UnknownNameError."""
    if tool not in _PROVIDERS or not hasattr(controls, _PROVIDERS[tool]):
        raise UnknownNameError("compiler with a search space", tool, _PROVIDERS)
    return getattr(controls, _PROVIDERS[tool])


def described(target: Target) -> dict[str, Any]:
    """The target's description. Raises UsageError where it has none that can be kept."""
    found = target.describe()
    if not isinstance(found, dict) or "kind" not in found:
        raise UsageError(f"{target.name} describes itself as {found!r:.80}, which names no `kind` of target")
    return found
