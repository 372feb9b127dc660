"""A compiler's options as a search space: what all compilers have in common."""

from __future__ import annotations

from abc import ABC
from abc import abstractmethod
from collections.abc import Iterable
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from typing import ClassVar
from typing import get_args
from typing import Literal

from kernelwright.controls._codec import Controls
from kernelwright.controls._codec import decode_controls
from kernelwright.controls._codec import encode_controls
from kernelwright.errors import SpaceError
from kernelwright.errors import UnknownNameError
from kernelwright.space import Configuration
from kernelwright.space import ConstraintLike
from kernelwright.space import Knockout
from kernelwright.space import Parameter
from kernelwright.space import Space
from kernelwright.space import Value

#: `default`: options that pay in most kernels. `attention`: main loops of products and reductions in
#: registers. `memory_bound`: streams of loads and stores. `wide`: all that the compiler lists.
Variant = Literal["default", "attention", "memory_bound", "wide"]
Level = Literal["lowest", "baseline", "highest"]
VARIANTS: tuple[str, ...] = get_args(Variant)
#: Parameters with this many values or fewer are read back from a table of what each renders as.
_TABULATED = 256


class CompilerSearchSpace(ABC):
    """The options of a compiler that is here, as it lists them itself: a provider for `Search`.

    A configuration says for each option what it shall be, or nothing (it is knocked out: the compiler's own
    setting stays). The objective gets a hex string; where everything is knocked out, `{}`. The compiler's
    version is part of the search space's fingerprint, and of every journal.

    Args of subclasses, at least: `compiler`, a path, else the one found; `variant`; `unsafe_math`, also the
    options that change results; `options`, names, to search these alone; `knockout_prob`, the chance of each
    option to be left alone.
    """

    #: The name in the schema line of its configurations.
    tool: ClassVar[str]
    #: What to call the compiler in a sentence.
    title: ClassVar[str]
    #: The options that are each level of the canary; all options that are named must be there explicitly.
    levels: Mapping[Level, tuple[str, ...]]
    #: The program that was asked, or None where a library is the compiler.
    compiler: Path | None
    #: Which compiler it is: its kind, version and target, wherever it lies.
    version: str

    def __init__(
        self,
        compiler: Path | None,
        version: str,
        parameters: Mapping[str, Parameter],
        levels: Mapping[Level, tuple[str, ...]],
        *,
        variant: Variant = "default",
        unsafe_math: bool = False,
        knockout_prob: float = 0.8,
        constraints: Iterable[ConstraintLike] = (),
    ) -> None:
        if variant not in VARIANTS:
            raise UnknownNameError("variant of a compiler's search space", variant, VARIANTS)
        self.compiler, self.version = compiler, version
        self.variant: Variant = variant
        self.unsafe_math = unsafe_math
        self.levels = dict(levels)
        self._kinds = dict(parameters)
        self._space = Space(
            {name: Knockout(one, knockout_prob) for name, one in parameters.items()}, constraints
        )
        self._words: dict[str, tuple[str, Value]] | None = None
        self._prefixes: list[tuple[str, str]] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.version}, variant={self.variant!r}, options={len(self._kinds)})"

    @abstractmethod
    def _word(self, name: str, value: Value) -> str:
        """The option, in one line, that sets a parameter; a value out of many stands at its end."""

    def space(self) -> Space:
        """The flat space: each option by its name."""
        return self._space

    def render(self, configuration: Configuration) -> str:
        """The hex string of the options that are there, in the order of the space."""
        words = [self._word(name, value) for name, value in configuration.items() if value is not None]
        return encode_controls(Controls(self.tool, tuple(words)))

    def parse(self, text: str) -> Configuration:
        """The configuration whose options are these, in any order.

        Raises SpaceError for options of another compiler or outside this space, ControlsError for what is no
        compiler configuration.
        """
        controls = decode_controls(text)
        if controls is None or controls.tool != self.tool:
            whose = "a vendor's control file" if controls is None else f"options of {controls.tool}"
            raise SpaceError(f"{whose} cannot be a configuration of {self.title}'s search space")
        configuration: Configuration = dict.fromkeys(self._space.parameters)
        for word in controls.options:
            name, value = self._read(word)
            configuration[name] = value
        return self._space.validate(configuration)

    def level(self, name: Level) -> str:
        """The hex string of a level, explicit: `lowest`, `baseline` (what the target uses) or `highest`."""
        if name not in self.levels:
            raise UnknownNameError(f"level of {self.title}", name, self.levels)
        return encode_controls(Controls(self.tool, self.levels[name]))

    def pin(self) -> dict[str, Any]:
        """What results hold for: part of the search space's JSON and fingerprint."""
        return {
            "tool": self.tool,
            "version": self.version,
            "variant": self.variant,
            "unsafe_math": self.unsafe_math,
        }

    def _read(self, word: str) -> tuple[str, Value]:
        """The parameter that an option sets, and its value. Raises SpaceError where there is none."""
        if self._words is None:
            self._words = self._tabulated()
        if word in self._words:
            return self._words[word]
        for prefix, name in self._prefixes:
            if word.startswith(prefix):
                value = _number(word.removeprefix(prefix))
                if value is not None:
                    return name, value
        raise SpaceError(f"{word!r} is not among the options of this space")

    def _tabulated(self) -> dict[str, tuple[str, Value]]:
        words: dict[str, tuple[str, Value]] = {}
        for name, kind in self._kinds.items():
            values = kind.values()
            if values is not None and len(values) <= _TABULATED:
                words |= {self._word(name, value): (name, value) for value in values}
            else:
                self._prefixes.append((self._word(name, kind.default).removesuffix(str(kind.default)), name))
        self._prefixes.sort(key=lambda one: len(one[0]), reverse=True)
        return words


def selected(
    known: Mapping[str, Parameter], options: Iterable[str] | None, title: str
) -> dict[str, Parameter]:
    """The options named, in that order; all of them where None. Raises UnknownNameError."""
    if options is None:
        return dict(known)
    chosen = {}
    for name in options:
        if name not in known:
            raise UnknownNameError(f"option of {title}", name, known)
        chosen[name] = known[name]
    return chosen


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None
