"""Booster packs: controls that won somewhere, with what they won on, to be tried elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import field
from dataclasses import fields
from pathlib import Path
from typing import Any

from kernelwright import files
from kernelwright.controls._codec import decode_controls
from kernelwright.controls._errors import ControlsError
from kernelwright.controls._pack_file import Damage
from kernelwright.controls._pack_file import FOLDER
from kernelwright.controls._pack_file import MANIFEST
from kernelwright.controls._pack_file import pack_bytes
from kernelwright.controls._pack_file import PackError
from kernelwright.controls._pack_file import Problem
from kernelwright.controls._pack_file import read_members
from kernelwright.controls._pack_file import SUMS
from kernelwright.errors import UsageError

SCHEMA = "kernelwright.booster-pack"
VERSION = 1


@dataclass(frozen=True)
class PackEntry:
    """One set of controls in a pack.

    Attributes:
        name: of its own within the pack; also that of its file.
        tool: whose options they are.
        config: the hex string.
        parameters: kernel parameters that it won together with; empty where there are none.
        provenance: where it came from: `source` (hash), `compiler` (with version), `architecture`, `driver`.
        evidence: what it won on: `target`, `workload`, `ratio`, `interval`, `comparison`, `machine`
            (fingerprint), `date`, `run`, `evaluation`.
    """

    name: str
    tool: str
    config: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def member(self) -> str:
        """The name of its file in the pack."""
        return f"{FOLDER}/{self.name}.controls"


#: What evidence and provenance of an entry must say.
_PROVENANCE = ("source", "compiler", "architecture")
_EVIDENCE = ("target", "comparison", "ratio", "interval", "machine", "date")
_ENTRY = {"name": str, "tool": str, "file": str, "parameters": dict, "provenance": dict, "evidence": dict}


def write_pack(path: Path | str, entries: Iterable[PackEntry]) -> Path:
    """Write a pack; the same entries make the same file, byte for byte.

    Raises UsageError for entries that have no name of their own, are not proven faster, or do not say where
    they came from, and ControlsError for controls that are malformed.
    """
    listed = sorted(entries, key=lambda one: one.name)
    if not listed:
        raise UsageError("a pack needs controls that won; `kernelwright search validate` finds some")
    members: dict[str, bytes] = {}
    for one in listed:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}", one.name) or one.member in members:
            raise UsageError(f"{one.name!r} cannot name an entry of a pack, or does so twice")
        _check_config(one.tool, one.config)
        missing = [name for name in _PROVENANCE if not one.provenance.get(name)]
        missing += [name for name in _EVIDENCE if one.evidence.get(name) is None]
        if missing:
            raise UsageError(f"the entry {one.name} does not say its {', '.join(missing)}")
        if one.evidence["comparison"] != "faster":
            raise UsageError(
                f"the entry {one.name} is not proven faster ({one.evidence['comparison']}); a pack holds "
                "what won: `kernelwright search validate` says what did"
            )
        members[one.member] = bytes.fromhex(one.config)
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "entries": [
            {
                "name": one.name,
                "tool": one.tool,
                "file": one.member,
                **{
                    name: files.as_plain(value)
                    for name, value in asdict(one).items()
                    if name in ("parameters", "provenance", "evidence")
                },
            }
            for one in listed
        ],
    }
    members[MANIFEST] = (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
    files.write_atomic(Path(path), pack_bytes(members))
    return Path(path)


def verify_pack(path: Path | str) -> tuple[Problem, ...]:
    """All that is wrong with a pack; empty where it is whole. Nothing is unpacked to disk or run.

    Raises UsageError when there is no such file.
    """
    return _read(Path(path))[1]


def read_pack(path: Path | str) -> tuple[PackEntry, ...]:
    """The entries of a pack. Raises PackError, which lists all problems, unless it is whole."""
    entries, problems = _read(Path(path))
    if problems:
        raise PackError(Path(path), problems)
    return entries


def _read(path: Path) -> tuple[tuple[PackEntry, ...], tuple[Problem, ...]]:
    if not path.is_file():
        raise UsageError(f"there is no pack {path}; `kernelwright controls pack FILE` writes one")
    members, problems = read_members(path)
    if not members:
        return (), tuple(problems or [Problem(Damage.NOT_A_PACK, "", "it has no members")])
    if MANIFEST not in members:
        if not any(one.member == MANIFEST for one in problems):
            problems.append(Problem(Damage.MISSING, MANIFEST, "nothing says what the controls are"))
        return (), tuple(problems)
    entries, more = _entries(members)
    known = {one.member for one in problems}
    problems += [one for one in more if one.member not in known or one.kind is Damage.BAD_MANIFEST]
    return tuple(entries), tuple(problems)


def _entries(members: Mapping[str, bytes]) -> tuple[list[PackEntry], list[Problem]]:
    """What the manifest lists, each with its file, and what is wrong with either."""

    def bad(text: str) -> Problem:
        return Problem(Damage.BAD_MANIFEST, MANIFEST, text)

    try:
        document = json.loads(members[MANIFEST])
    except (ValueError, RecursionError) as error:
        return [], [bad(f"it is no JSON ({error})")]
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return [], [bad(f"its schema is not {SCHEMA!r}")]
    if document.get("version") != VERSION:
        return [], [bad(f"version {document.get('version')!r}; this release reads {VERSION}")]
    listed = document.get("entries")
    if not isinstance(listed, list) or not listed:
        return [], [bad("it lists no entries")]
    entries: list[PackEntry] = []
    problems: list[Problem] = []
    files_seen: set[str] = set()
    for number, entry in enumerate(listed):
        wrong = _wrong(entry)
        if wrong:
            problems.append(bad(f"entry {number} {wrong}"))
            continue
        made = PackEntry(
            **{one.name: entry[one.name] for one in fields(PackEntry) if one.name != "config"}, config=""
        )
        if entry["file"] != made.member or made.member in files_seen:
            problems.append(bad(f"entry {number} has not a file of its own name, {made.member}"))
            continue
        files_seen.add(made.member)
        if made.member not in members:
            problems.append(Problem(Damage.MISSING, made.member, "the manifest lists it"))
            continue
        made = PackEntry(**{**_shallow(made), "config": members[made.member].hex()})
        try:
            _check_config(made.tool, made.config)
        except ControlsError as error:
            problems.append(Problem(Damage.BAD_CONTROLS, made.member, str(error)))
            continue
        entries.append(made)
    extra = sorted(set(members) - files_seen - {MANIFEST, SUMS})
    problems += [Problem(Damage.EXTRA, name, "the manifest does not list it") for name in extra]
    return entries, problems


def _shallow(entry: PackEntry) -> dict[str, Any]:
    return {one.name: getattr(entry, one.name) for one in fields(entry)}


def _wrong(entry: Any) -> str:
    """What an entry of the manifest lacks, in words; empty if nothing."""
    if not isinstance(entry, dict):
        return "is not an object"
    for name, kind in _ENTRY.items():
        if not isinstance(entry.get(name), kind):
            return f"has no valid {name!r}"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}", entry["name"]):
        return f"has no valid name: {entry['name'][:40]!r}"
    lacks = [name for name in _PROVENANCE if not isinstance(entry["provenance"].get(name), str)]
    evidence = entry["evidence"]
    lacks += [name for name in _EVIDENCE if evidence.get(name) is None]
    if lacks:
        return f"does not say its {', '.join(lacks)}"
    ratio, interval = evidence["ratio"], evidence["interval"]
    numbers = [ratio, *interval] if isinstance(interval, Sequence) and len(interval) == 2 else [None]
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in numbers):
        return "has a ratio and an interval that are not numbers"
    return ""


def _check_config(tool: str, config: str) -> None:
    """Raise ControlsError for malformed controls and another tool's; a vendor's file may be anything."""
    controls = decode_controls(config)
    if controls is not None and controls.tool != tool:
        raise ControlsError(f"options of {controls.tool}, where those of {tool} are announced")
