"""Compile many libraries with one run of ninja; each has a log and a status of its own."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.build._flags import compiler_environment
from kernelwright.build._flags import link_flags
from kernelwright.build._flags import OPENMP_FOLDER
from kernelwright.build._flags import OPENMP_FOR_CLANG
from kernelwright.build._request import BuildRequest
from kernelwright.build._store import LIBRARY
from kernelwright.process import End
from kernelwright.process import Limits
from kernelwright.process import Outcome
from kernelwright.process import run


@dataclass(frozen=True)
class Job:
    """One library to compile: `key` names its folder below the scratch folder."""

    key: str
    request: BuildRequest
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One command of a job, and where it leaves its output, log and exit status, in the job's folder."""

    output: str
    command: str
    inputs: tuple[str, ...]

    @property
    def log(self) -> str:
        return f"{self.output}.log"

    @property
    def status(self) -> str:
        return f"{self.output}.status"


@dataclass(frozen=True)
class Result:
    """How one job ended. `status` is None when it was built, else `build_failed` or `build_timeout`."""

    status: str | None
    command: str
    log: str
    seconds: float


def compile_all(scratch: Path, jobs: Sequence[Job], limits: Limits, parallel: int) -> dict[str, Result]:
    """Compile and link every job into `scratch/<key>/kernel.so`; one that fails does not stop the others.

    `limits` are those of one job.
    """
    steps = {job.key: steps_of(job, scratch / job.key) for job in jobs}
    for job in jobs:
        (scratch / job.key).mkdir()
    (scratch / "build.ninja").write_text(_build_file(steps))
    import ninja  # its start is slow, and most processes find everything built

    binary = Path(ninja.BIN_DIR) / "ninja"
    waves = math.ceil(len(jobs) / parallel)
    batch = Limits(
        wall_s=limits.wall_s * waves,
        memory_bytes=limits.memory_bytes,
        cpu_s=limits.cpu_s or limits.wall_s,
        file_bytes=limits.file_bytes,
        processes=limits.processes,
    )
    outcome = run(
        [binary, "-C", scratch, "-k", "0", "-j", str(parallel), "--quiet"],
        limits=batch,
        # What a killed compiler leaves behind is then swept away with the scratch folder.
        env={**compiler_environment(), "TMPDIR": str(scratch)},
    )
    times = _times(scratch / ".ninja_log")
    return {job.key: _result(scratch / job.key, steps[job.key], outcome, times) for job in jobs}


def steps_of(job: Job, folder: Path) -> list[Step]:
    """The commands that make one library, to be run in `folder`; the link comes last."""
    request = job.request
    compiler = str(request.chosen_compiler.path)
    root = request.root.resolve()
    maps = [f"-ffile-prefix-map={path}={written}" for written, path in request.include_folders()]
    maps += [f"-ffile-prefix-map={root}=.", f"-ffile-prefix-map={folder}=."]
    includes = [f"-I{path}" for _, path in request.include_folders()]
    kind = request.chosen_compiler.kind
    steps = []
    if kind == "clang":
        includes.append(f"-isystem{OPENMP_FOLDER}")
        output = f"{OPENMP_FOR_CLANG.stem}.o"
        own = [compiler, "-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", f"-isystem{OPENMP_FOLDER}"]
        steps.append(Step(output, shlex.join([*own, "-c", str(OPENMP_FOR_CLANG), "-o", output]), ()))
    for index, unit in enumerate(request.units):
        output = f"{index}-{Path(unit).stem}.o"
        seed = [f"-frandom-seed={output}"] if kind == "gcc" else []
        words = [compiler, *job.flags, *seed, *maps, *includes, "-MMD", "-MF", f"{output}.d"]
        words += ["-c", str((root / unit).resolve()), "-o", output]
        steps.append(Step(output, shlex.join(words), ()))
    objects = tuple(step.output for step in steps)
    link = [compiler, *objects, *link_flags(kind, job.flags), "-o", LIBRARY]
    steps.append(Step(LIBRARY, shlex.join(link), objects))
    return steps


def dependencies(folder: Path) -> set[Path]:
    """The files that the units of a job included, system headers aside."""
    found: set[Path] = set()
    for depfile in folder.glob("*.o.d"):
        text = depfile.read_text().replace("\\\n", " ")
        _, _, listed = text.partition(":")
        for word in re.findall(r"(?:\\.|[^\s\\])+", listed):
            name = re.sub(r"\\(.)", r"\1", word).replace("$$", "$")
            found.add((folder / name).resolve())
    return found


def _build_file(steps: Mapping[str, Sequence[Step]]) -> str:
    lines = ["ninja_required_version = 1.5", "rule step", "  command = $run", ""]
    for key, own in steps.items():
        for step in own:
            inputs = " ".join(f"{key}/{name}" for name in map(_escape_path, step.inputs))
            # The shell keeps the exit status in a file, so that each job has its own whatever ninja prints.
            shell = (
                f"cd {key} && {{ {step.command}; }} >{shlex.quote(step.log)} 2>&1; code=$?; "
                f"echo $code >{shlex.quote(step.status)}; exit $code"
            )
            lines.append(f"build {key}/{_escape_path(step.output)}: step {inputs}")
            lines.append(f"  run = {shell.replace('$', '$$')}")
    return "\n".join([*lines, ""])


def _escape_path(name: str) -> str:
    return name.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def _times(log: Path) -> dict[str, tuple[float, float]]:
    """Start and end of each successful step in seconds, by its output, from ninja's own log."""
    times = {}
    if log.exists():
        for line in log.read_text().splitlines():
            fields = line.split("\t")
            if len(fields) == 5:
                times[fields[3]] = (int(fields[0]) / 1000, int(fields[1]) / 1000)
    return times


def _result(
    folder: Path, steps: Sequence[Step], outcome: Outcome, times: Mapping[str, tuple[float, float]]
) -> Result:
    logs = []
    for step in steps:
        log, status = folder / step.log, folder / step.status
        text = log.read_text(errors="replace") if log.exists() else ""
        if text:
            logs.append(text)
        code = status.read_text().strip() if status.exists() else ""
        if code == "0":
            continue
        if code:
            # 152 is 128 + SIGXCPU: the processor time of one process ran out.
            late = code == "152" or "CPU time limit exceeded" in text
            return Result("build_timeout" if late else "build_failed", step.command, "".join(logs), 0.0)
        if outcome.end is End.TIMED_OUT:
            logs.append(f"error: killed at its time limit after {outcome.wall_s:.3g} s\n")
            return Result("build_timeout", step.command, "".join(logs), 0.0)
        logs.append(f"error: ninja {outcome.describe()}\n{outcome.stdout}{outcome.stderr}")
        return Result("build_failed", step.command, "".join(logs), 0.0)
    own = [times[f"{folder.name}/{step.output}"] for step in steps if f"{folder.name}/{step.output}" in times]
    seconds = round(max(end for _, end in own) - min(start for start, _ in own), 3) if own else 0.0
    return Result(None, steps[-1].command, "".join(logs), seconds)


def default_parallel() -> int:
    """How many compilers run at once where nobody says: one a processor that we may use."""
    return max(1, len(os.sched_getaffinity(0)))
