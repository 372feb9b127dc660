"""Search compiler controls on a GPU, canary first, judged and reduced afterwards; the outcome as JSON.

    python benchmarks/controls_gpu.py ptxas:rms_norm ptxas:matmul nvcc:rms_norm nvcc:matmul \
        triton:silu_and_mul triton:matmul cutile:silu_and_mul cutile:matmul --out results.json
    python benchmarks/controls_gpu.py helion cute_dsl flashinfer --evaluations 50 --out more.json
    python benchmarks/controls_gpu.py --join results.json more.json --out all.json

Each is a target of `examples/controls_*.py`. For each: the canary, the search, how many configurations gave
how many binaries, failures by kind, what a confirmation in fresh processes says of the best, the fewest
options that keep a win, and what they change in the binary.

Several run `--side-by-side`: their compilers share the processors, and one process measures on the GPU at a
time. What is written is kept after each step, so that a run that is cut off leaves what it has.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from datetime import UTC
from pathlib import Path
from typing import Any

from kernelwright import machine
from kernelwright.controls import CanaryError
from kernelwright.controls import Candidate
from kernelwright.controls import choose_finalists
from kernelwright.controls import explain
from kernelwright.controls import minimize_controls
from kernelwright.controls import search_controls
from kernelwright.controls import Target
from kernelwright.controls import validate_target
from kernelwright.files import as_plain
from kernelwright.files import write_atomic
from kernelwright.search import SearchConfiguration

EXAMPLES = Path(__file__).parents[1] / "examples"
PACKAGES = ("torch", "triton", "cuda-tile", "helion", "nvidia-cutlass-dsl", "flashinfer-python")


def main() -> None:
    """Read the command line, run all that is named, and write what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="*", metavar="FRAMEWORK[:KERNEL]")
    parser.add_argument("--join", nargs="+", type=Path, metavar="FILE", help="of several runs, make one file")
    parser.add_argument("--evaluations", type=int, default=200)
    parser.add_argument("--workers", type=int, default=4, help="compilations at once, of each")
    parser.add_argument("--side-by-side", type=int, default=1)
    parser.add_argument("--constraint", action="append", help="on a binary; `spills == 0` unless given")
    parser.add_argument("--top", type=int, default=3)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--max-time", type=float, help="seconds of each search, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("controls_gpu.json"))
    parser.add_argument("--parts", type=Path, metavar="FOLDER", help="where each is kept as it goes on")
    parser.add_argument("--one", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one is not None:
        run_one(asked.what[0], asked)
        return
    if asked.join:
        write_atomic(asked.out, json.dumps(joined(asked.join), indent=1) + "\n")
        return
    document = {**facts(), "evaluations": asked.evaluations, "seed": asked.seed, "runs": []}
    folder = asked.parts or Path(tempfile.mkdtemp(prefix="controls-gpu-"))
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(asked.side_by_side) as pool:
        files = {what: folder / f"{what.replace(':', '-')}.json" for what in asked.what}
        done = {what: pool.submit(started, what, path, asked) for what, path in files.items()}
        for what, path in files.items():
            code, said = done[what].result()
            found = json.loads(path.read_text()) if path.is_file() else {"what": what}
            if code:
                found["ended"] = said[-2000:]
            document["runs"].append(found)
            write_atomic(asked.out, json.dumps(document, indent=1) + "\n")
            print(f"{what}: {found.get('said', said[-2000:])}", flush=True)
    print(f"written to {asked.out}")


def joined(paths: list[Path]) -> dict[str, Any]:
    """One document of several; where two have the same target, the later one's run stands."""
    documents = [json.loads(without_folders(path.read_text())) for path in paths]
    runs: dict[str, Any] = {}
    for document in documents:
        for run in document["runs"]:
            runs[run["what"]] = {**run, "evaluations_asked": document["evaluations"]}
    versions = {name: one for document in documents for name, one in document["versions"].items()}
    return {**documents[0], "versions": versions, "runs": list(runs.values())}


def started(what: str, path: Path, asked: argparse.Namespace) -> tuple[int, str]:
    """Run one in a process of its own; its exit code and what it said."""
    command = [sys.executable, __file__, what, "--one", str(path)]
    for name in ("evaluations", "workers", "top", "processes", "seed", "max_time"):
        value = getattr(asked, name)
        if value is not None:
            command += [f"--{name.replace('_', '-')}", str(value)]
    for text in asked.constraint or ():
        command += ["--constraint", text]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr + done.stdout


def facts() -> dict[str, Any]:
    """Machine, versions and date."""
    import torch

    here = machine.current()
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    for tool in ("ptxas", "nvcc", "tileiras"):
        found = next(iter(machine.find_cuda_tools(tool)), None)
        versions[tool] = "" if found is None else found.version
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            "cpu": here.cpu.model,
            "cores": len(os.sched_getaffinity(0)),
        },
        "versions": versions,
    }


def load(what: str) -> Target:
    """The target of an example."""
    framework, _, kernel = what.partition(":")
    sys.path.insert(0, str(EXAMPLES))
    module = importlib.import_module(f"controls_{framework}")
    made: Target = module.make_target(kernel) if kernel else module.make_target()
    return made


def without_folders(text: str) -> str:
    """JSON whose values name files without the folders that they are in on this machine."""
    return re.sub(r'"(?:/[^/"\s]+)+/([^/"\s]+)"', r'"\1"', text)


class Kept:
    """What was found so far, in a file."""

    def __init__(self, path: Path, what: str) -> None:
        self.found: dict[str, Any] = {"what": what, "seconds": {}}
        self._path, self._began = path, time.monotonic()

    def add(self, step: str, said: str, **more: Any) -> None:
        """Keep the outcome of a step, and how long it took."""
        now = time.monotonic()
        self.found["seconds"][step] = round(now - self._began, 1)
        self._began = now
        before = self.found.get("said")
        self.found |= {**more, "said": f"{before}; {said}" if before else said}
        write_atomic(self._path, without_folders(json.dumps(self.found, indent=1)) + "\n")


def run_one(what: str, asked: argparse.Namespace) -> None:
    """Canary, search, confirmation, and the fewest options, of one target."""
    kept = Kept(asked.one, what)
    target = load(what)
    constraints = ["spills == 0"] if asked.constraint is None else [one for one in asked.constraint if one]
    kept.found |= {"target": target.describe(), "constraints": constraints}
    try:
        outcome = search_controls(
            target,
            constraints=constraints,
            search_config=SearchConfiguration(
                normalize=True,
                max_evaluations=asked.evaluations,
                max_time=asked.max_time,
                seed=asked.seed,
            ),
            num_workers=asked.workers,
            on_canary=lambda report: kept.add("canary", "canary passed", canary=report.to_json()),
            disable_progress_bar=True,
        )
    except CanaryError as error:
        kept.add("canary", str(error), canary=error.report.to_json())
        raise SystemExit(1) from error
    ranked = outcome.result.ranked
    best = ranked[0].normalised if ranked else None
    reasons: dict[str, str] = {}
    for one in outcome.result.evaluations:
        if one.failure is not None:
            reasons.setdefault(one.failure.kind, one.failure.reason[:300])
    kept.add(
        "search",
        str(outcome.counts) + ("" if best is None else f"; best in the search {best[0]:.3f} of its time"),
        counts=outcome.counts.to_json(),
        failures_for_instance=reasons,
        best_in_search=best[0] if best else None,
    )
    if not ranked:
        return
    judging = {"processes": asked.processes, "budget_s": 4.0}
    candidates = choose_finalists(outcome.result, top=asked.top)
    judged = validate_target(target, candidates, **judging)
    kept.add("validate", judged.sentence, validation=as_plain(judged))
    if judged.winner is None:
        return
    fewest = minimize_controls(target, judged.winner.config, max_evaluations=60, seed=asked.seed)
    settings = [
        name if name.startswith("-") or value is True else f"{name}={value}"
        for name, value in fewest.settings.items()
    ]
    kept.add("minimize", f"the win is kept by {', '.join(settings)}", minimal=as_plain(fewest))
    again = judged
    if fewest.dropped:
        again = validate_target(target, [Candidate("minimal", fewest.config)], **judging)
        kept.add("judge the minimal", again.sentence, minimal_validation=as_plain(again))
    config = fewest.config if again.winner is not None else judged.winner.config
    told = explain(target.build({}), target.build(config))
    kept.add("explain", "; ".join(told.lines()), explained=as_plain(told))


if __name__ == "__main__":
    main()
