"""The run: a plan and a pipeline in, a record with proven results out."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from kernelwright import machine
from kernelwright.errors import KernelwrightError
from kernelwright.errors import UsageError
from kernelwright.space import Configuration
from kernelwright.tuning._budget import Budget
from kernelwright.tuning._events import Listener
from kernelwright.tuning._events import Noted
from kernelwright.tuning._events import Phase
from kernelwright.tuning._events import PhaseChanged
from kernelwright.tuning._events import RunOpened
from kernelwright.tuning._events import WorkloadDecided
from kernelwright.tuning._finals import Finals
from kernelwright.tuning._log import continued_run
from kernelwright.tuning._log import new_run
from kernelwright.tuning._log import RunLog
from kernelwright.tuning._pipeline import Pipeline
from kernelwright.tuning._plan import make_plan
from kernelwright.tuning._plan import Plan
from kernelwright.tuning._plan import stored_winners
from kernelwright.tuning._record import RunRecord
from kernelwright.tuning._record import WorkloadResult
from kernelwright.tuning._screening import Screening

#: Makes the pipeline of a plan; the native one unless a test or another backend says otherwise.
PipelineFactory = Callable[[Plan], Pipeline]


def tune(
    operator: str | None = None,
    *,
    workloads: Sequence[str] | None = None,
    dtype: str | None = None,
    backends: Sequence[str] | None = None,
    budget_s: float = 60.0,
    seed: int = 0,
    run: str | None = None,
    on_event: Listener | None = None,
    pipeline: PipelineFactory | None = None,
) -> RunRecord:
    """Find the configuration that is proven right and proven faster than the default, or learn that none is.

    Args:
        operator: its name; may be left out when a run is continued.
        workloads: sizes such as `4096x4096`; the operator's own when left out.
        dtype: `bf16` unless named.
        backends: which implementations may take part; all when left out.
        budget_s: seconds for the whole run, confirmations included. Roughly: what has begun is finished.
        seed: the same seed asks the same candidates in the same order, as long as verdicts are the same.
        run: id of a run to continue; operator, workloads, budget and seed are then those of that run.
        on_event: told what happens, see `RunEvent`.
        pipeline: makes what builds and judges.

    Winners are stored only when the referee confirmed them in a fresh process. A run that is interrupted, by
    KeyboardInterrupt or by `kill -9`, is continued with `run=`.

    Raises UnknownNameError for names that are not known, UsageError for what cannot be tuned or continued,
    NoCompilerError, JournalBusyError, FileFormatError.
    """
    factory = pipeline or _native_pipeline
    if run is not None:
        log = continued_run(run, on_event)
        try:
            return _continue(log, operator, factory)
        finally:
            log.close()
    if operator is None:
        raise UsageError("name an operator to tune, or a run to continue")
    if not budget_s > 0:
        raise UsageError(f"the budget must be above zero seconds, got {budget_s:g}")
    plan = make_plan(operator, workloads, dtype, backends)
    workshop = factory(plan)
    try:
        stored, notes = stored_winners(plan, workshop)
        log = new_run(_first_event(plan, workshop, stored, budget_s, seed), on_event)
        try:
            log.say(RunOpened(log.record))
            for text in notes:
                log.note(text)
            return _conduct(log, plan, workshop, stored)
        finally:
            log.close()
    finally:
        workshop.close()


def _continue(log: RunLog, operator: str | None, factory: PipelineFactory) -> RunRecord:
    record = log.record
    if operator is not None and operator != record.operator:
        raise UsageError(f"run {record.id} tunes {record.operator}, not {operator}")
    log.say(RunOpened(record))
    if record.finished:
        log.say(Noted(record, f"run {record.id} had finished; nothing is left to do"))
        for result in record.results:
            log.say(WorkloadDecided(record, result))
        return record
    if record.machine["fingerprint"] != machine.fingerprint():
        raise UsageError(
            f"run {record.id} was begun on another machine ({record.machine['cpu']}); start a new run"
        )
    plan = make_plan(record.operator, record.workloads, record.dtype, record.backends)
    workshop = factory(plan)
    try:
        if record.space_key != _space_key(workshop):
            raise UsageError(
                f"the space of {record.operator} has changed since run {record.id}; start a new run"
            )
        log.write("resumed", {})
        stored = {bucket: (name, configuration) for bucket, (name, configuration) in record.stored.items()}
        return _conduct(log, plan, workshop, stored)
    finally:
        workshop.close()


def _conduct(
    log: RunLog, plan: Plan, pipeline: Pipeline, stored: Mapping[str, tuple[str, Configuration]]
) -> RunRecord:
    record = log.record
    budget = Budget(record.budget_s, len(plan.workloads))
    screening = Screening(log, pipeline, plan.workloads, stored, budget)
    _listen(log, pipeline, "at the start")
    if screening.go():
        _listen(log, pipeline, "before the finals")
        Finals(log, pipeline, screening, plan.spec, plan.workloads, stored, budget).go()
        _race_peers(log, plan, pipeline, budget)
    else:
        _give_up(log, plan)
    log.write("finished", {})
    log.say(PhaseChanged(record, Phase.FINISHED))
    return record


def _listen(log: RunLog, pipeline: Pipeline, when: str) -> None:
    disturbance = pipeline.disturbance()
    if disturbance is not None:
        log.note(f"{when}, {disturbance}")


def _race_peers(log: RunLog, plan: Plan, pipeline: Pipeline, budget: Budget) -> None:
    """What dispatch chooses from now on, winners included, against torch; as far as the budget goes."""
    missing = [workload for workload in plan.workloads if workload.name not in log.record.peers]
    left = budget.total_s - log.elapsed_s
    if not missing:
        return
    if left < budget.peers_at_least_s:
        log.note("no time was left to race torch; `kernelwright bench` does")
        return
    log.say(PhaseChanged(log.record, Phase.PEERS))
    try:
        contests = pipeline.peers(missing, budget_s=left)
    except KernelwrightError as error:
        # The main job is done by now; a peer that cannot be raced must not take its results away.
        log.note(f"torch was not raced: {str(error).splitlines()[0]}")
        return
    for workload in missing:
        if workload.name in contests:
            log.write("peers", {"workload": workload.name, "contests": contests[workload.name]})
    if len(contests) < len(missing):
        log.note(f"time allowed to race torch on {len(contests)} of {len(missing)} workloads")


def _give_up(log: RunLog, plan: Plan) -> None:
    default = log.record.evaluations[0]
    decided = {result.workload for result in log.record.results}
    for workload in plan.workloads:
        if workload.name not in decided:
            reason = f"the default itself failed ({default.status}): {default.reason}"
            outcome = f"nothing can be compared: {reason}"
            result = WorkloadResult(workload.name, workload.bucket, None, outcome)
            log.write("result", {name: getattr(result, name) for name in result.__dataclass_fields__})
            log.say(WorkloadDecided(log.record, log.record.results[-1]))


def _first_event(
    plan: Plan,
    pipeline: Pipeline,
    stored: Mapping[str, tuple[str, Configuration]],
    budget_s: float,
    seed: int,
) -> dict[str, Any]:
    return {
        "operator": plan.operator,
        "dtype": plan.dtype,
        "workloads": [workload.name for workload in plan.workloads],
        "backends": list(plan.backends),
        "budget_s": budget_s,
        "seed": seed,
        "machine": _machine(),
        "versions": _versions(),
        "defaults": {entry.implementation: entry.space.default for entry in pipeline.entries},
        "stored": {bucket: list(winner) for bucket, winner in stored.items()},
        "space_key": _space_key(pipeline),
    }


def _space_key(pipeline: Pipeline) -> str:
    text = "\n".join(f"{entry.implementation} {entry.tier} {entry.space!r}" for entry in pipeline.entries)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _machine() -> dict[str, Any]:
    here = machine.current()
    return {
        "fingerprint": machine.fingerprint(),
        "cpu": here.cpu.model,
        "cores": here.cores,
        "threads": here.threads,
        "memory_bytes": here.memory_bytes,
        "tiers": list(machine.available_tiers()),
        "system": f"{platform.system()} {platform.release()}",
    }


def _versions() -> dict[str, str]:
    known = {"python": platform.python_version()}
    for package in ("kernelwright", "torch", "numpy"):
        try:
            known[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            known[package] = "not installed as a package"
    return known


def _native_pipeline(plan: Plan) -> Pipeline:
    from kernelwright.tuning._native import NativePipeline

    return NativePipeline(plan)
