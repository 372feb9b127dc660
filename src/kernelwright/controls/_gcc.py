"""GCC's optimisation options as a search space."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path

from kernelwright.controls._codec import Controls
from kernelwright.controls._codec import decode_controls
from kernelwright.controls._codec import encode_controls
from kernelwright.controls._gcc_options import find_gcc
from kernelwright.controls._gcc_options import read_options
from kernelwright.controls._gcc_options import read_params
from kernelwright.errors import SpaceError
from kernelwright.errors import UnknownNameError
from kernelwright.space import Choice
from kernelwright.space import Configuration
from kernelwright.space import Knockout
from kernelwright.space import Parameter
from kernelwright.space import Space
from kernelwright.space import Value

_LEVEL = "-O"


class GccSearchSpace:
    """The options of the GCC that is here, as it lists them itself: a provider for `Search`.

    A configuration says for each option what it shall be, or nothing (it is knocked out: the level's own
    setting stays). The objective gets a hex string, for `save_compiler_config` and then `g++ @file`; where
    everything is knocked out, `{}`. Options that change the meaning of a program (the ABI, hardening, debug)
    are left out, and those that change results of floating point as well, unless `unsafe_math`.

    Args:
        compiler: a path; else the first GCC of `kernelwright.machine.find_compilers`.
        levels: what is chosen from as `-O…`; the first is the default.
        options: names such as `-funroll-loops`, to search these alone.
        params: True for the `--param`s about loops, inlining, vectors and the like, False for none, or names.
        unsafe_math: also the options that change results.
        knockout_prob: the chance of each option to be left to the level.

    Raises NoCompilerError when there is no GCC here; UnknownNameError for an option that it does not have.
    """

    tool = "gcc"

    def __init__(
        self,
        compiler: Path | str | None = None,
        *,
        levels: Sequence[str] = ("-O2", "-O3"),
        options: Iterable[str] | None = None,
        params: bool | Iterable[str] = True,
        unsafe_math: bool = False,
        knockout_prob: float = 0.8,
    ) -> None:
        found = find_gcc(compiler)
        self.compiler = found.path
        #: What `-O…` is one of, with what is in front of it.
        self._levels = {level.removeprefix(_LEVEL): level for level in levels}
        parameters: dict[str, Parameter] = {}
        known = read_options(found, unsafe=unsafe_math)
        for name in known if options is None else options:
            if name not in known:
                raise UnknownNameError("option of GCC", name, known)
            parameters[name] = known[name]
        if params is not False:
            parameters |= read_params(found, among=None if params is True else params)
        self._kinds = parameters
        flat: dict[str, Parameter] = {_LEVEL: Choice(list(self._levels))} if self._levels else {}
        self._space = Space(
            {name: Knockout(one, knockout_prob) for name, one in {**flat, **parameters}.items()}
        )

    def space(self) -> Space:
        """The flat space: `-O`, and each option by its name."""
        return self._space

    def render(self, configuration: Configuration) -> str:
        """The hex string of the options that are there, the level first."""
        words = [self._word(name, value) for name, value in configuration.items() if value is not None]
        return encode_controls(Controls(self.tool, tuple(words)))

    def parse(self, text: str) -> Configuration:
        """The configuration whose options are these, in any order.

        Raises SpaceError for options of another compiler or outside this space, UsageError for what is no
        compiler configuration.
        """
        controls = decode_controls(text)
        if controls is None or controls.tool != self.tool:
            whose = "a vendor's control file" if controls is None else f"options of {controls.tool}"
            raise SpaceError(f"{whose} cannot be a configuration of GCC's search space")
        configuration: Configuration = dict.fromkeys(self._space.parameters)
        for word in controls.options:
            name, value = self._read(word)
            configuration[name] = value
        return self._space.validate(configuration)

    def _word(self, name: str, value: Value) -> str:
        if name == _LEVEL:
            return f"{_LEVEL}{value}"
        if isinstance(value, bool):
            return name if value else f"-fno-{name.removeprefix('-f')}"
        return f"{name}={value}"

    def _read(self, word: str) -> tuple[str, Value]:
        if word.startswith(_LEVEL):
            return _LEVEL, word.removeprefix(_LEVEL)
        name, _, given = word.rpartition("=") if "=" in word else (word, "", "")
        if given:
            kind = self._kinds.get(name)
            as_number = kind is not None and given.isdigit() and kind.contains(int(given))
            value: Value = int(given) if as_number else given
        elif word.startswith("-fno-") and word not in self._kinds:
            name, value = f"-f{word.removeprefix('-fno-')}", False
        else:
            value = True
        if name not in self._kinds:
            raise SpaceError(f"{word!r} is not among the options of this space")
        return name, value
