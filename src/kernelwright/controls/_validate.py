"""Finalists of a target, built again in a fresh cache and judged by the referee against no controls."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kernelwright.controls._finalists import BASELINE
from kernelwright.controls._finalists import Candidate
from kernelwright.controls._finalists import Finalist
from kernelwright.controls._finalists import judge_together
from kernelwright.controls._finalists import OnFinalist
from kernelwright.controls._finalists import Validation
from kernelwright.controls._finalists import with_student_p
from kernelwright.controls._native import NativeTarget
from kernelwright.controls._provenance import provenance_of
from kernelwright.controls._rounds import judge_in_rounds
from kernelwright.controls._target import Artifact
from kernelwright.controls._target import BuildFailure
from kernelwright.controls._target import Config
from kernelwright.controls._target import Target
from kernelwright.errors import KernelwrightError
from kernelwright.files import as_plain
from kernelwright.referee import Comparison
from kernelwright.referee import confirm
from kernelwright.referee import Mode
from kernelwright.referee import NativeEntrant
from kernelwright.referee import Regime
from kernelwright.referee import Status
from kernelwright.referee import Verdict
from kernelwright.referee._statistics import Estimate
from kernelwright.search import IsoMultiProcessWorker
from kernelwright.search import Through

#: A confirmation that was refused for noise says nothing of the kernel; so often in all.
_ATTEMPTS = 3

_CACHE = "KERNELWRIGHT_CACHE"

Build = Callable[[Target, Config], Artifact]
#: Judges an artifact against the baseline's, from nothing: check and contests, in processes of their own.
Confirm = Callable[[Artifact, Artifact], Verdict]


class ValidationError(KernelwrightError):
    """Nothing can be validated: the baseline cannot be built or measured."""


def validate_target(
    target: Target,
    candidates: Sequence[Candidate],
    *,
    budget_s: float = 2.0,
    processes: int = 5,
    rounds: int = 12,
    task_timeout: float | None = 300.0,
    seed: int = 0,
    on_finalist: OnFinalist | None = None,
) -> Validation:
    """Judge candidates again against the target without controls, and say which are better.

    All is built anew, in a folder that is empty before and gone afterwards. Where the referee can judge the
    target's artifacts itself (our C++ kernels; a target with a method `confirm(baseline, artifact)` that
    returns a Verdict), each is checked and then raced in `processes` fresh pairs of processes with fresh
    data, `budget_s` in all; any other target is measured in turns with the baseline, `rounds` times, each
    time in a fresh process. Candidates with one binary share one verdict, and one with the binary of the
    baseline is the same as it. Comparisons are held to one level together (Holm).

    While it builds, this process's environment names that folder: not for several threads at once.

    Raises ValidationError where the baseline cannot be judged.
    """
    confirming = confirm_of(target, budget_s=budget_s, processes=processes)
    with fresh_builds() as build:
        try:
            baseline = build(target, {})
        except BuildFailure as error:
            raise ValidationError(f"{target.name} does not build without controls: {error}") from error
        finalists, distinct = _built(target, candidates, baseline, build)
        if confirming is not None:
            measured = _confirmed(confirming, baseline, finalists, distinct, processes, on_finalist)
        else:
            measured = _in_rounds(target, finalists, rounds, task_timeout, seed, on_finalist)
    kept, estimates = measured
    return Validation(
        target.name,
        tuple(judge_together(kept, estimates)),
        provenance=provenance_of(target),
        description=target.describe(),
    )


def confirm_of(target: Target, *, budget_s: float, processes: int) -> Confirm | None:
    """How the referee judges this target's artifacts; None where only the target can measure them."""
    own = getattr(target, "confirm", None)
    if own is not None:

        def by_target(baseline: Artifact, artifact: Artifact) -> Verdict:
            verdict: Verdict = own(baseline, artifact, budget_s=budget_s, processes=processes)
            return verdict

        return by_target
    if not isinstance(target, NativeTarget):
        return None

    def native(baseline: Artifact, artifact: Artifact) -> Verdict:
        symbol = target.kernel.symbol
        for _ in range(_ATTEMPTS):
            verdict = confirm(
                target.spec,
                target.workload,
                NativeEntrant(BASELINE, baseline.path, symbol),
                NativeEntrant("candidate", artifact.path, symbol),
                describe=target.kernel.describe,
                budget_s=budget_s,
                modes=(Mode.COLD,),
                regimes=(Regime.PREALLOCATED,),
                processes=processes,
            )
            if verdict.status is not Status.NOISY:
                break
        return verdict

    return native


@contextlib.contextmanager
def fresh_builds() -> Iterator[Build]:
    """A way to build where nothing was built before; what it makes is gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix="kernelwright-fresh-") as folder:

        def build(target: Target, config: Config) -> Artifact:
            # Only while this builds: what the referee builds for itself is no candidate's, and stays.
            before = os.environ.get(_CACHE)
            os.environ[_CACHE] = folder
            try:
                return target.build(config)
            finally:
                if before is None:
                    del os.environ[_CACHE]
                else:
                    os.environ[_CACHE] = before

        yield build


def _built(
    target: Target, candidates: Sequence[Candidate], baseline: Artifact, build: Build
) -> tuple[list[Finalist], dict[str, Artifact]]:
    """The candidates with what their binaries say, and the artifacts that have to be measured, by name."""
    leaders = {baseline.code_key: BASELINE}
    finalists: list[Finalist] = []
    distinct: dict[str, Artifact] = {}
    for one in candidates:
        facts: dict[str, Any] = {"number": one.number, "scores": one.scores}
        try:
            artifact = build(target, one.config)
        except BuildFailure as error:
            status = Status.BUILD_TIMEOUT if error.status == "build_timeout" else Status.BUILD_FAILED
            finalists.append(Finalist(one.name, one.config, status, f"{error.status}: {error}", **facts))
            continue
        facts["code_key"] = artifact.code_key
        leader = leaders.setdefault(artifact.code_key, one.name)
        if leader == BASELINE:
            finalists.append(
                Finalist(
                    one.name,
                    one.config,
                    Status.PASSED,
                    "the same binary as without controls",
                    Comparison.SAME,
                    1.0,
                    (1.0, 1.0),
                    shares=BASELINE,
                    **facts,
                )
            )
        elif leader == one.name:
            distinct[one.name] = artifact
            finalists.append(Finalist(one.name, one.config, Status.PASSED, **facts))
        else:
            finalists.append(Finalist(one.name, one.config, Status.PASSED, shares=leader, **facts))
    return finalists, distinct


def _confirmed(
    confirming: Confirm,
    baseline: Artifact,
    finalists: Sequence[Finalist],
    distinct: dict[str, Artifact],
    processes: int,
    on_finalist: OnFinalist | None,
) -> tuple[list[Finalist], dict[str, Estimate]]:
    """The verdict of the referee on each distinct artifact, and what it measured."""
    kept: list[Finalist] = []
    estimates: dict[str, Estimate] = {}
    for one in finalists:
        if one.name in distinct:
            verdict = confirming(baseline, distinct[one.name])
            one = replace(
                one,
                status=verdict.status,
                reason=verdict.reason if verdict.status is not Status.PASSED else "",
                contests=tuple(as_plain(contest) for contest in verdict.contests),
            )
            if verdict.contests:
                first = verdict.contests[0]
                estimates[one.name] = with_student_p(first.ratio, first.interval, processes)
                one = replace(one, comparison=first.comparison, ratio=first.ratio, interval=first.interval)
        kept.append(one)
        if on_finalist is not None:
            on_finalist(one)
    return kept, estimates


def _in_rounds(
    target: Target,
    finalists: Sequence[Finalist],
    rounds: int,
    task_timeout: float | None,
    seed: int,
    on_finalist: OnFinalist | None,
) -> tuple[list[Finalist], dict[str, Estimate]]:
    """By the target's own measurement, each in a fresh process."""
    measured = [one for one in finalists if one.status is Status.PASSED and one.shares is None]
    candidates = [Candidate(one.name, one.config, one.number, one.scores) for one in measured]
    if not candidates:
        return list(finalists), {}
    with IsoMultiProcessWorker(_Measured(target), 1, task_timeout) as worker:
        found, estimates = judge_in_rounds(
            Through(worker), candidates, {}, rounds=rounds, seed=seed, what=target.name
        )
    by_name = {one.name: one for one in found}
    kept = []
    for one in finalists:
        if one.name in by_name:
            judged = by_name[one.name]
            one = Finalist(
                one.name,
                one.config,
                judged.status,
                judged.reason,
                number=one.number,
                scores=one.scores,
                code_key=one.code_key,
            )
        kept.append(one)
        if on_finalist is not None:
            on_finalist(one)
    return kept, estimates


class _Measured:
    """A target as an objective: built and measured in the process that calls it."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def __call__(self, config: Any) -> float:
        with fresh_builds() as build:
            return self.target.measure(build(self.target, config))
