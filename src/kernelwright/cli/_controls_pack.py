"""`kernelwright controls pack`, `verify` and `try`: controls that won, to be carried elsewhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated
from typing import TYPE_CHECKING

import typer
from typer import Argument
from typer import Option

from kernelwright.cli import _controls_target as words

if TYPE_CHECKING:
    from kernelwright.controls import Finalist
    from kernelwright.controls import Validation

_EXIT_NO = 1

_Pack = Annotated[Path, Argument(metavar="PACK", help="A file that `kernelwright controls pack` wrote.")]


def pack(
    path: Annotated[Path, Argument(metavar="PACK", help="The .zip file to write.")],
    runs: Annotated[
        list[str] | None, Argument(metavar="[RUN]…", help="Validated runs: ids, folders, validation files.")
    ] = None,
    every: Annotated[bool, Option("--all", help="All winners of each run, not the best alone.")] = False,
) -> None:
    """Write a booster pack: the controls that validated runs proved, with where they come from.

    A zip of controls files, manifest.json and SHA256SUMS; the same winners make the same file. Only what
    `kernelwright search validate` found faster is packed, with the fewest options where these were proven.
    """
    from kernelwright.controls import pack_entries
    from kernelwright.controls import write_pack

    entries = []
    seen: set[str] = set()
    for run in runs or ["latest"]:
        for one in pack_entries(_validation(run), every=every):
            name, count = one.name, 1
            while name in seen:
                count += 1
                name = f"{one.name}-{count}"
            seen.add(name)
            entries.append(replace(one, name=name))
    write_pack(path, entries)
    for one in entries:
        low, high = one.evidence["interval"]
        typer.echo(f"{one.name}: {one.tool}, {one.evidence['ratio']:.3f} × [{low:.3f}, {high:.3f}]")
    typer.echo(f"{len(entries)} set{'' if len(entries) == 1 else 's'} of controls written to {path}")


def verify(path: _Pack, as_json: words.Json = False) -> None:
    """Say whether a pack is whole; if not, everything that is wrong with it.

    Nothing is unpacked or run. A pack that is whole may still come from anybody: ask who made it.

    Exit codes: 0 whole; 1 damaged; 2 bad usage.
    """
    from kernelwright.controls import read_pack
    from kernelwright.controls import verify_pack
    from kernelwright.files import as_plain

    problems = verify_pack(path)
    entries = [] if problems else list(read_pack(path))
    if as_json:
        shown = {"whole": not problems, "problems": as_plain(problems), "entries": as_plain(entries)}
        typer.echo(json.dumps(shown, indent=1))
    else:
        for problem in problems:
            typer.echo(str(problem))
        for one in entries:
            low, high = one.evidence["interval"]
            won = f"{one.evidence['ratio']:.3f} × [{low:.3f}, {high:.3f}] on {one.evidence['target']}"
            typer.echo(f"{one.name}: {won}, {one.evidence['date']}, {one.provenance['compiler']}")
        typer.echo(f"damaged: {len(problems)} problems" if problems else "whole")
    if problems:
        raise typer.Exit(_EXIT_NO)


def try_(
    path: _Pack,
    target: words.TargetName,
    workload: words.Workload = None,
    dtype: words.Dtype = None,
    compiler: words.CompilerName = None,
    only: Annotated[list[str] | None, Option(help="Entries by name; may be repeated.")] = None,
    budget: Annotated[str, Option(metavar="TIME", help="Racing time of one entry.")] = "4s",
    processes: Annotated[int, Option(min=2, help="Pairs of fresh processes for one entry.")] = 5,
    rounds: Annotated[int, Option(min=6, help="Rounds, where the target measures itself.")] = 12,
    keep: Annotated[
        Path | None, Option(metavar="FOLDER", help="Write what passes there: controls files and a pack.")
    ] = None,
    as_json: words.Json = False,
) -> None:
    """Judge the controls of a pack one by one on a kernel of yours, and keep what is proven faster.

    Each is compared with the kernel without controls, by the referee, and all are held to one level together:
    that something won elsewhere proves nothing here.

    Exit codes: 0 something passed; 1 nothing did; 2 bad usage, or a damaged pack.
    """
    from kernelwright.cli._search_validate import describe
    from kernelwright.cli._time import parse_seconds
    from kernelwright.controls import keep_entries
    from kernelwright.controls import read_pack
    from kernelwright.controls import try_entries
    from kernelwright.controls import write_controls
    from kernelwright.controls import write_pack
    from kernelwright.errors import UnknownNameError
    from kernelwright.files import as_plain

    entries = read_pack(path)
    for name in only or ():
        if name not in {one.name for one in entries}:
            raise UnknownNameError("entry of the pack", name, [one.name for one in entries])
    entries = tuple(one for one in entries if not only or one.name in only)
    tools = {one.tool for one in entries} & {"gcc", "clang"}
    found, _ = words.read_target(
        target,
        workload=workload,
        dtype=dtype,
        # An operator is compiled by whom the pack speaks to.
        compiler=compiler or (tools.pop() if len(tools) == 1 and not target.endswith(".py") else None),
        variant=None,
        unsafe_math=False,
        no_parameters=False,
    )

    def tell(finalist: Finalist) -> None:
        if not as_json:
            typer.echo(f"judged {finalist.name}: {finalist.status}", err=True)

    try:
        tried = try_entries(
            entries,
            found,
            on_finalist=tell,
            budget_s=parse_seconds(budget),
            processes=processes,
            rounds=rounds,
        )
        kept = keep_entries(tried, found)
    finally:
        getattr(found, "close", lambda: None)()
    if keep is not None and kept:
        write_controls(kept, keep)
        write_pack(keep / "kept.zip", kept)
    if as_json:
        typer.echo(json.dumps([{**as_plain(one), "kept": one.kept} for one in tried], indent=1))
    else:
        for one in tried:
            typer.echo(f"{'kept' if one.kept else 'not kept':8} {describe(one.finalist)}")
            for note in one.notes:
                typer.echo(f"         {note}")
        if keep is not None and kept:
            typer.echo(f"{len(kept)} of {len(tried)} written to {keep}")
        elif not kept:
            typer.echo(f"no improvement: none of {len(tried)} is proven better on {found.name}")
    if not kept:
        raise typer.Exit(_EXIT_NO)


def _validation(run: str) -> Validation:
    """The validation of a run. Raises UsageError where it was not validated."""
    from kernelwright.cli._search_runs import locate
    from kernelwright.cli._search_validate import VALIDATION
    from kernelwright.controls import Validation
    from kernelwright.errors import UsageError

    if run.endswith(".json") and Path(run).is_file():
        return Validation.load(run)
    located = locate(run)
    path = located.store.with_name(VALIDATION)
    if not path.is_file():
        raise UsageError(
            f"run {located.run} was not validated: `kernelwright search validate {located.run}` first"
        )
    found = Validation.load(path)
    if found.run != located.run:
        raise UsageError(f"{path} is of run {found.run}; validate {located.run} first")
    return found
