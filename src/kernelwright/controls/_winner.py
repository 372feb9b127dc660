"""A validated winner as what serves calls, and an entry of a pack as what may be used: or refused."""

from __future__ import annotations

from typing import Any

from kernelwright import winners
from kernelwright.build import build
from kernelwright.controls._codec import compiler_arguments
from kernelwright.controls._finalists import Finalist
from kernelwright.controls._finalists import Validation
from kernelwright.controls._native import NativeTarget
from kernelwright.controls._pack import PackEntry
from kernelwright.controls._provenance import provenance_of
from kernelwright.controls._provenance import refuse_unless_same
from kernelwright.controls._target import Artifact
from kernelwright.controls._target import Config
from kernelwright.controls._target import split_config
from kernelwright.controls._target import Target
from kernelwright.controls._validate import confirm_of
from kernelwright.errors import BuildError
from kernelwright.errors import UsageError
from kernelwright.files import as_plain
from kernelwright.referee import Comparison


class NotStoredError(UsageError):
    """A winner that does not come to serve calls, with the reason."""


def config_of(entry: PackEntry, target: Target) -> Config:
    """The configuration of an entry of a pack, for use without another proof.

    Raises WinnerRefusedError, with the reasons, unless source, compiler, architecture and driver are those
    that it won with; `try_entries` judges it where they are not.
    """
    refuse_unless_same(entry.name, entry.provenance, target)
    return entry.config if target.parameters is None else [dict(entry.parameters), entry.config]


def store_winner(
    target: NativeTarget, validation: Validation, *, budget_s: float = 2.0, processes: int = 5
) -> winners.Record:
    """Let calls of the operator be served by a validation's winner, on machines like this one.

    The record is refused by dispatch, with the reason, where source, compiler, tier or architecture are
    others. A winner that serves already has to be beaten by it, as the referee judges now.

    Raises NotStoredError where there is no winner, where what it was proven with is not here any more, and
    where the stored winner is not proven slower.
    """
    winner = validation.winner
    if winner is None:
        raise NotStoredError(f"nothing is stored: {validation.sentence}")
    refuse_unless_same(winner.name, validation.provenance, target)
    config, ratio = _fewest(validation, winner)
    parameters, controls = split_config(config, mixed=True)
    configuration: dict[str, Any] = dict(parameters)
    if controls is not None:
        configuration[winners.CONTROLS] = "\n".join(compiler_arguments(controls))
    bucket = target.workload.bucket
    stored = winners.find(target.operator, bucket)
    if stored is not None and stored.outdated(target.kernel.provenance()) is None:
        _beat(target, stored, config, budget_s, processes)
    record = winners.Record(
        operator=target.operator,
        bucket=bucket,
        machine=winners.this_machine(),
        implementation="cpu",
        configuration=configuration,
        provenance=provenance_of(target),
        evidence={
            "run": validation.run,
            "evaluation": winner.number,
            "workload": target.workload.name,
            "baseline": validation.baseline,
            **ratio,
        },
    )
    winners.store(record)
    return record


def _fewest(validation: Validation, winner: Finalist) -> tuple[Config, dict[str, Any]]:
    """The winner's configuration, reduced where that is proven, and what is proven of it."""
    minimized = validation.minimized
    if minimized and minimized.get("proven"):
        judged = minimized["judged"]
        proven = {name: judged[name] for name in ("ratio", "interval", "contests")}
        return minimized["config"], proven
    plain = as_plain(winner)
    return winner.config, {name: plain[name] for name in ("ratio", "interval", "contests")}


def _beat(
    target: NativeTarget, stored: winners.Record, config: Config, budget_s: float, processes: int
) -> None:
    """Raise NotStoredError unless the configuration is proven faster than the stored winner."""
    confirming = confirm_of(target, budget_s=budget_s, processes=processes)
    assert confirming is not None
    try:
        made = build(target.kernel.request(stored.configuration, target.tier), limits=target.build_limits)
    except BuildError:
        return  # it serves nobody
    verdict = confirming(Artifact(made.library, made.code_key), target.build(config))
    contest = verdict.contests[0] if verdict.contests else None
    if contest is None or contest.comparison is not Comparison.FASTER:
        said = verdict.status if contest is None else f"{contest.comparison} ({contest.ratio:.3f} ×)"
        raise NotStoredError(
            f"the stored winner of {target.operator} {stored.bucket} stays: against it, this one is {said}"
        )
