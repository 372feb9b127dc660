"""What can be compiled under controls and timed: the interface, its artifact, and how building fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any
from typing import Protocol
from typing import runtime_checkable
from typing import TypeAlias

from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.errors import BuildError
from kernelwright.errors import UsageError
from kernelwright.search import StageFailure
from kernelwright.space import Configuration
from kernelwright.space import Space

#: What an objective gets: `{}` (the baseline), a hex string, or a list of kernel parameters and hex string.
Config: TypeAlias = Any

#: What compilers say, in any case of letters, when it is they who failed, and not the source or the options.
_CRASHES = (
    "internal compiler error",
    "please submit a bug report",
    "stack dump:",
    "segmentation fault",
    "internal error",
    "died due to signal",
)


@dataclass(frozen=True)
class Artifact:
    """What was built, and what is known of it without running it.

    Two artifacts with the same `code_key` run the same instructions. `resources` are features by name, such
    as `spill_stores`; `seconds` is what the compilation took.
    """

    path: Path
    code_key: str
    log: str = ""
    resources: Mapping[str, float | int | str] = field(default_factory=dict)
    seconds: float = 0.0


class BuildFailure(StageFailure):
    """What could not be compiled; `status` is `build_failed`, `build_timeout` or `compiler_crashed`.

    The text is what the compiler said first, `log` all of it.
    """

    def __init__(self, status: str, reason: str, log: str = "") -> None:
        super().__init__(reason, kind=status)
        self.status = status
        self.log = log

    @classmethod
    def of(cls, error: BuildError) -> BuildFailure:
        """The failure that an error of build/ is."""
        return cls(build_status(error.status, error.log), str(error), error.log)


def build_status(status: str, log: str) -> str:
    """`compiler_crashed` where the log shows that the compiler failed rather than the source."""
    crashed = status == "build_failed" and any(mark in log.lower() for mark in _CRASHES)
    return "compiler_crashed" if crashed else status


@runtime_checkable
class Target(Protocol):
    """Something that can be compiled under controls and timed.

    `provider` is the space of its compiler's controls, `parameters` what else can be chosen about it (None:
    nothing). A configuration is `{}`, the baseline; else the hex string of controls or, where there are
    parameters, a list of them and the hex string, either of which may be None.
    """

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def provider(self) -> CompilerSearchSpace:
        """The controls of its compiler."""

    @property
    def parameters(self) -> Space | None:
        """What can be chosen besides."""

    def build(self, config: Config, /) -> Artifact:
        """Compile under a configuration, never taking for it what another configuration made.

        Raises BuildFailure.
        """

    def measure(self, artifact: Artifact, /) -> float:
        """Seconds of one call, judged right first. Raises StageFailure, its kind says what is wrong."""

    def describe(self) -> dict[str, Any]:
        """Plain JSON from which the target can be made again; kept in the journal of a run."""


def split_config(config: Config, *, mixed: bool) -> tuple[Configuration, str | None]:
    """Kernel parameters and hex string of a configuration; `mixed`: whether it has both.

    What is absent is left to the defaults: no parameters, no controls (None). Raises UsageError for a
    configuration of the wrong form.
    """
    if isinstance(config, Mapping) and not config:
        return {}, None
    if isinstance(config, str):
        return {}, config
    if not mixed:
        raise UsageError(
            f"a configuration of compiler controls alone is a hex string or {{}}, not {config!r:.80}"
        )
    if not isinstance(config, list | tuple) or len(config) != 2:
        raise UsageError(
            f"a configuration of kernel parameters and controls is [parameters, hex string], a hex string or "
            f"{{}}, not {config!r:.80}"
        )
    parameters, controls = config
    return dict(parameters or {}), controls or None
