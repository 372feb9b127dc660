"""Files of ours: written atomically, with a schema version, locked while shared, set aside when broken."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import itertools
import json
import math
import os
import secrets
import tempfile
from collections.abc import Iterator
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from kernelwright.errors import FileFormatError


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write `content` to `path` so that a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, schema: str, version: int, payload: Mapping[str, Any]) -> None:
    """Write `payload` with its schema name and version, readable by a person."""
    document = {"schema": schema, "version": version, **payload}
    write_atomic(path, json.dumps(document, indent=1, sort_keys=False) + "\n")


def read_json(path: Path, schema: str, version: int) -> dict[str, Any]:
    """Read what `write_json` wrote.

    Raises FileFormatError when the file is cut short, of another schema, or newer than `version`;
    FileNotFoundError when it is not there.
    """
    try:
        document = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(path, f"not valid JSON ({error})") from error
    if not isinstance(document, dict) or document.get("schema") != schema:
        found = document.get("schema") if isinstance(document, dict) else type(document).__name__
        raise FileFormatError(path, f"expected schema {schema!r}, found {found!r}")
    if document.get("version") != version:
        raise FileFormatError(
            path, f"schema {schema!r} version {document.get('version')!r}; this release reads {version}"
        )
    return document


def as_plain(value: Any, *, finite: bool = True) -> Any:
    """Dataclasses, mappings, sequences and enumerations as what JSON knows; anything else as its text.

    NaN and infinity, which strict JSON lacks, become None unless `finite` is False.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            part.name: as_plain(getattr(value, part.name), finite=finite)
            for part in dataclasses.fields(value)
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {
            str(as_plain(key, finite=finite)): as_plain(item, finite=finite) for key, item in value.items()
        }
    if isinstance(value, (list, tuple, frozenset, set)):
        return [as_plain(item, finite=finite) for item in value]
    if isinstance(value, float) and finite and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def set_aside(path: Path) -> Path:
    """Rename a broken file so that it is kept but no longer in the way; return its new path."""
    for number in range(1, 10_000):
        target = path.with_name(f"{path.name}.broken-{number}")
        if not target.exists():
            path.replace(target)
            return target
    raise FileFormatError(path, "too many broken copies beside it; remove some")


def remove_tree(folder: Path) -> None:
    """Remove a folder that a stranger wrote, however deep; links are not followed.

    What cannot be removed stays, silently, as the folder is of no more use. `shutil.rmtree` gives up on trees
    deeper than the interpreter's stack, or than the descriptors it may open.
    """
    numbers = itertools.count()
    prefix = f"{secrets.token_hex(8)}-"
    with contextlib.suppress(OSError):
        folder.chmod(0o700)
        while entries := [*os.scandir(folder)]:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    Path(entry).unlink()
                    continue
                Path(entry).chmod(0o700)
                # Folders in it are moved up beside it, so that no path gets long.
                for inner in [*os.scandir(entry)]:
                    if inner.is_dir(follow_symlinks=False):
                        Path(inner).chmod(0o700)
                        Path(inner).rename(folder / f"{prefix}{next(numbers)}")
                    else:
                        Path(inner).unlink()
                Path(entry).rmdir()
        folder.rmdir()


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path` (created if absent) across processes; freed when its holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
