"""The file of a booster pack: a zip that is the same, byte for byte, for the same contents.

A pack holds `manifest.json`, one file of controls an entry, and `SHA256SUMS` over all of them in the form of
sha256sum. Members are stored, not compressed, in order of their names, all with one time and one mode: what a
pack contains determines every byte of it. So whoever reads one can make it again from what was read and
compare: no damage is too small to be found, and nothing can be hidden between the members. That it is whole
does not say who made it.
"""

from __future__ import annotations

import hashlib
import io
import re
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kernelwright.errors import KernelwrightError

MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"
FOLDER = "controls"
#: Bounds of a pack: what is beyond them is not read.
MOST_BYTES = 64 << 20
MOST_MEMBERS = 4096
MOST_MEMBER_BYTES = 16 << 20

_EPOCH = (1980, 1, 1, 0, 0, 0)
_SUM = re.compile(r"([0-9a-f]{64})  (\S.*)")
_NAME = re.compile(rf"{FOLDER}/[A-Za-z0-9][A-Za-z0-9._-]{{0,127}}")


class Damage(StrEnum):
    """What can be wrong with a pack."""

    NOT_A_PACK = "not_a_pack"
    """No zip file, or one that is cut short."""
    TOO_LARGE = "too_large"
    """It says that it holds more than a pack may; it was not unpacked."""
    UNSAFE_NAME = "unsafe_name"
    """A member whose name leads out of the folder it is unpacked to, or that is no name in a pack."""
    LINK = "link"
    """A member that is a link, a device or a folder."""
    MISSING = "missing"
    """Something that the pack speaks of is not in it."""
    EXTRA = "extra"
    """A member that the sums or the manifest do not speak of."""
    CHANGED = "changed"
    """A member that is not what its sum says, or a file that is not as `pack` wrote it."""
    BAD_SUMS = "bad_sums"
    """SHA256SUMS is not in its form."""
    BAD_MANIFEST = "bad_manifest"
    """The manifest is not JSON, of another version, or does not say what it must."""
    BAD_CONTROLS = "bad_controls"
    """A file of controls that no tool could be given."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: of which kind, with which member (empty: the file itself), in words."""

    kind: Damage
    member: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.member + ': ' if self.member else ''}{self.text}"


class PackError(KernelwrightError):
    """A pack that is damaged; `problems` are all that was found."""

    def __init__(self, path: Path, problems: tuple[Problem, ...]) -> None:
        self.path = path
        self.problems = problems
        listed = "; ".join(map(str, problems[:5]))
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        super().__init__(f"{path} is damaged: {listed}{more}; get it again from where it came from")


def pack_bytes(members: Mapping[str, bytes]) -> bytes:
    """The zip of these members and of their sums; the same for the same members."""
    sums = "".join(f"{hashlib.sha256(members[name]).hexdigest()}  {name}\n" for name in sorted(members))
    return _zipped({**members, SUMS: sums.encode()})


def read_members(path: Path) -> tuple[dict[str, bytes], list[Problem]]:
    """The members of a pack, and what is wrong with the file; nothing is read beyond the bounds.

    Where a problem says so, members are missing from the answer. Raises FileNotFoundError.
    """
    size = path.stat().st_size
    if size > MOST_BYTES:
        text = f"{size} bytes; a pack has {MOST_BYTES} at most"
        return {}, [Problem(Damage.TOO_LARGE, "", text)]
    data = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            problems = _listed_problems(archive.infolist())
            if problems:
                return {}, problems
            members = {}
            for info in archive.infolist():
                try:
                    members[info.filename] = archive.read(info)
                except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError) as error:
                    problems.append(Problem(Damage.CHANGED, info.filename, f"it cannot be read ({error})"))
    # zipfile raises whatever its fields lead it to where they make no sense.
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        return {}, [Problem(Damage.NOT_A_PACK, "", f"it cannot be read as a zip file ({error})")]
    problems += _sum_problems(members, {one.member for one in problems})
    if not problems and _zipped(members) != data:
        text = "its members are whole, but the file is not as `kernelwright controls pack` writes it"
        problems.append(Problem(Damage.CHANGED, "", text))
    return members, problems


def _zipped(members: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(info, members[name])
    return stream.getvalue()


def _listed_problems(listed: list[zipfile.ZipInfo]) -> list[Problem]:
    """What the list of members says, before any of them is read."""
    if len(listed) > MOST_MEMBERS:
        return [Problem(Damage.TOO_LARGE, "", f"{len(listed)} members; a pack has {MOST_MEMBERS} at most")]
    total = sum(info.file_size for info in listed)
    if total > MOST_BYTES:
        return [Problem(Damage.TOO_LARGE, "", f"it unpacks to {total} bytes; {MOST_BYTES} are allowed")]
    found = []
    seen: set[str] = set()
    for info in listed:
        # What zipfile made of the name may be harmless where what is written there is not.
        name, written = info.filename, getattr(info, "orig_filename", info.filename)
        shown = written.encode("unicode_escape").decode()
        kind = stat.S_IFMT(info.external_attr >> 16)
        if info.file_size > MOST_MEMBER_BYTES:
            text = f"{info.file_size} bytes; a member has {MOST_MEMBER_BYTES} at most"
            found.append(Problem(Damage.TOO_LARGE, shown, text))
        if info.is_dir() or kind not in (0, stat.S_IFREG):
            found.append(Problem(Damage.LINK, shown, "it is no regular file"))
        elif written != name or not (name in (MANIFEST, SUMS) or _NAME.fullmatch(name)):
            text = f"members are called {MANIFEST}, {SUMS} and {FOLDER}/NAME"
            found.append(Problem(Damage.UNSAFE_NAME, shown, text))
        elif name in seen:
            found.append(Problem(Damage.EXTRA, shown, "it is there twice"))
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            text = "it is compressed or encrypted, which members of a pack are not; it was not unpacked"
            found.append(Problem(Damage.CHANGED, shown, text))
        seen.add(name)
    return found


def _sum_problems(members: Mapping[str, bytes], unread: set[str]) -> list[Problem]:
    if SUMS not in members:
        known = SUMS in unread
        return [] if known else [Problem(Damage.MISSING, SUMS, "without it nothing says what is whole")]
    found = []
    sums: dict[str, str] = {}
    for number, line in enumerate(members[SUMS].decode("utf-8", "replace").splitlines(), start=1):
        match = _SUM.fullmatch(line)
        if match is None or match[2] in sums:
            text = f"line {number} is not `SHA256  NAME`, or repeats a name: {line[:60]!r}"
            found.append(Problem(Damage.BAD_SUMS, SUMS, text))
        else:
            sums[match[2]] = match[1]
    for name, wanted in sums.items():
        if name not in members:
            if name not in unread:
                found.append(Problem(Damage.MISSING, name, f"{SUMS} lists it"))
        elif hashlib.sha256(members[name]).hexdigest() != wanted:
            found.append(Problem(Damage.CHANGED, name, f"its SHA-256 is not the one in {SUMS}"))
    extra = [name for name in members if name not in sums and name != SUMS]
    return found + [Problem(Damage.EXTRA, name, f"{SUMS} does not list it") for name in extra]
