"""Checks of our own operators: every native kernel that runs here, in each tier and serving configuration."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import TYPE_CHECKING

from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError

if TYPE_CHECKING:
    import torch

    from kernelwright.build import Artifact
    from kernelwright.errors import BuildError
    from kernelwright.kernels.cpu import NativeKernel
    from kernelwright.ops import OperatorSpec
    from kernelwright.ops import Workload
    from kernelwright.referee import Verdict


@dataclass(frozen=True)
class Row:
    """One kernel in one tier, configuration and dtype, and what was found."""

    operator: str
    implementation: str
    tier: str
    configuration: str
    dtype: str
    workloads: tuple[str, ...]
    verdict: Verdict

    @property
    def title(self) -> str:
        """In one line."""
        return f"{self.operator} {self.dtype}: {self.implementation} {self.tier}, {self.configuration}"


@dataclass(frozen=True)
class _Job:
    spec: OperatorSpec
    kernel: NativeKernel
    tier: str
    configuration: str
    values: dict[str, Any]
    dtypes: tuple[str, ...]


def not_checked(operators: Sequence[str]) -> list[str]:
    """Implementations that no row covers, each with the reason."""
    from kernelwright import dispatch
    from kernelwright.kernels.cpu import native_kernels

    said = []
    for operator in operators:
        for one in dispatch.implementations(operator):
            if one.backend == "torch":
                said.append(
                    f"{operator} {one.name}: torch in the operator's own dtype is the measure of error"
                )
            elif one.backend != "cpu" or operator not in native_kernels():
                why = one.available() or f"there is no judge of operators for backend {one.backend} yet"
                said.append(f"{operator} {one.name}: {why}")
        kernel = native_kernels().get(operator)
        if kernel is not None:
            missing = [tier for tier in kernel.build_file.tiers(operator) if tier not in kernel.tiers()]
            if missing:
                said.append(f"{operator} cpu {', '.join(missing)}: this machine does not run these tiers")
    return said


def check_operators(
    operators: Sequence[str],
    *,
    dtypes: Sequence[str] | None,
    workloads: Sequence[str] | None,
    threads: int | None,
    seed: int | None,
    on_start: Callable[[str], None],
) -> Iterator[Row]:
    """Judge native kernels against their operators' specs; yields each row when it is whole.

    `seed` is where the data come from (drawn when None). Raises UnknownNameError, UsageError and
    NoCompilerError before anything is judged.
    """
    jobs = [job for operator in operators for job in _jobs(operator, dtypes)]
    wanted = [(job, dtype, _workloads(job.spec, dtype, workloads)) for job in jobs for dtype in job.dtypes]
    return _judged(jobs, wanted, threads, seed, on_start)


def _jobs(operator: str, dtypes: Sequence[str] | None) -> list[_Job]:
    from kernelwright import dispatch
    from kernelwright import machine
    from kernelwright import winners
    from kernelwright.kernels.cpu import native_kernels
    from kernelwright.ops import dtype_name
    from kernelwright.ops import parse_dtype

    spec = dispatch.spec(operator)
    if spec is None:
        raise UsageError(
            f"operator {operator!r} was registered without a spec: there is nothing to check it against"
        )
    kernel = native_kernels().get(operator)
    if kernel is None:
        raise UsageError(
            f"{operator} has no native kernel to check; `kernelwright list {operator}` shows all"
        )
    machine.find_compiler()
    known = [dtype_name(dtype) for dtype in spec.dtypes]
    names = [dtype_name(parse_dtype(name)) for name in dtypes] if dtypes else known
    for name in names:
        if name not in known:
            raise UnknownNameError(f"dtype of {operator}", name, known)
    jobs = [
        _Job(spec, kernel, tier, "default configuration", dict(kernel.default), tuple(names))
        for tier in kernel.tiers()
    ]
    for record in winners.all_records(operator):
        if record.machine == winners.this_machine() and record.implementation == "cpu":
            served = tuple(name for name in names if record.bucket.startswith(f"{name}-"))
            if served and record.configuration != kernel.default:
                title = f"winner of {record.bucket}"
                jobs.append(_Job(spec, kernel, kernel.tier(), title, dict(record.configuration), served))
    return jobs


def _workloads(spec: OperatorSpec, dtype: str, texts: Sequence[str] | None) -> list[Workload]:
    from kernelwright.ops import parse_dtype

    parsed: torch.dtype = parse_dtype(dtype)
    if texts is None:
        return list(spec.workloads(parsed))
    made = [spec.parse_workload(text, parsed) for text in texts]
    return [workload for workload in made if workload.dtype == parsed]


def _judged(
    jobs: Sequence[_Job],
    wanted: Sequence[tuple[_Job, str, list[Workload]]],
    threads: int | None,
    seed: int | None,
    on_start: Callable[[str], None],
) -> Iterator[Row]:
    from kernelwright.build import build_many
    from kernelwright.referee import NativeJudge

    on_start(f"building {len(jobs)} artifacts")
    built = build_many([job.kernel.request(job.values, job.tier) for job in jobs])
    artifacts = {id(job): artifact for job, artifact in zip(jobs, built, strict=True)}
    chosen = secrets.randbits(48) if seed is None else seed
    with NativeJudge(seed=chosen, threads=threads) as judge:
        for job, dtype, workloads in wanted:
            if not workloads:
                continue
            on_start(f"{job.spec.name} {dtype} {job.tier}, {job.configuration}")
            verdict = _verdict(judge, job, artifacts[id(job)], workloads, chosen)
            names = tuple(workload.name for workload in workloads)
            yield Row(job.spec.name, "cpu", job.tier, job.configuration, dtype, names, verdict)


def _verdict(
    judge: Any, job: _Job, artifact: Artifact | BuildError, workloads: list[Workload], seed: int
) -> Verdict:
    from kernelwright.referee import NativeEntrant
    from kernelwright.referee import Status
    from kernelwright.referee import Verdict

    if isinstance(artifact, Exception):
        return Verdict(Status(artifact.status), str(artifact), evidence={"command": artifact.command})
    entrant = NativeEntrant(f"{job.spec.name} {job.tier}", artifact.library, job.kernel.symbol)
    found: Verdict = judge.check(
        job.spec, entrant, describe=job.kernel.describe, workloads=workloads, seed=seed
    )
    return found
