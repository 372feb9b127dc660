"""What TARGET means to `kernelwright controls`: an operator of ours, or a Python file with a target."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from typing import Any
from typing import TYPE_CHECKING

from typer import Argument
from typer import Option

if TYPE_CHECKING:
    from kernelwright.controls import CompilerSearchSpace
    from kernelwright.controls import Target

TargetName = Annotated[
    str, Argument(metavar="TARGET", help="An operator, or a Python file with `target` or `make_target()`.")
]
Workload = Annotated[str | None, Option(help="Sizes of an operator, such as 512x11008.")]
Dtype = Annotated[str | None, Option(help="Of an operator's inputs; bf16 unless given.")]
CompilerName = Annotated[str | None, Option("--compiler", help="gcc, clang, or the path of one.")]
Variant = Annotated[
    str | None, Option(help="Which options: default, attention, memory_bound or wide (all there are).")
]
UnsafeMath = Annotated[bool, Option("--unsafe-math", help="Also options that change results.")]
NoParameters = Annotated[bool, Option("--no-parameters", help="Controls alone, no kernel parameters.")]
Json = Annotated[bool, Option("--json", help="Print one JSON object, nothing else.")]


def read_target(
    word: str,
    *,
    workload: str | None,
    dtype: str | None,
    compiler: str | None,
    variant: str | None,
    unsafe_math: bool,
    no_parameters: bool,
) -> tuple[Target, Mapping[str, Any]]:
    """The target that TARGET names, and its description for a journal.

    Raises UsageError, UnknownNameError, NoCompilerError.
    """
    from kernelwright.controls import load_target
    from kernelwright.controls import NativeTarget
    from kernelwright.errors import UsageError

    if word.endswith(".py") or "/" in word:
        options = {
            "--workload": workload,
            "--dtype": dtype,
            "--compiler": compiler,
            "--variant": variant,
            "--unsafe-math": unsafe_math or None,
            "--no-parameters": no_parameters or None,
        }
        given = [name for name, value in options.items() if value is not None]
        if given:
            raise UsageError(f"{', '.join(given)}: only for operators; a target's file says the same itself")
        target = load_target(word)
        return target, {"kind": "file", "target": str(Path(word).absolute())}
    provider = _provider(compiler, variant, unsafe_math)
    native = NativeTarget(word, workload, provider, dtype=dtype or "bf16", parameters=not no_parameters)
    return native, native.describe()


def _provider(compiler: str | None, variant: str | None, unsafe_math: bool) -> CompilerSearchSpace:
    from kernelwright import machine
    from kernelwright.controls import provider_from
    from kernelwright.errors import NoCompilerError

    description: dict[str, Any] = {"variant": variant or "default", "unsafe_math": unsafe_math}
    if compiler in (None, "gcc", "clang"):
        kind = compiler or machine.find_compiler().kind
        return provider_from({"tool": kind, **description})
    found = machine.compiler_at(str(compiler))
    if found is None:
        raise NoCompilerError(f"{compiler!r} is no GCC or Clang; say gcc, clang, or the path of one")
    return provider_from({"tool": found.kind, "compiler": str(found.path), **description})
