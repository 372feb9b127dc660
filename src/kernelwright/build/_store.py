"""Where artifacts lie: one folder a build key, published whole, shared by all processes of a user."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright import settings
from kernelwright.build._artifact import Artifact
from kernelwright.errors import BuildError
from kernelwright.errors import FileFormatError
from kernelwright.files import read_json
from kernelwright.files import write_json

SCHEMA = "kernelwright.artifact"
VERSION = 1
LIBRARY = "kernel.so"
RECORD = "build.json"
_LOCKS = ".locks"
_SCRATCH = ".scratch"
#: A scratch folder younger than this may not have its owner's lock yet.
_SCRATCH_GRACE_S = 60.0


def store_dir() -> Path:
    """The folder of all artifacts."""
    return settings.cache_dir() / "artifacts"


def prepare() -> None:
    """Make sure that the store can be written. Raises BuildError that says how to use another folder."""
    folder = store_dir()
    try:
        for name in (_LOCKS, _SCRATCH):
            (folder / name).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder / _SCRATCH):
            pass
    except OSError as error:
        log = f"error: {error}; set KERNELWRIGHT_CACHE to a folder that can be written\n"
        raise BuildError("build_failed", f"the cache {folder}", "none was run", log) from error


def read(key: str) -> Artifact | None:
    """The artifact of this key, or None when it is not there or not whole."""
    folder = store_dir() / key
    library = folder / LIBRARY
    try:
        record = read_json(folder / RECORD, SCHEMA, VERSION)
        content = library.read_bytes()
    except (FileNotFoundError, FileFormatError, NotADirectoryError):
        return None
    if hashlib.sha256(content).hexdigest() != record.get("sha256"):
        return None
    return Artifact(
        library=library,
        build_key=key,
        code_key=record["code_key"],
        section=record["section"],
        tier=record["tier"],
        compiler=record["compiler"],
        flags=tuple(record["flags"]),
        log=record["log"],
        seconds=record["seconds"],
        cached=True,
    )


def keys_of_source(source_key: str) -> list[str]:
    """The build keys of all artifacts made from this source with these flags, by whatever compiler."""
    found = []
    for record in sorted(store_dir().glob(f"*/{RECORD}")):
        try:
            document = read_json(record, SCHEMA, VERSION)
        except (FileNotFoundError, FileFormatError):
            continue
        if document.get("source_key") == source_key:
            found.append(record.parent.name)
    return found


def publish(scratch: Path, key: str, record: Mapping[str, Any]) -> None:
    """Make `scratch`, which holds kernel.so, the artifact of `key`. The caller holds the key's lock.

    Everything is on disk before the one rename that makes it visible.
    """
    library = scratch / LIBRARY
    with library.open("rb") as stream:
        digest = hashlib.sha256(stream.read()).hexdigest()
        os.fsync(stream.fileno())
    write_json(scratch / RECORD, SCHEMA, VERSION, {**record, "sha256": digest})
    target = store_dir() / key
    if target.exists():
        # Not whole, or it would have been found. A process that has it loaded keeps its mapping.
        discarded = scratch.with_name(f"{scratch.name}.discarded")
        target.rename(discarded)
        scratch.rename(target)
        shutil.rmtree(discarded, ignore_errors=True)
    else:
        scratch.rename(target)


@contextlib.contextmanager
def try_lock(key: str) -> Iterator[bool]:
    """Hold the lock of one key if it is free now; yields whether it was. Freed when its holder dies."""
    with _lock_file(key).open("a+b") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def wait_until_free(key: str) -> None:
    """Wait until nobody holds the lock of this key."""
    with _lock_file(key).open("a+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)


def _lock_file(key: str) -> Path:
    return store_dir() / _LOCKS / key


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder to build in, on the store's file system; a later build removes it if we are killed."""
    parent = store_dir() / _SCRATCH
    _sweep(parent)
    folder = Path(tempfile.mkdtemp(dir=parent))
    try:
        with (folder / "owner").open("wb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Remove what builders left who are gone."""
    for folder in parent.iterdir():
        try:
            if time.time() - folder.stat().st_mtime < _SCRATCH_GRACE_S:
                continue
            with (folder / "owner").open("ab") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            # Somebody else's, being used or being removed.
            continue
