"""What controls changed in a binary: resources, instruction mix, vector width, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelwright.build import Contents
from kernelwright.build import disassemble
from kernelwright.controls._target import Artifact
from kernelwright.errors import FileFormatError
from kernelwright.errors import MissingExtraError

#: Vector widths in bits, by the register that has them; `none` is no vector register at all.
_WIDTHS = {"zmm": 512, "ymm": 256, "xmm": 128}

Value = float | int | str


@dataclass(frozen=True)
class Change:
    """One quantity; None where it is not known of one of the two."""

    name: str
    before: Value | None
    after: Value | None

    @property
    def same(self) -> bool:
        """Whether nothing changed."""
        return self.before == self.after


@dataclass(frozen=True)
class Explanation:
    """Before and after; `notes` say what could not be looked at."""

    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """For a person: what changed, then how much did not."""
        changed = [one for one in self.changes if not one.same]
        width = max((len(one.name) for one in changed), default=0)
        said = [f"{one.name:<{width}}  {_shown(one.before)} → {_shown(one.after)}" for one in changed]
        same = len(self.changes) - len(changed)
        if same:
            said.append(f"{same} other quantities are the same")
        if not self.changes:
            said.append("nothing is known of either binary")
        return [*said, *(f"note: {note}" for note in self.notes)]


def explain(before: Artifact, after: Artifact) -> Explanation:
    """What differs between two artifacts: what is known without running them.

    Their `resources` (registers, spills, shared memory, …), and for x86-64 libraries the disassembly:
    instructions, the widest vector, instructions by vector width and by instruction set, calls of libm.
    """
    names = [*before.resources, *(name for name in after.resources if name not in before.resources)]
    changes = [Change(name, before.resources.get(name), after.resources.get(name)) for name in names]
    notes: list[str] = []
    if _is_elf_of_x86(before.path) and _is_elf_of_x86(after.path):
        try:
            mixes = _mix(disassemble(before.path)), _mix(disassemble(after.path))
        except (MissingExtraError, FileFormatError) as error:
            notes.append(f"the instructions were not looked at: {error}")
        else:
            one, other = mixes
            named = [*one, *(name for name in other if name not in one)]
            changes += [
                Change(name, one.get(name, 0), other.get(name, 0)) for name in named if name not in names
            ]
    if before.code_key == after.code_key:
        notes.append("both are the same binary")
    return Explanation(tuple(changes), tuple(notes))


def _mix(contents: Contents) -> Mapping[str, Value]:
    """The instructions of a library by kind."""
    widest = next((bits for name, bits in _WIDTHS.items() if contents.widths.get(name)), 0)
    return {
        "instructions": contents.instructions,
        "vector_bits": widest,
        **{f"with_{name}": contents.widths.get(name, 0) for name in _WIDTHS},
        **{f"set_{name}": count for name, count in sorted(contents.features.items())},
        **{f"libm_{name}": count for name, count in contents.libm.items()},
    }


def _is_elf_of_x86(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            head = stream.read(20)
    except OSError:
        return False
    return head[:4] == b"\x7fELF" and head[18:20] == b"\x3e\x00"


def _shown(value: Value | None) -> str:
    if value is None:
        return "not known"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
