"""From validated winners to the entries of a pack, and from a pack to what is kept of it here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelwright.controls._codec import decode_controls
from kernelwright.controls._finalists import Candidate
from kernelwright.controls._finalists import Finalist
from kernelwright.controls._finalists import OnFinalist
from kernelwright.controls._finalists import Validation
from kernelwright.controls._pack import PackEntry
from kernelwright.controls._provenance import differences
from kernelwright.controls._provenance import provenance_of
from kernelwright.controls._target import Config
from kernelwright.controls._target import split_config
from kernelwright.controls._target import Target
from kernelwright.controls._validate import validate_target
from kernelwright.errors import UsageError
from kernelwright.referee import Comparison
from kernelwright.referee import Status


@dataclass(frozen=True)
class Tried:
    """An entry of a pack and the verdict on it here; `notes` say what is not as it was where it won."""

    entry: PackEntry
    finalist: Finalist
    notes: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether it is proven better than the baseline here."""
        return self.finalist.comparison is Comparison.FASTER


def pack_entries(validation: Validation, *, name: str = "", every: bool = False) -> list[PackEntry]:
    """What a validated run adds to a pack: its winner, reduced where that was proven; all winners if `every`.

    Raises UsageError where nothing is proven better, or where it was no run over compiler controls.
    """
    if not validation.description:
        raise UsageError(
            f"{validation.target} is no target of compiler controls: a pack has nothing to hold of it"
        )
    if validation.winner is None:
        raise UsageError(f"nothing to pack: {validation.sentence}")
    tool = str(validation.description.get("provider", {}).get("tool", ""))
    entries: list[PackEntry] = []
    for one in validation.winners if every else validation.winners[:1]:
        if one is validation.winner:
            one = _reduced(one, validation.minimized)
        parameters, text = split_config(one.config, mixed=True)
        if text is None:
            continue
        controls = decode_controls(text)
        label = name or _slug(validation.target)
        entries.append(
            PackEntry(
                name=label if not entries else f"{label}-{len(entries) + 1}",
                tool=controls.tool if controls is not None else tool,
                config=text,
                parameters=dict(parameters),
                provenance=dict(validation.provenance),
                evidence={
                    "target": validation.target,
                    "workload": str(validation.description.get("workload", "")),
                    "comparison": str(one.comparison),
                    "ratio": one.ratio,
                    "interval": list(one.interval or ()),
                    "machine": validation.machine,
                    "date": validation.created,
                    "run": validation.run,
                    "evaluation": one.number,
                },
            )
        )
    if not entries:
        raise UsageError(f"nothing to pack: {validation.target} won by its kernel parameters alone")
    return entries


def try_entries(
    entries: Sequence[PackEntry],
    target: Target,
    *,
    on_finalist: OnFinalist | None = None,
    **judging: Any,
) -> list[Tried]:
    """Judge each entry of a pack on a target, against no controls; options are those of `validate_target`.

    Kernel parameters are the business of the kernel that they won on: they are used where the target has
    the same source, and left out elsewhere. Entries for another tool are `unsupported`.
    """
    here = provenance_of(target)
    fitting: list[Candidate] = []
    refused: dict[str, Finalist] = {}
    for one in entries:
        tool = getattr(target.provider, "tool", one.tool)
        if one.tool != tool:
            reason = f"these are options of {one.tool}, and {target.name} is compiled by {tool}"
            refused[one.name] = Finalist(one.name, one.config, Status.UNSUPPORTED, reason)
            if on_finalist is not None:
                on_finalist(refused[one.name])
        else:
            fitting.append(Candidate(one.name, _config(one, target, here)))
    found: Mapping[str, Finalist] = {}
    if fitting:
        validation = validate_target(target, fitting, on_finalist=on_finalist, **judging)
        found = {one.name: one for one in validation.finalists}
    tried = []
    for one in entries:
        finalist = refused.get(one.name) or found[one.name]
        notes = tuple(text for text in differences(one.provenance, here) if "source" not in text)
        tried.append(Tried(one, finalist, notes))
    return tried


def keep_entries(tried: Iterable[Tried], target: Target) -> list[PackEntry]:
    """Those that passed, with what they won here: entries of a pack of one's own."""
    validation = Validation(target.name, (), provenance=provenance_of(target), description=target.describe())
    kept = []
    for one in tried:
        if one.kept:
            parameters, text = split_config(one.finalist.config, mixed=True)
            kept.append(
                replace(
                    one.entry,
                    config=text or one.entry.config,
                    parameters=dict(parameters),
                    provenance=dict(validation.provenance),
                    evidence={
                        "target": target.name,
                        "workload": str(validation.description.get("workload", "")),
                        "comparison": str(one.finalist.comparison),
                        "ratio": one.finalist.ratio,
                        "interval": list(one.finalist.interval or ()),
                        "machine": validation.machine,
                        "date": validation.created,
                        "tried_from": dict(one.entry.evidence),
                    },
                )
            )
    return kept


def write_controls(entries: Iterable[PackEntry], folder: Path) -> list[Path]:
    """The controls of each entry as a file that `load_compiler_config` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for one in entries:
        path = folder / f"{one.name}.controls"
        path.write_bytes(bytes.fromhex(one.config))
        written.append(path)
    return written


def _config(entry: PackEntry, target: Target, here: Mapping[str, str]) -> Config:
    if target.parameters is None:
        return entry.config
    same = entry.provenance.get("source") == here.get("source")
    return [dict(entry.parameters) if same else {}, entry.config]


def _reduced(winner: Finalist, minimized: Mapping[str, Any] | None) -> Finalist:
    """The winner with the fewest options, and the verdict on these, where there is one that is proven."""
    if not minimized or not minimized.get("proven"):
        return winner
    judged = minimized["judged"]
    return replace(
        winner,
        config=minimized["config"],
        ratio=judged["ratio"],
        interval=tuple(judged["interval"]),
        comparison=Comparison(judged["comparison"]),
    )


def _slug(text: str) -> str:
    words = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")
    return words[:80] or "controls"
