"""What a build leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Artifact:
    """A built library and how it came about.

    `build_key` names what went in, `code_key` the code that came out: two builds with the same code key run
    the same instructions. `log` is what the compiler said, `seconds` what the compilation took when it was
    made, `cached` whether this call found it already made.
    """

    library: Path
    build_key: str
    code_key: str
    section: str
    tier: str | None
    compiler: str
    flags: tuple[str, ...]
    log: str
    seconds: float
    cached: bool
