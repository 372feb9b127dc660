"""`kernelwright build [TARGET ...]`: compile kernels ahead of their first use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated
from typing import Any
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from kernelwright.build import Artifact
    from kernelwright.build import BuildRequest
    from kernelwright.errors import BuildError

EXIT_FAILED = 1
"""Something did not build; what the compiler said is on stderr."""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("build")(build)


def build(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET ...]", help="Operators, or folders with a build.toml; all by default."
        ),
    ] = None,
    tier: Annotated[
        str | None, typer.Option(help="The ISA tier to build, instead of the one that serves calls here.")
    ] = None,
    all_tiers: Annotated[
        bool, typer.Option("--all-tiers", help="Build every tier, also those not run here.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Compilers at once; one a processor by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the artifacts as JSON.")] = False,
) -> None:
    """Compile kernels into the cache, operators in their default configuration, so that no call has to wait.

    Exit code 1 when something did not build; the rest is built all the same.
    """
    from kernelwright import machine
    from kernelwright.build import build_many
    from kernelwright.build import find
    from kernelwright.errors import UnknownNameError
    from kernelwright.errors import UsageError

    if tier is not None and all_tiers:
        raise UsageError("--tier and --all-tiers were both given; leave one out")
    known = [one.name for one in machine.TIERS]
    if tier is not None and tier not in known:
        raise UnknownNameError("ISA tier", tier, known)
    requests = _requests(targets or [], tier, all_tiers)
    missing = sum(find(one) is None for one in requests)
    if missing:
        typer.echo(f"building {missing} of {len(requests)} artifacts", err=True)
    results = build_many(requests, jobs=jobs)
    if as_json:
        typer.echo(json.dumps([_as_json(one, result) for one, result in zip(requests, results, strict=True)]))
    else:
        _print(requests, results)
    failures = [result for result in results if isinstance(result, Exception)]
    for failure in failures:
        typer.echo(f"\nerror: {failure}", err=True)
    if failures:
        raise typer.Exit(EXIT_FAILED)


def _requests(targets: list[str], tier: str | None, all_tiers: bool) -> list[BuildRequest]:
    """What the words on the command line ask for."""
    from kernelwright.errors import UnknownNameError
    from kernelwright.kernels.cpu import native_kernels

    kernels = native_kernels()
    requests: list[BuildRequest] = []
    for target in targets or list(kernels):
        if target in kernels:
            kernel = kernels[target]
            tiers = list(kernel.build_file.tiers(target)) if all_tiers else [tier or kernel.tier()]
            missing = [one for one in tiers if one not in kernel.build_file.tiers(target)]
            if missing:
                raise UnknownNameError(f"ISA tier of {target}", missing[0], kernel.build_file.tiers(target))
            requests += [kernel.request(kernel.default, one) for one in tiers]
        elif Path(target).exists() or "/" in target:
            requests += _folder(Path(target), tier)
        else:
            raise UnknownNameError("operator", target, kernels)
    return requests


def _folder(folder: Path, tier: str | None) -> list[BuildRequest]:
    """The cpu sections of a user's build.toml, all of them or those of one tier."""
    from kernelwright.build import read_build_file
    from kernelwright.build import requests_of
    from kernelwright.errors import UsageError

    try:
        file = read_build_file(folder)
    except FileNotFoundError as error:
        raise UsageError(f"{folder}: no build.toml is there; name its folder, or an operator") from error
    requests = [one for one in requests_of(file) if tier is None or one.tier == tier]
    if not requests:
        wanted = f" of tier {tier}" if tier else ""
        raise UsageError(f"{file.path} has no cpu section{wanted}; its sections: {', '.join(file.kernels)}")
    return requests


def _print(requests: list[BuildRequest], results: list[Artifact | BuildError]) -> None:
    from rich.console import Console

    from kernelwright.report import elapsed
    from kernelwright.report import table

    made = table(None, "artifact", "tier", ">seconds", "cached", "build key")
    for request, result in zip(requests, results, strict=True):
        name, tier = request.section.name, request.tier or "—"
        if isinstance(result, Exception):
            made.add_row(name, tier, "—", f"[red]{result.status.replace('_', ' ')}[/]", "—")
        else:
            cached = "yes" if result.cached else "no"
            made.add_row(name, tier, elapsed(result.seconds), cached, result.build_key[:12])
    Console().print(made)


def _as_json(request: BuildRequest, result: Artifact | BuildError) -> dict[str, Any]:
    common = {"section": request.section.name, "tier": request.tier}
    if isinstance(result, Exception):
        return {**common, "status": result.status, "command": result.command, "log": result.log}
    return {
        **common,
        "status": "built",
        "library": str(result.library),
        "build_key": result.build_key,
        "code_key": result.code_key,
        "compiler": result.compiler,
        "flags": list(result.flags),
        "seconds": result.seconds,
        "cached": result.cached,
    }
