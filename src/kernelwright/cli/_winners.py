"""`kernelwright winners`: what was proven, where it holds, and how it travels."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from kernelwright.winners import Record

_OPERATOR = typer.Argument(..., help="The operator, as in `kernelwright list`.", metavar="OPERATOR")


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    group = typer.Typer(no_args_is_help=True, help="Show, ship and forget what tuning proved.")
    group.command("list")(list_)
    group.command("show")(show)
    group.command("export")(export)
    group.command("import")(import_)
    group.command("forget")(forget)
    app.add_typer(group, name="winners")


def list_(
    operator: str | None = typer.Argument(None, help="Only this operator.", metavar="[OPERATOR]"),
    as_json: bool = typer.Option(False, "--json", help="Print the records as JSON."),
) -> None:
    """Show every stored winner, and whether it serves calls here."""
    from kernelwright import winners

    if operator is not None:
        _known(operator)
    shelves = [shelf for shelf in winners.shelves() if operator in (None, shelf.operator)]
    records = [record for shelf in shelves for record in shelf.records]
    if as_json:
        typer.echo(_as_json(records))
    else:
        for one in records:
            reason = _ignored(one)
            state = "serves here" if reason is None else f"ignored here: {reason}"
            typer.echo(f"{one.operator}  {one.bucket}  {one.implementation}  {one.created}  {state}")
        if not records:
            what = f"kernelwright tune {operator or 'OPERATOR'}"
            typer.echo(f"no winners in {winners.folder()}; `{what}` finds some")
    for shelf in shelves:
        for note in shelf.notes:
            typer.echo(f"note: {note}", err=True)


def show(
    operator: str = _OPERATOR,
    bucket: str | None = typer.Argument(None, help="Only this bucket.", metavar="[BUCKET]"),
    as_json: bool = typer.Option(False, "--json", help="Print the records as JSON."),
) -> None:
    """Show an operator's winners with configuration, provenance and evidence."""
    from kernelwright import winners
    from kernelwright.errors import UnknownNameError

    _known(operator)
    records = [one for one in winners.all_records(operator) if bucket in (None, one.bucket)]
    if not records and bucket is not None:
        known = {one.bucket for one in winners.all_records(operator)}
        raise UnknownNameError(f"bucket of {operator}", bucket, known)
    if as_json:
        typer.echo(_as_json(records))
        return
    if not records:
        typer.echo(
            f"no winners of {operator} in {winners.folder()}; `kernelwright tune {operator}` finds some"
        )
    for one in records:
        reason = _ignored(one)
        typer.echo(f"{one.operator}  {one.bucket}")
        typer.echo(f"  {'serves here' if reason is None else f'ignored here: {reason}'}")
        typer.echo(f"  implementation {one.implementation}, machine {one.machine}, {one.created}")
        for title, values in (
            ("configuration", one.configuration),
            ("provenance", one.provenance),
            ("evidence", one.evidence),
        ):
            typer.echo(f"  {title}")
            for name, value in values.items():
                text = value if isinstance(value, str) else json.dumps(value)
                typer.echo(f"    {name:<18} {text}")


def export(
    path: Annotated[Path, typer.Argument(help="The file to write.", metavar="FILE")],
    operator: str | None = typer.Option(None, "--operator", help="Only this operator."),
) -> None:
    """Write winners to one file that `winners import` reads on another machine like this one."""
    from kernelwright import winners

    if operator is not None:
        _known(operator)
    count = winners.export(path, winners.all_records(operator))
    typer.echo(f"{count} winner{'' if count == 1 else 's'} written to {path}")


def import_(
    path: Annotated[Path, typer.Argument(help="A file from `winners export`.", metavar="FILE")],
) -> None:
    """Take in winners from a file; those that do not hold here are kept, and said to be ignored."""
    from kernelwright import winners

    records = winners.import_(path)
    typer.echo(f"{len(records)} winner{'' if len(records) == 1 else 's'} taken in")
    for one in records:
        reason = _ignored(one)
        if reason is not None:
            typer.echo(f"{one.operator}  {one.bucket}  ignored here: {reason}")


def forget(
    operator: str = _OPERATOR,
    bucket: str | None = typer.Argument(None, help="Only this bucket.", metavar="[BUCKET]"),
    everywhere: bool = typer.Option(False, "--all-machines", help="Those of other machines as well."),
) -> None:
    """Drop an operator's winners of this machine; its calls are served by the default from then on."""
    from kernelwright import winners
    from kernelwright.errors import UnknownNameError

    _known(operator)
    here = winners.this_machine()
    records = [one for one in winners.all_records(operator) if everywhere or one.machine == here]
    known = {one.bucket for one in records}
    if bucket is not None and bucket not in known:
        raise UnknownNameError(f"bucket of {operator}", bucket, known)
    machines = {one.machine for one in records}
    count = sum(winners.forget(operator, bucket, machine) for machine in sorted(machines))
    typer.echo(f"{count} winner{'' if count == 1 else 's'} of {operator} forgotten")


def _as_json(records: Iterable[Record]) -> str:
    from kernelwright.files import as_plain

    listed = [{**as_plain(one), "ignored": _ignored(one)} for one in records]
    return json.dumps(listed, indent=1, allow_nan=False)


def _known(operator: str) -> None:
    """Raise UnknownNameError for an operator that neither exists nor has winners."""
    from kernelwright import dispatch
    from kernelwright import winners
    from kernelwright.errors import UnknownNameError

    known = {*dispatch.operators(), *(shelf.operator for shelf in winners.shelves())}
    if operator not in known:
        raise UnknownNameError("operator", operator, known)


def _ignored(record: Record) -> str | None:
    """Why calls here are not served from a record, or None."""
    from kernelwright import dispatch
    from kernelwright import winners

    if record.machine != winners.this_machine():
        return f"it was proven on machine {record.machine}, this is {winners.this_machine()}"
    if record.operator not in dispatch.operators():
        return f"there is no operator {record.operator!r}"
    named = [one for one in dispatch.implementations(record.operator) if one.name == record.implementation]
    if not named:
        return f"there is no implementation {record.implementation!r}"
    return named[0].available() or record.outdated(named[0].provenance())
