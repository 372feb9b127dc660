"""cuTile's hints as a search space."""

from __future__ import annotations

import inspect
import re
import tempfile
import warnings
from collections.abc import Iterable
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from typing import ClassVar

from kernelwright.controls._assignments import assignment
from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.controls._provider import Level
from kernelwright.controls._provider import selected
from kernelwright.controls._provider import Variant
from kernelwright.errors import MissingExtraError
from kernelwright.errors import NoCompilerError
from kernelwright.space import Choice
from kernelwright.space import Parameter
from kernelwright.space import Value

#: No hint has a value beyond; which of them is legal, cuTile itself says.
_TRIED = range(65)
#: Level 3 is where it stands unless told; lower ones compile faster and are what a canary needs.
_LEVEL = "opt_level"
_ABOUT: Mapping[str, str] = {
    "default": r"opt_level|num_ctas|occupancy|num_worker_warps",
    "attention": r"num_ctas|occupancy|num_worker_warps",
    "memory_bound": r"occupancy|num_worker_warps",
    "wide": r"",
}


class TileSearchSpace(CompilerSearchSpace):
    """The hints that the cuTile that is here takes, with the values that it accepts.

    Args:
        compiler: the tileiras to ask for its version, else the one that cuTile finds.
        arch: compute capability, 90 for sm_90.
        variant: `default`; `attention` (clusters, occupancy, warps); `memory_bound` (occupancy, warps);
            `wide` (all, and every value).
        unsafe_math: no hint changes results; taken for the sake of the other spaces.
        options: names such as `occupancy`, to search these alone.
        knockout_prob: the chance of each hint to be left to the kernel's own.

    Raises MissingExtraError without cuTile, NoCompilerError without a tileiras, UnknownNameError for a hint
    that it does not have.
    """

    tool: ClassVar[str] = "cutile"
    title: ClassVar[str] = "cuTile"

    def __init__(
        self,
        compiler: Path | str | None = None,
        *,
        arch: int = 90,
        variant: Variant = "default",
        unsafe_math: bool = False,
        options: Iterable[str] | None = None,
        knockout_prob: float = 0.4,
    ) -> None:
        self.arch = arch
        path, release = _tileiras(None if compiler is None else Path(compiler))
        known = hints(every_value=variant == "wide")
        about = _ABOUT.get(variant, "")
        named = [name for name in known if re.match(about, name)]
        super().__init__(
            path,
            f"cuda-tile {_module().__version__}, tileiras {release}, sm_{arch}",
            selected(known, named if options is None else options, self.title),
            _LEVELS,
            variant=variant,
            unsafe_math=unsafe_math,
            knockout_prob=knockout_prob,
        )

    def _word(self, name: str, value: Value) -> str:
        assert isinstance(value, bool | int | str)
        return assignment(name, value)


_LEVELS: Mapping[Level, tuple[str, ...]] = {
    "lowest": ("opt_level=0",),
    "baseline": ("opt_level=3",),
    "highest": ("opt_level=3",),
}


def hints(*, every_value: bool = False) -> dict[str, Parameter]:
    """The hints of a kernel, with the numbers that each takes, found by trying; a few of many unless asked.

    Raises MissingExtraError.
    """
    kernel = _module().kernel
    found: dict[str, Parameter] = {}
    for name, parameter in inspect.signature(kernel.__init__).parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        legal = [value for value in _TRIED if _takes(kernel, name, value) and _compiles(name, value)]
        if name == _LEVEL:
            legal = [value for value in legal if value > 0]
        if not every_value and len(legal) > 8:
            legal = [value for value in legal if value <= 8 or value & (value - 1) == 0]
        if legal:
            default = parameter.default if parameter.default in legal else None
            found[name] = Choice(legal, default=default, log=legal[0] > 0)
    return found


def _takes(kernel: type, name: str, value: int) -> bool:
    def nothing() -> None:
        pass

    try:
        kernel(nothing, **{name: value})
    except (TypeError, ValueError):
        return False
    return True


def _compiles(name: str, value: int) -> bool:
    """Whether the tileiras that is here is given a hint as it stands.

    The kernel takes values that only a later tileiras knows; what becomes of them shows as it is compiled,
    where cuTile resolves them against the version that it writes for.
    """
    from cuda.tile import _compile
    from cuda.tile import _ir2bytecode

    resolve = getattr(_ir2bytecode, f"_resolve_{name}", None)
    if resolve is None or len(inspect.signature(resolve).parameters) != 2:
        return True
    version = _compile._get_max_supported_bytecode_version(tempfile.gettempdir())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a value that it leaves out
        try:
            return bool(resolve(value, version) == value)
        except _module().TileError:
            return False


def _module() -> Any:
    try:
        import cuda.tile
    except ImportError:
        raise MissingExtraError(
            "cuda-tile", "cutile", "to compile cuTile kernels and to ask for its hints"
        ) from None
    return cuda.tile


def _tileiras(path: Path | None) -> tuple[Path, str]:
    """The tileiras that cuTile runs, and its release."""
    _module()
    from cuda.tile import _compile

    try:
        found = Path(_compile._find_compiler_bin().path) if path is None else path.absolute()
    except FileNotFoundError as error:
        raise NoCompilerError(
            f"cuTile finds no tileiras ({error}); pip install 'kernelwright[cuda-toolchain]'"
        ) from error
    said = re.search(r"\bV(\d[\d.]*)", _compile._try_get_compiler_version(str(found)) or "")
    if said is None:
        raise NoCompilerError(f"{found} does not say its version; name a tileiras that runs here")
    return found, said[1]
