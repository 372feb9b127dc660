"""Our own C++ kernels as targets: built by build/ under controls, judged by the referee."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from kernelwright import dispatch
from kernelwright import machine
from kernelwright.build import build
from kernelwright.build import BuildRequest
from kernelwright.controls._codec import compiler_arguments
from kernelwright.controls._cpu_resources import cpu_resources
from kernelwright.controls._described import provider_description
from kernelwright.controls._described import provider_from
from kernelwright.controls._described import register_target
from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.controls._target import Artifact
from kernelwright.controls._target import BuildFailure
from kernelwright.controls._target import Config
from kernelwright.controls._target import split_config
from kernelwright.errors import BuildError
from kernelwright.errors import MissingExtraError
from kernelwright.errors import NoCompilerError
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.kernels.cpu import native_kernels
from kernelwright.kernels.cpu import NativeKernel
from kernelwright.ops import parse_dtype
from kernelwright.ops import Workload
from kernelwright.process import Limits
from kernelwright.referee import Comparison
from kernelwright.referee import Contest
from kernelwright.referee import Mode
from kernelwright.referee import NativeEntrant
from kernelwright.referee import NativeJudge
from kernelwright.referee import Patience
from kernelwright.referee import Status
from kernelwright.referee import Verdict
from kernelwright.search import StageFailure
from kernelwright.space import Space

#: As in tuning: a kernel that makes no call for this long is hung.
_PATIENCE = Patience(silent_s=3.0, total_s=60.0)
_BUILD = Limits(wall_s=60.0, memory_bytes=8 << 30)
#: A race that is lost in noise says nothing of the kernel: it is run again, longer, so often in all.
_ATTEMPTS = 3
#: Ratios below this are those of kernels that a screening does not measure to the end.
_FAR_BEHIND = 0.7
#: How wide the interval of a contest may be for a search to follow it: raced again, and at last.
_WIDEST, _WIDEST_AT_LAST = 1.5, 3.0
#: Elements above which the check is left to the edge shapes and to what the race looks at.
_QUICK_ELEMENTS = 1 << 22
#: Parameters that are flags of the compiler: with controls, those are the provider's business.
_FLAGS = "cxx_"


class NativeTarget:
    """One of the operators' C++ kernels on one workload, under the controls of gcc or clang.

    The baseline is the kernel in its default configuration, compiled by the provider's compiler without
    controls. Controls come after the flags of the build, so that they win; they are part of the build key, so
    that no artifact stands in for another. The parameters are the kernel's own, without its compiler flags.

    `measure` has the referee check the kernel, then race it against the baseline, block against block; the
    seconds that it returns are those of the baseline as first timed, divided by the contest's ratio, so that
    they do not drift with the machine. Call `calibrate` before several processes measure: they then
    share that first measurement.

    Args:
        operator: a name in `kernelwright list`.
        workload: sizes such as `512x11008`; the operator's third, which fits in caches, when None.
        provider: a GccSearchSpace or ClangSearchSpace.
        dtype: `bf16` unless named.
        tier: the instruction set it is compiled for; the best that runs here when None.
        parameters: whether the kernel's own parameters are chosen as well.
        budget_s: measuring time of one race.
        build_limits: of one compilation.
        kernel: stands in for the operator's own.

    Raises UnknownNameError for an operator, workload or dtype that is not known, UsageError for a provider of
    another compiler.
    """

    def __init__(
        self,
        operator: str,
        workload: str | None,
        provider: CompilerSearchSpace,
        *,
        dtype: str = "bf16",
        tier: str | None = None,
        parameters: bool = True,
        budget_s: float = 0.5,
        build_limits: Limits = _BUILD,
        kernel: NativeKernel | None = None,
    ) -> None:
        kernels = native_kernels()
        if kernel is None and operator not in kernels:
            raise UnknownNameError("operator with a native kernel", operator, kernels)
        if provider.tool not in ("gcc", "clang"):
            raise UsageError(f"C++ kernels are compiled by gcc or clang, not by {provider.tool}")
        spec = dispatch.spec(operator)
        assert spec is not None, f"{operator} has a kernel and no spec"
        self.spec = spec
        self.operator = operator
        self.provider = provider
        self.kernel = kernel or kernels[operator]
        self.tier = tier or self.kernel.tier()
        if self.tier not in self.kernel.tiers():
            raise UnknownNameError(f"tier of {operator} that runs here", self.tier, self.kernel.tiers())
        known = spec.workloads(parse_dtype(dtype))
        self.workload: Workload = (
            spec.parse_workload(workload, parse_dtype(dtype)) if workload else known[len(known) // 2]
        )
        self.parameters: Space | None = _own(self.kernel.tunables) if parameters else None
        self.budget_s = budget_s
        self.build_limits = build_limits
        #: Seconds of one call of the baseline, as first measured here; None before.
        self.baseline_s: float | None = None
        #: The referee's last word: a contest where there was one.
        self.verdict: Verdict | None = None
        self.contest: Contest | None = None
        self._judge: NativeJudge | None = None
        self._known: dict[str, dict[str, float | int | str]] = {}

    @property
    def name(self) -> str:
        """Operator, workload and compiler."""
        return f"{self.operator} {self.workload.name} ({self.provider.tool})"

    def describe(self) -> dict[str, Any]:
        """Plain JSON that `target_from` reads."""
        return {
            "kind": "native",
            "target": self.operator,
            "workload": self.workload.shape_name,
            "dtype": self.workload.name.rpartition(":")[2],
            "tier": self.tier,
            "parameters": self.parameters is not None,
            "budget_s": self.budget_s,
            "provider": provider_description(self.provider),
        }

    # -- building ------------------------------------------------------------------------------------------

    def request(self, config: Config) -> BuildRequest:
        """What build/ is asked for; the controls come last. Raises UsageError, SpaceError."""
        parameters, controls = split_config(config, mixed=self.parameters is not None)
        made = self.kernel.request(parameters, self.tier)
        words = () if controls is None else tuple(compiler_arguments(controls))
        return BuildRequest(
            made.section, made.root, made.macros, (*made.extra_flags, *words), self._compiler()
        )

    def build(self, config: Config) -> Artifact:
        """Compile the kernel under a configuration, or find what exactly this made before."""
        try:
            made = build(self.request(config), limits=self.build_limits)
        except BuildError as error:
            raise BuildFailure.of(error) from error
        return Artifact(
            made.library, made.code_key, made.log, self._resources(made.library, made.code_key), made.seconds
        )

    def _resources(self, library: Path, code_key: str) -> dict[str, float | int | str]:
        """What the binary tells with no run, looked up once for the same code."""
        if code_key not in self._known:
            known: dict[str, float | int | str] = {"library_bytes": library.stat().st_size}
            try:
                known |= cpu_resources(library)
            except MissingExtraError as error:
                known["resources_missing"] = str(error)
            self._known[code_key] = known
        return self._known[code_key]

    def _compiler(self) -> machine.Compiler:
        path = self.provider.compiler
        found = None if path is None else machine.compiler_at(path)
        if found is None:
            raise NoCompilerError(f"the compiler {path} is not there any more; make the provider again")
        return found

    # -- measuring -----------------------------------------------------------------------------------------

    def calibrate(self) -> float:
        """Seconds of one call of the baseline, judged right and timed unless it was.

        Raises StageFailure where it is not right, RefereeError where it cannot be timed.
        """
        if self.baseline_s is None:
            baseline = self.build({})
            self._check(baseline)
            judge = self._referee()
            data = judge.race_data(self.spec, self.kernel.describe, self.workload)
            inputs = {
                name: value for name, value in data.groups[0].arguments.items() if isinstance(value, Tensor)
            }
            timing = judge.time(
                self._entrant("baseline", baseline),
                data.call,
                mode=Mode.COLD,
                budget_s=self.budget_s,
                inputs=inputs,
            )
            self.baseline_s = timing.median_ns * 1e-9
        return self.baseline_s

    def measure(self, artifact: Artifact) -> float:
        """Seconds of one call; see the class. Raises StageFailure with the referee's status as its kind."""
        baseline_s = self.calibrate()
        self._check(artifact)
        baseline = self.build({})
        if artifact.code_key == baseline.code_key:
            return baseline_s
        return baseline_s / self._race(baseline, artifact).ratio

    def _check(self, artifact: Artifact) -> None:
        cost = self.spec.cost(self.workload)
        small = cost.bytes // self.workload.dtype.itemsize <= _QUICK_ELEMENTS
        verdict = self._referee().check(
            self.spec,
            self._entrant("candidate", artifact),
            describe=self.kernel.describe,
            workloads=[self.workload] if small else [],
            seed=0,
        )
        self._refuse(verdict)

    def _race(self, baseline: Artifact, artifact: Artifact) -> Contest:
        self.contest = None
        verdict = Verdict(Status.NOISY, "the machine is too busy: the interval of the ratio stays wide")
        for attempt in range(_ATTEMPTS):
            result = self._referee().race(
                self.spec,
                self.workload,
                self._entrant("baseline", baseline),
                [self._entrant("candidate", artifact)],
                describe=self.kernel.describe,
                budget_s=self.budget_s * 2**attempt,
                seed=attempt,
                # A screening stops early with who is far behind, perhaps before an interval says so.
                screen=self.contest is None or self.contest.ratio > _FAR_BEHIND,
            )
            self.contest = contest = result.contests.get("candidate")
            if contest is not None and _says_enough(contest, last=attempt == _ATTEMPTS - 1):
                return contest
            verdict = result.verdicts.get("candidate", verdict)
            if verdict.status is not Status.NOISY:
                break
        self._refuse(verdict)
        raise AssertionError("a race ended with neither a contest nor a reason")

    def _refuse(self, verdict: Verdict) -> None:
        self.verdict = verdict
        if verdict.status is not Status.PASSED:
            # Noise is of the machine and not of the code: the same code may be tried again.
            lasts = verdict.status is not Status.NOISY
            raise StageFailure(verdict.reason, kind=str(verdict.status), lasts=lasts)

    def _entrant(self, name: str, artifact: Artifact) -> NativeEntrant:
        return NativeEntrant(name, artifact.path, self.kernel.symbol)

    def _referee(self) -> NativeJudge:
        if self._judge is None:
            self._judge = NativeJudge(patience=_PATIENCE)
        return self._judge

    def close(self) -> None:
        """End the referee's processes."""
        judge, self._judge = self._judge, None
        if judge is not None:
            judge.close()

    def __getstate__(self) -> Mapping[str, Any]:
        # A referee's processes stay where they are: who unpickles the target gets a referee of its own.
        # An operator's own kernel is looked up there, too.
        kernel = None if self.kernel is native_kernels().get(self.operator) else self.kernel
        return {**self.__dict__, "_judge": None, "verdict": None, "contest": None, "kernel": kernel}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        if self.kernel is None:
            self.kernel = native_kernels()[self.operator]


def _own(space: Space) -> Space:
    """The kernel's parameters without those that are flags of the compiler."""
    kept = {name: one for name, one in space.parameters.items() if not name.startswith(_FLAGS)}
    return Space(kept, [one for one in space.constraints if one.scope is None or set(one.scope) <= set(kept)])


def _says_enough(contest: Contest, *, last: bool) -> bool:
    """Whether a search can follow it. Who is clearly slower need not be known better."""
    low, high = contest.interval
    if low <= 0.0 or math.isinf(high):
        return False
    if contest.comparison is Comparison.SLOWER:
        return True
    decided = last and contest.comparison is Comparison.FASTER
    return decided or high <= (_WIDEST_AT_LAST if last else _WIDEST) * low


@register_target("native")
def _from_description(description: Mapping[str, Any]) -> NativeTarget:
    return NativeTarget(
        description["target"],
        description["workload"],
        provider_from(description["provider"]),
        dtype=description["dtype"],
        tier=description["tier"],
        parameters=description["parameters"],
        budget_s=description["budget_s"],
    )
