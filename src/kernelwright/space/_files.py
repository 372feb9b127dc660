"""Spaces in files: own JSON, T1 and ConfigSpace."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any
from typing import Final
from typing import Literal
from typing import TypeAlias

from kernelwright import files
from kernelwright.errors import FileFormatError
from kernelwright.errors import UsageError
from kernelwright.space._plain import space_from_plain
from kernelwright.space._plain import space_to_plain
from kernelwright.space._space import Space

#: The schema of files that hold a flat space.
SCHEMA: Final = "kernelwright.space"
VERSION: Final = 1
Format: TypeAlias = Literal["json", "t1", "configspace"]


def save(space: Space, path: str | Path, format: Format = "json") -> None:
    """Write a flat space: own JSON, T1 (Kernel Tuner, BAT) or ConfigSpace's JSON.

    Raises NotRepresentableError naming what the format cannot hold, UsageError for an unknown format.
    """
    path = Path(path)
    if format == "json":
        files.write_json(path, SCHEMA, VERSION, space_to_plain(space))
    elif format == "t1":
        from kernelwright.space._t1 import to_t1

        files.write_atomic(path, json.dumps(to_t1(space, path.name.partition(".")[0]), indent=1) + "\n")
    elif format == "configspace":
        from kernelwright.space._configspace_save import configspace_document

        files.write_atomic(path, json.dumps(configspace_document(space), indent=1) + "\n")
    else:
        raise UsageError(f"there is no format {format!r} for a space; use 'json', 't1' or 'configspace'")


def load(path: str | Path) -> Space:
    """Read a flat space from any of the formats of `save`, also gzipped; told apart by what is in it.

    Raises FileNotFoundError; FileFormatError for a file that is none of these or cut short; SpaceError
    for a space that makes no sense; NotRepresentableError for what a space here cannot hold.
    """
    path = Path(path)
    document = _document(path)
    if document.get("schema") == SCHEMA:
        if document.get("version") != VERSION:
            found = document.get("version")
            raise FileFormatError(path, f"schema {SCHEMA!r} version {found!r}; this release reads {VERSION}")
        return space_from_plain(document)
    if "ConfigurationSpace" in document:
        from kernelwright.space._t1 import from_t1

        return from_t1(document)
    if "hyperparameters" in document:
        from kernelwright.space._configspace import from_configspace

        return from_configspace(document)
    raise FileFormatError(
        path,
        f"holds no space: neither the schema {SCHEMA!r}, nor T1 (ConfigurationSpace), nor ConfigSpace "
        f"(hyperparameters); its keys are {sorted(document)[:8]}",
    )


def _document(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
        text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        document = json.loads(text)
    except (gzip.BadGzipFile, EOFError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FileFormatError(path, f"not valid JSON ({error})") from error
    if not isinstance(document, dict):
        raise FileFormatError(path, f"holds a {type(document).__name__}, not a space")
    return document
