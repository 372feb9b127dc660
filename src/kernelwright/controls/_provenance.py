"""What a win under controls depends on, and whether that still holds here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright import machine
from kernelwright.controls._native import NativeTarget
from kernelwright.controls._target import Target
from kernelwright.errors import KernelwrightError
from kernelwright.errors import NoCompilerError
from kernelwright.kernels.cpu import NativeKernel

#: What controls depend on. A proof that lacks one of them, where it can be known here, proves nothing here.
NEEDED = ("source", "compiler", "architecture", "driver")


class WinnerRefusedError(KernelwrightError):
    """A winner that may not be used here; `reasons` say what is not as it was when it won."""

    def __init__(self, name: str, reasons: tuple[str, ...]) -> None:
        self.reasons = reasons
        super().__init__(
            f"the winner {name} is refused: {'; '.join(reasons)}; validate it again here "
            "(`kernelwright search validate`, `kernelwright controls try`)"
        )


def provenance_of(target: Target) -> dict[str, str]:
    """What results of a target hold for: `source` (hash), `compiler`, `architecture` and `driver`.

    `driver` only where a GPU runs it. A target may say it itself, with a method `provenance`.
    """
    own = getattr(target, "provenance", None)
    if own is not None:
        return {str(name): str(value) for name, value in own().items()}
    compiler = str(getattr(target.provider, "version", ""))
    if isinstance(target, NativeTarget):
        return native_provenance(target.kernel, target.tier, _compiler_of(target))
    described = target.describe()
    found = {"source": _digest(described), "compiler": compiler}
    architecture = described.get("arch") or described.get("architecture")
    gpus = machine.current().gpus
    if architecture or gpus:
        found["architecture"] = " ".join(str(part) for part in (architecture, gpus and gpus[0].name) if part)
    else:
        found["architecture"] = machine.current().cpu.architecture
    if gpus:
        found["driver"] = gpus[0].driver
    return found


def native_provenance(kernel: NativeKernel, tier: str, compiler: str) -> dict[str, str]:
    """The same for one of our C++ kernels, in the words in which dispatch compares them."""
    return {
        "source": kernel.request({}, tier).source_key,
        "compiler": compiler,
        "tier": tier,
        "architecture": machine.current().cpu.architecture,
    }


def differences(proven: Mapping[str, str], here: Mapping[str, str]) -> tuple[str, ...]:
    """What is not here as it was when something won, in words; empty where all is the same.

    What is needed and was not noted counts as different: nothing says that it is the same.
    """
    said = []
    for name, value in here.items():
        was = proven.get(name)
        if was is None and name in NEEDED:
            said.append(f"it does not say which {name} it won with; here it is {_short(value)}")
        elif was is not None and was != value:
            said.append(f"it won with {name} {_short(was)}; here it is {_short(value)}")
    for name in NEEDED:
        if proven.get(name) and name not in here:
            said.append(f"it won with {name} {_short(proven[name])}; here there is none")
    return tuple(said)


def refuse_unless_same(name: str, proven: Mapping[str, str], target: Target) -> None:
    """Raise WinnerRefusedError unless source, compiler, architecture and driver are those it won with."""
    reasons = differences(proven, provenance_of(target))
    if reasons:
        raise WinnerRefusedError(name, reasons)


def _compiler_of(target: NativeTarget) -> str:
    try:
        return str(target.request({}).chosen_compiler)
    except NoCompilerError:
        return "none"


def _digest(described: Mapping[str, Any]) -> str:
    """Over the files that a description names, by content; over its text where it names none."""
    digest = hashlib.sha256()
    named = False
    for name in sorted(described):
        value = described[name]
        path = Path(value) if isinstance(value, str) and value and "\0" not in value else None
        if path is not None and path.is_absolute() and path.is_file():
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
            named = True
    if not named:
        digest.update(repr(sorted((name, repr(value)) for name, value in described.items())).encode())
    return digest.hexdigest()[:32]


def _short(text: str) -> str:
    return text if len(text) <= 48 else f"{text[:12]}…"
