"""A search space read from a local file, as a provider."""

from __future__ import annotations

import json
from pathlib import Path

from kernelwright.errors import SpaceError
from kernelwright.space._constraints import Configuration
from kernelwright.space._space import Space

_SCHEMA = "kernelwright.configuration 1"


class LocalSearchSpace:
    """The space in a file (own JSON, T1, ConfigSpace JSON), whose configurations reach the objective as text.

    The text is a hex string of canonical text that a person can read: a line with the schema and the space's
    name, then `name=value` for each parameter that is there, the value as JSON. To get a dict instead, give
    `load(path)` to the search.

    Raises FileNotFoundError, FileFormatError for a file of no known format, SpaceError for what is in it.
    """

    def __init__(self, path: str | Path) -> None:
        from kernelwright.space._files import load

        self.name = Path(path).name.partition(".")[0]
        self._space = load(Path(path))

    @classmethod
    def of(cls, space: Space, name: str) -> LocalSearchSpace:
        """The provider of a space that was read before."""
        made = object.__new__(cls)
        made.name, made._space = name, space
        return made

    def __repr__(self) -> str:
        return f"LocalSearchSpace({self.name!r})"

    def space(self) -> Space:
        """The flat space in the file."""
        return self._space

    def render(self, configuration: Configuration) -> str:
        """The configuration as hex."""
        lines = [f"{_SCHEMA} {self.name}"]
        lines += [
            f"{name}={json.dumps(configuration[name], separators=(',', ':'))}"
            for name in self._space.parameters
            if configuration[name] is not None
        ]
        return "\n".join([*lines, ""]).encode().hex()

    def parse(self, text: str) -> Configuration:
        """The configuration of a text that `render` made. Raises SpaceError for any other."""
        try:
            first, *lines = bytes.fromhex(text).decode().splitlines()
        except (UnicodeDecodeError, ValueError) as error:
            raise SpaceError(f"{text[:40]!r} is not the hex text of a configuration: {error}") from error
        if first != f"{_SCHEMA} {self.name}":
            raise SpaceError(f"the configuration is of {first!r}, not of '{_SCHEMA} {self.name}'")
        found: Configuration = dict.fromkeys(self._space.parameters)
        # The longest name first: a name may hold an equals sign.
        names = sorted(self._space.parameters, key=len, reverse=True)
        for line in lines:
            name = next((name for name in names if line.startswith(f"{name}=")), None)
            if name is None:
                raise SpaceError(f"the configuration sets {line!r}, which is no parameter of {self.name}")
            try:
                found[name] = json.loads(line[len(name) + 1 :])
            except json.JSONDecodeError as error:
                raise SpaceError(f"the configuration's line {line!r} has no JSON value: {error}") from error
        return self._space.validate(found)
