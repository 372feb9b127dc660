"""The judge of anyone's Python callable: a reference, a candidate, and the processes they are confined to."""

from __future__ import annotations

import dataclasses
import os
import random
import secrets
import tempfile
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from typing import Self

import torch

from kernelwright import settings
from kernelwright.errors import UsageError
from kernelwright.files import remove_tree
from kernelwright.process import Limits
from kernelwright.process import Sandbox
from kernelwright.process import Template
from kernelwright.referee._child import default_memory_bytes
from kernelwright.referee._child import Patience
from kernelwright.referee._child import RefereeError
from kernelwright.referee._verdict import Mode
from kernelwright.referee._verdict import Status
from kernelwright.referee._verdict import Verdict
from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._bench import bench_contract
from kernelwright.referee.contract._check import CheckRun
from kernelwright.referee.contract._facts import Candidate
from kernelwright.referee.contract._facts import Deadlines
from kernelwright.referee.contract._facts import Node
from kernelwright.referee.contract._facts import PerformerFailure
from kernelwright.referee.contract._findings import describe
from kernelwright.referee.contract._findings import Findings
from kernelwright.referee.contract._integrity import changed
from kernelwright.referee.contract._integrity import fingerprint
from kernelwright.referee.contract._reference import Reference
from kernelwright.referee.contract._stage import Performer

_LIFE_S = 24 * 3600.0
#: A check is not cut short for the sake of a race: so much it may take, whatever the budget.
_LEAST_S = 20.0
#: Processor seconds of each of a candidate's processes, for each processor: far beyond a check and a race.
_CPU_S = 600.0
#: The largest file that a candidate may write: beyond what compilers leave, far below a disk.
_FILE_BYTES = 1 << 30
#: Memory that a candidate may take: at all, for each byte of its largest call, for each processor's thread.
_MEMORY_BYTES, _MEMORY_FACTOR, _THREAD_BYTES = 4 << 30, 16, 32 << 20
#: The variables that a candidate gets: those of compilers, loaders and mathematical libraries.
_VARIABLES = ("PATH", "LANG", "TZ", "CC", "CXX", "CXXFLAGS", "LD_LIBRARY_PATH", "LD_PRELOAD", "CPATH")
_PREFIXES = ("LC_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "TORCH_", "ATEN_")


@dataclass(frozen=True)
class ContractTarget:
    """A candidate and what it is judged against.

    `baseline` is the user's `baseline.py`; `package` and `op` name the candidate's callable, found on `path`
    and among what is installed. `atol` and `rtol` replace the rule for the largest error.
    """

    baseline: Path
    package: str
    op: str
    path: tuple[Path, ...] = ()
    atol: float | None = None
    rtol: float | None = None

    def __post_init__(self) -> None:
        if not self.package or not self.op:
            raise UsageError(
                "a candidate needs --kernel-package PACKAGE and --op PACKAGE.FUNCTION; got "
                f"package {self.package!r}, op {self.op!r}"
            )
        for name in ("atol", "rtol"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise UsageError(f"{name} is {value!r}; give a number of at least 0")


class ContractJudge:
    """Judges one candidate against a user's reference. A context manager.

    The judge's own process runs neither: the reference lives in one child, each run of the candidate in a
    fresh one, confined. `seed` is where inputs, shapes and changes are drawn from (drawn when None: nobody
    knows it before). `threads` is how many torch may use, `patience` how long the candidate may be silent,
    `budget_s` how long a check may take. `template` is a process that has imported torch, of which all are
    forks; who judges many candidates hands in one for all.
    """

    def __init__(
        self,
        target: ContractTarget,
        *,
        seed: int | None = None,
        threads: int | None = None,
        patience: Patience | None = None,
        budget_s: float = 60.0,
        template: Template | None = None,
    ) -> None:
        self.target = target
        self.seed = secrets.randbits(48) if seed is None else seed
        self.draw = random.Random(self.seed)
        self.threads = threads or settings.threads() or torch.get_num_threads()
        self.patience = patience
        self.budget_s = budget_s
        self.scratch = Path(tempfile.mkdtemp(prefix="kernelwright-judge-"))
        # Users of their own have to get to the folders in it, without a capability to get anywhere.
        self.scratch.chmod(0o711)
        self.template = Template(["torch"]) if template is None else template
        self._own_template = template is None
        self.reference = Reference(
            target.baseline,
            refuse=target.package,
            template=self.template,
            threads=self.threads,
            atol=target.atol,
            rtol=target.rtol,
        )
        #: The scratch folders, and the candidate's process that has, or last had, each of them.
        self._users: dict[Path, Performer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all processes and remove what they wrote."""
        self.reference.close()
        if self._own_template:
            self.template.close()
        remove_tree(self.scratch)

    @property
    def deadlines(self) -> Deadlines:
        """How long a performer may take for its first call and for later ones."""
        plain = Deadlines()
        if self.patience is None:
            return plain
        return Deadlines(
            first_s=self.patience.total_s,
            idle_s=min(plain.idle_s, self.patience.silent_s),
            call_s=self.patience.silent_s,
            batch_s=max(self.patience.silent_s, plain.batch_s),
        )

    def candidate(self, **options: Any) -> Performer:
        """A fresh, confined process for the candidate, not loaded yet; `options` as for `Performer`.

        It finds what one that is over left in the scratch folder: libraries that it built, a compiler's
        cache. Results left there are of no use: each process gets other inputs.
        """
        target = self.target
        place = next((place for place, user in self._users.items() if user.closed), None)
        if place is None:
            place = self.scratch / f"candidate-{len(self._users) + 1}"
        sandbox = Sandbox(scratch=place, hidden=(target.baseline.absolute(),), readable=tuple(target.path))
        self._users[place] = performer = Performer(
            Candidate(target.package, target.op, path=tuple(target.path)),
            template=self.template,
            deadlines=self.deadlines,
            limits=Limits(
                wall_s=_LIFE_S,
                memory_bytes=self._memory_bytes(),
                file_bytes=_FILE_BYTES,
                cpu_s=_CPU_S * (os.cpu_count() or 1),
            ),
            env=candidate_environment(),
            sandbox=sandbox,
            watched={"the baseline": target.baseline.absolute(), **options.pop("watched", {})},
            **options,
        )
        return performer

    def _memory_bytes(self) -> int:
        """What the candidate may take: many times what its largest call needs, if the machine has it."""
        threads = _THREAD_BYTES * (os.cpu_count() or 1)
        wanted = _MEMORY_BYTES + threads + _MEMORY_FACTOR * self.reference.largest_bytes
        return min(default_memory_bytes(), wanted)

    def load(self, performer: Performer, *, threads: int | None = None) -> None:
        """Load the candidate; one that is a class is made as the reference's Model is. PerformerFailure."""
        if self.reference.contract.module:
            init, state, tensors = self.reference.state()
            left = iter(tensors)

            def put(_: Node) -> Node:
                return performer.board.put(next(left))

            given = tuple(tree.map_tensors(node, put) for node in init)
            parameters = {name: tree.map_tensors(node, put) for name, node in state.items()}
            assert isinstance(performer.target, Candidate)
            performer.target = dataclasses.replace(performer.target, init=given, state=parameters)
        performer.load(threads=threads or self.threads)

    def bench(
        self,
        modes: Sequence[Mode | str] = (Mode.WARM,),
        *,
        mode: Mode | str | None = None,
        budget_s: float | None = None,
        processes: int = 3,
        minimum_effect: float = 0.01,
        gate: str = "bootstrap",
    ) -> Verdict:
        """Check the candidate, then race it against the reference in fresh processes; see `bench_contract`.

        `mode` is for a single one of `modes`.
        """
        before = fingerprint(self.target.baseline)
        verdict = bench_contract(
            self,
            modes if mode is None else (mode,),
            budget_s=budget_s,
            processes=processes,
            minimum_effect=minimum_effect,
            gate=gate,
        )
        return self._undisturbed(before, verdict)

    def check(self, *, budget_s: float | None = None) -> Verdict:
        """Whether the candidate is right. Raises UsageError and RefereeError for what is wrong elsewhere.

        `budget_s` is the judge's own when None; a check takes what it needs up to 20 s in any case.
        """
        before = fingerprint(self.target.baseline)
        budget_s = max(_LEAST_S, self.budget_s if budget_s is None else budget_s)
        evidence: dict[str, Any] = {"seed": self.seed, "threads": self.threads, **self._tolerances()}
        findings = Findings()
        workloads = describe(self.reference, findings, draw=self.draw, budget_s=budget_s)
        with self.candidate() as performer:
            try:
                self.load(performer)
            except PerformerFailure as failure:
                verdict = self._not_loaded(performer, failure)
            else:
                run = CheckRun(
                    self.reference,
                    performer,
                    workloads,
                    findings,
                    draw=self.draw,
                    threads=self.threads,
                    budget_s=budget_s,
                )
                verdict = run.run()
            evidence["guards"] = _guards(performer)
        evidence.update(verdict.evidence)
        return self._undisturbed(before, dataclasses.replace(verdict, evidence=evidence))

    def _undisturbed(self, before: Mapping[Path, str], verdict: Verdict) -> Verdict:
        """The verdict, unless files that it stands on are not what they were."""
        edited = changed(before, fingerprint(self.target.baseline))
        if not edited:
            return verdict
        names = ", ".join(str(path) for path in edited[:3])
        if verdict.evidence["guards"].get("read_only") == "active":
            raise RefereeError(
                f"files that the verdict stands on were changed while the judge worked, and not by the "
                f"candidate, which cannot write to them: {names}; judge again"
            )
        return Verdict(
            Status.CHEATED,
            f"files of the harness were changed while it ran: {names}",
            evidence=verdict.evidence,
        )

    def _tolerances(self) -> dict[str, Any]:
        budget = self.reference.contract.budget
        return {
            "tolerances": {
                "factor": budget.factor,
                "floor_ulps": {tree.dtype_name(key): value for key, value in budget.floor_ulps.items()},
                "relative_l2": {tree.dtype_name(key): value for key, value in budget.relative_l2.items()},
                "atol": budget.atol,
                "rtol": budget.rtol,
            }
        }

    def _not_loaded(self, performer: Performer, failure: PerformerFailure) -> Verdict:
        acts = [act for act in performer.acts() if act.deceives]
        if failure.act is not None and failure.act.deceives:
            acts.insert(0, failure.act)
        if acts:
            said = "" if acts[0].said in failure.reason else f"the candidate {acts[0].said}; "
            return Verdict(Status.CHEATED, said + failure.reason)
        when = "" if failure.raised is not None else "while it was imported: "
        return Verdict(failure.status, when + failure.reason)


def candidate_environment() -> dict[str, str]:
    """What a candidate sees of this process's environment."""
    return {
        name: value for name, value in os.environ.items() if name in _VARIABLES or name.startswith(_PREFIXES)
    }


def _guards(performer: Performer) -> Mapping[str, str]:
    """The guards of the candidate's process: "active", or why one is not."""
    return {name: why or "active" for name, why in performer.guards().items()}
