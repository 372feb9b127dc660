"""`kernelwright search validate`: the best of a run, judged again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated
from typing import Any
from typing import TYPE_CHECKING

import typer
from typer import Argument
from typer import Option

if TYPE_CHECKING:
    from kernelwright.controls import Candidate
    from kernelwright.controls import Finalist
    from kernelwright.controls import Target
    from kernelwright.controls import Validation
    from kernelwright.search import SearchResult

_EXIT_NO = 1
#: Where a run's validation is kept, beside its journal.
VALIDATION = "validation.json"


def validate(
    run: Annotated[str, Argument(metavar="[RUN]", help="An id, a folder, or `latest`.")] = "latest",
    file: Annotated[
        Path | None, Argument(metavar="[FILE]", help="The objective's file; the run knows it.")
    ] = None,
    top: Annotated[int, Option("--top", "-k", min=1, help="How many of the best, of distinct binaries.")] = 3,
    pareto: Annotated[bool, Option("--pareto", help="The whole Pareto front instead.")] = False,
    number: Annotated[list[int] | None, Option(help="These evaluations instead; may be repeated.")] = None,
    minimize: Annotated[
        bool, Option("--minimize/--no-minimize", help="Then leave the fewest options that keep the win.")
    ] = True,
    keep: Annotated[float, Option(help="The share of the win to keep.")] = 0.9,
    max_evaluations: Annotated[int, Option(min=6, help="Measurements of minimising, at most.")] = 300,
    budget: Annotated[str, Option(metavar="TIME", help="Racing time of one finalist.")] = "4s",
    processes: Annotated[int, Option(min=2, help="Pairs of fresh processes for one finalist.")] = 5,
    rounds: Annotated[
        int, Option(min=6, help="Rounds, where an objective or a target measures itself.")
    ] = 12,
    objective: Annotated[int, Option(min=1, help="Which objective, from 1.")] = 1,
    task_timeout: Annotated[str, Option(metavar="TIME", help="For one evaluation.")] = "300s",
    seed: Annotated[int, Option(help="Of the order of evaluations.")] = 0,
    store_winner: Annotated[
        bool, Option("--store-winner", help="Let the operator's calls be served by it, if it wins.")
    ] = False,
    out: Annotated[
        Path | None, Option("--out", "-o", metavar="FILE", help="Write it there, not beside the journal.")
    ] = None,
    store: Annotated[Path | None, Option(metavar="FILE", help="The store that has the run.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object, nothing else.")] = False,
) -> None:
    """Judge the best of a run again, against no controls: built anew, in fresh processes, in pairs.

    Where the run searched compiler controls, the referee judges, then the winner is reduced to the fewest
    options that keep the win, judged once more, and what it changed in the binary is shown. Any other
    objective is evaluated in turns with the baseline (the default, where not everything can be left out).
    Scores of the search are not used: the best of many is too good to be true.

    Exit codes: 0 something is proven better; 1 no improvement; 2 bad usage.
    """
    from kernelwright.cli._search_runs import locate
    from kernelwright.cli._search_view import make_console
    from kernelwright.cli._time import parse_seconds
    from kernelwright.controls import target_from
    from kernelwright.files import as_plain
    from kernelwright.search import SearchResult

    located = locate(run, store)
    result = SearchResult.from_journal(located.store, located.run)
    candidates = _candidates(result, top, pareto, number)
    console = make_console()

    def tell(text: str) -> None:
        if not as_json:
            console.print(text, soft_wrap=True, markup=False)

    description = result.info.settings.get("target")
    if description is not None and file is None:
        target = target_from(description)
        try:
            found = _of_target(
                target,
                candidates,
                tell,
                minimize=minimize,
                keep=keep,
                max_evaluations=max_evaluations,
                seed=seed,
                budget_s=parse_seconds(budget),
                processes=processes,
                rounds=rounds,
                task_timeout=parse_seconds(task_timeout),
            )
            found = replace(found, description={**found.description, **description}, run=located.run)
            if store_winner and found.winner is not None:
                tell(_stored(target, found))
        finally:
            getattr(target, "close", lambda: None)()
    else:
        found = _of_objective(
            result, file, candidates, tell, objective - 1, rounds, parse_seconds(task_timeout), seed
        )
    found = replace(found, run=located.run)
    path = found.save(out or located.store.with_name(VALIDATION))
    if as_json:
        typer.echo(json.dumps(as_plain(found), indent=1))
    else:
        tell(found.sentence)
        tell(f"written to {path}")
        if found.winner is not None and description is not None:
            tell(f"`kernelwright controls pack FILE.zip {located.run}` packs it")
    if found.winner is None:
        raise typer.Exit(_EXIT_NO)


def describe(finalist: Finalist) -> str:
    """One line: the verdict on a finalist."""
    from kernelwright.controls import ratio_text

    if finalist.comparison is None:
        return f"{finalist.name:<6} {finalist.status}: {finalist.reason}"
    shared = f", the binary of {finalist.shares}" if finalist.shares else ""
    p = "" if finalist.p is None else f", p = {finalist.p:.2g}"
    return f"{finalist.name:<6} {finalist.comparison}: {ratio_text(finalist)}{p}{shared}"


def _candidates(result: SearchResult, top: int, pareto: bool, numbers: list[int] | None) -> list[Candidate]:
    from kernelwright.cli._search_read import _numbered
    from kernelwright.controls import candidate_of
    from kernelwright.controls import choose_finalists

    if numbers:
        return [candidate_of(_numbered(result, number)) for number in numbers]
    return choose_finalists(result, top=top, pareto=pareto)


def _of_target(
    target: Target,
    candidates: list[Candidate],
    tell: Callable[[str], None],
    *,
    minimize: bool,
    keep: float,
    max_evaluations: int,
    seed: int,
    **judging: Any,
) -> Validation:
    from kernelwright.controls import Candidate
    from kernelwright.controls import explain
    from kernelwright.controls import minimize_controls
    from kernelwright.controls import validate_target
    from kernelwright.files import as_plain

    tell(f"{target.name}: {len(candidates)} finalists against no controls")
    found = validate_target(target, candidates, seed=seed, **judging)
    for one in found.finalists:
        tell(describe(one))
    winner = found.winner
    if winner is None:
        return found
    config = winner.config
    if minimize:
        fewest = minimize_controls(target, config, keep=keep, max_evaluations=max_evaluations, seed=seed)
        tell(f"{len(fewest.inert)} settings change nothing in the binary; {_dropped(fewest.dropped)}")
        again = found
        if fewest.dropped:
            # What is left is another binary: what is claimed of it is judged like any other claim.
            again = validate_target(target, [Candidate("minimal", fewest.config)], seed=seed + 1, **judging)
            tell(describe(again.finalists[0]))
        proven = again.winner is not None
        left = ", ".join(map(_setting, fewest.settings.items()))
        tell(f"{len(fewest.settings)} settings keep the win: {left}")
        if not proven:
            tell("they are not proven better by themselves: the winner stands as it was found")
        judged = again.finalists[0] if fewest.dropped else winner
        found = replace(found, minimized={**as_plain(fewest), "proven": proven, "judged": as_plain(judged)})
        config = fewest.config if proven else config
    told = explain(target.build({}), target.build(config))
    for line in told.lines():
        tell(f"  {line}")
    return replace(found, explained=as_plain(told))


def _of_objective(
    result: SearchResult,
    file: Path | None,
    candidates: list[Candidate],
    tell: Callable[[str], None],
    objective: int,
    rounds: int,
    task_timeout: float,
    seed: int,
) -> Validation:
    from kernelwright.cli._search_file import load
    from kernelwright.cli._search_file import worker_class
    from kernelwright.cli._search_run import objective_file
    from kernelwright.controls import judge_in_rounds
    from kernelwright.controls import judge_together
    from kernelwright.controls import Validation
    from kernelwright.search import IsoMultiProcessWorker
    from kernelwright.search import Through
    from kernelwright.search._minimize_space import reference_of
    from kernelwright.space import SearchSpace

    job = load(file or objective_file(result.info))
    compiled = SearchSpace(job.search_space)
    baseline = compiled.config(reference_of(compiled))
    against = "the baseline" if baseline == {} else "the space's default"
    name = str(result.info.settings.get("objective", "the objective"))
    tell(f"{name}: {len(candidates)} finalists against {against}, {rounds} rounds")
    # A process for each evaluation, whatever the search used: nothing is left of the one before.
    kind = worker_class(job.worker_type) if job.worker_type == "async" else IsoMultiProcessWorker
    with kind(job.objective, 1, task_timeout, num_objectives=result.num_objectives) as worker:
        found, estimates = judge_in_rounds(
            Through(worker),
            candidates,
            baseline,
            direction=result.directions[objective],
            objective=objective,
            rounds=rounds,
            seed=seed,
            what=name,
        )
    finalists = judge_together(found, estimates)
    for one in finalists:
        tell(describe(one))
    return Validation(name, tuple(finalists), against)


def _stored(target: Target, found: Validation) -> str:
    """Store the winner, and say so, or why not."""
    from kernelwright.controls import NativeTarget
    from kernelwright.controls import NotStoredError
    from kernelwright.controls import store_winner

    if not isinstance(target, NativeTarget):
        return f"not stored: {target.name} is no operator; `kernelwright controls pack` keeps its winner"
    try:
        record = store_winner(target, found)
    except NotStoredError as error:
        return f"not stored: {error}"
    return f"stored: calls of {record.operator} in bucket {record.bucket} are served by it"


def _dropped(names: tuple[str, ...]) -> str:
    return f"the win is kept without {', '.join(names)}" if names else "no other can go"


def _setting(pair: tuple[str, Any]) -> str:
    name, value = pair
    return name if value is True and name.startswith("-") else f"{name}={value}"
