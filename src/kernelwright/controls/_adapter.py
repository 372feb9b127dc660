"""How options reach one tool: what its command line, environment, keywords or files get."""

from __future__ import annotations

import secrets
from abc import ABC
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from typing import ClassVar
from typing import TypeVar

from kernelwright.controls._codec import Controls
from kernelwright.controls._codec import decode_controls
from kernelwright.controls._errors import ControlsError
from kernelwright.errors import UnknownNameError


@dataclass(frozen=True)
class Injection:
    """What a build is given so that the options reach the tool; empty for the baseline.

    `arguments` go on the command line behind the target's own, `environment` into the environment of the
    build, `keywords` into the call (Triton, cuTile), `files` are those written for it.
    """

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    keywords: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    files: tuple[Path, ...] = ()


class Adapter(ABC):
    """Brings configurations of `tool` to where `name` compiles; one object serves any number of builds."""

    #: Whose options: the name in the schema line.
    tool: ClassVar[str]
    #: What is compiled with: `adapter(name)`.
    name: ClassVar[str]

    def inject(self, config: str | Mapping[str, Any], folder: Path) -> Injection:
        """How this configuration reaches the tool; a file that it needs is a fresh one in `folder`.

        BASELINE_CONFIG, `{}`, needs nothing. Raises ControlsError for what is malformed, for options of
        another tool, and for a vendor's control file where the tool does not take one.
        """
        if isinstance(config, Mapping) and not config:
            return Injection()
        controls = decode_controls(config)  # type: ignore[arg-type]
        if controls is None:
            return self._opaque(bytes.fromhex(config), folder)  # type: ignore[arg-type]
        if controls.tool != self.tool:
            raise ControlsError(
                f"options of {controls.tool} cannot reach {self.name}, which takes those of {self.tool}; use "
                f"the adapter of {controls.tool}, or a search space of {self.tool}"
            )
        return self._render(controls, folder)

    @abstractmethod
    def _render(self, controls: Controls, folder: Path) -> Injection:
        """The injection of these options, which are well-formed and of this tool."""

    def _opaque(self, data: bytes, folder: Path) -> Injection:
        """The injection of a vendor's control file with this content."""
        raise ControlsError(
            f"{self.name} has no option that takes a vendor's control file ({len(data)} bytes); ptxas and "
            "tileiras have one from 13.3 on"
        )

    def fresh(self, folder: Path, suffix: str, content: str | bytes) -> Path:
        """Write a file that did not exist before, under a name that no other call is given."""
        folder.mkdir(parents=True, exist_ok=True)
        path = (folder / f"{self.name}-{secrets.token_hex(8)}{suffix}").absolute()
        with path.open("xb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
        return path

    def fresh_folder(self, folder: Path) -> Path:
        """Make an empty folder under a name that no other call is given."""
        path = (folder / f"{self.name}-{secrets.token_hex(8)}").absolute()
        path.mkdir(parents=True)
        return path


_adapters: dict[str, type[Adapter]] = {}
_Kind = TypeVar("_Kind", bound=type[Adapter])


def register_adapter(kind: _Kind) -> _Kind:
    """Class decorator: let `adapter(kind.name)` find it."""
    _adapters[kind.name] = kind
    return kind


def adapter(name: str) -> Adapter:
    """The adapter of this name. Raises UnknownNameError."""
    if name not in _adapters:
        raise UnknownNameError("adapter", name, _adapters)
    return _adapters[name]()
