"""A vendor's own control files as candidates: chosen between, carried, and never read or made."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from kernelwright.controls._codec import Controls
from kernelwright.controls._codec import decode_controls
from kernelwright.controls._codec import encode_controls
from kernelwright.controls._errors import ControlsError
from kernelwright.errors import SpaceError
from kernelwright.space import choice
from kernelwright.space import Configuration
from kernelwright.space import Knockout
from kernelwright.space import Space

_FILE = "file"


class VendorFiles:
    """One control file, or a folder of them, as a search space: the choice of one, a provider for `Search`.

    The objective gets the bytes of a file as a hex string, for the adapter of the tool (`--apply-controls`,
    ptxas and tileiras from 13.3 on), or `{}` where none is chosen. Each is named by its name and the
    beginning of its SHA-256, so that a file that was replaced is another candidate, and another search space.

    Args:
        path: a file, or a folder, of which all files are candidates that are not hidden; folders in it are
            not entered.
        tool: the tool that they are for.
        knockout_prob: the chance of choosing none.

    Raises ControlsError for a folder without files, an empty file, and one that holds options as text.
    """

    def __init__(self, path: Path | str, *, tool: str = "ptxas", knockout_prob: float = 0.1) -> None:
        self.tool = tool
        self._configs: dict[str, str] = {}
        for file in _files(Path(path)):
            data = file.read_bytes()
            if not data:
                raise ControlsError(f"{file} is empty; take it out of the candidates")
            if decode_controls(data.hex()) is not None:
                raise ControlsError(
                    f"{file} holds options as text and is no vendor's file; `load_compiler_config` reads it, "
                    "and a search space of its tool takes them as a configuration"
                )
            self._configs[f"{file.name}@{hashlib.sha256(data).hexdigest()[:12]}"] = data.hex()
        self._names = {config: name for name, config in self._configs.items()}
        self._space = Space({_FILE: Knockout(choice(list(self._configs)), knockout_prob)})

    def __repr__(self) -> str:
        return f"VendorFiles({', '.join(self._configs)}, tool={self.tool!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """The candidates."""
        return tuple(self._configs)

    def space(self) -> Space:
        """The flat space: which file."""
        return self._space

    def render(self, configuration: Configuration) -> str:
        """The bytes of the file chosen, in hex; where none is, the text of no options.

        Raises SpaceError for a name that is not among them.
        """
        name = configuration[_FILE]
        if name is None:
            return encode_controls(Controls(self.tool, ()))
        if name not in self._configs:
            raise SpaceError(f"there is no control file {name!r}; it is one of {', '.join(self._configs)}")
        return self._configs[str(name)]

    def parse(self, text: str) -> Configuration:
        """Which file these bytes are. Raises SpaceError for those of none."""
        if text == self.render({_FILE: None}):
            return {_FILE: None}
        if text not in self._names:
            raise SpaceError(f"these are the bytes of none of the control files {list(self._configs)}")
        return {_FILE: self._names[text]}

    def pin(self) -> dict[str, Any]:
        """What results hold for: the tool; the files are in the names of the space."""
        return {"tool": self.tool}


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ControlsError(f"there is no file or folder {path} of control files; name one")
    found = [one for one in sorted(path.iterdir()) if one.is_file() and not one.name.startswith(".")]
    if not found:
        raise ControlsError(f"the folder {path} has no control files in it; put those of the vendor there")
    return found
