"""The files that a verdict stands on, before and after: the harness, and the user's reference."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import kernelwright

_KINDS = (".py", ".so", ".cpp", ".h", ".toml")


def fingerprint(baseline: Path) -> dict[Path, str]:
    """A hash of every file of the harness, and of the reference; a file that is gone has none."""
    root = Path(kernelwright.__file__).parent
    files = sorted(path for path in root.rglob("*") if path.suffix in _KINDS and path.is_file())
    return {path: _hash(path) for path in (*files, baseline.absolute())}


def changed(before: Mapping[Path, str], after: Mapping[Path, str]) -> list[Path]:
    """The files that are not what they were."""
    return [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
