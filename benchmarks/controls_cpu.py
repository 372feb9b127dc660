"""Search compiler controls and kernel parameters of native CPU kernels, canary first; the outcome as JSON.

For each operator and compiler: the canary, the search, how many configurations gave how many binaries,
failures by kind, and what a validation in fresh processes says of the best, where `--validate` asks for it.
Run it alone on the machine: `python benchmarks/controls_cpu.py --evaluations 200 --out results.json`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kernelwright import machine
from kernelwright.controls import CanaryError
from kernelwright.controls import NativeTarget
from kernelwright.controls import provider_from
from kernelwright.controls import search_controls
from kernelwright.files import write_atomic
from kernelwright.search import SearchConfiguration

OPERATORS = ("silu_and_mul", "softmax")
COMPILERS = ("gcc", "clang")


def main() -> None:
    """Read the command line, run every pair, and write what was found after each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--operators", nargs="+", default=OPERATORS, metavar="OPERATOR")
    parser.add_argument("--compilers", nargs="+", default=COMPILERS, choices=COMPILERS)
    parser.add_argument("--workload", help="sizes, such as 512x11008; each operator's own when left out")
    parser.add_argument("--evaluations", type=int, default=200)
    parser.add_argument("--variant", default="default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--validate", action="store_true", help="judge the best again in fresh processes")
    parser.add_argument("--out", type=Path, default=Path("controls_cpu.json"))
    asked = parser.parse_args()

    here = machine.current()
    document: dict[str, Any] = {
        "machine": {"cpu": here.cpu.model, "cores": here.cores, "threads": here.threads},
        "evaluations": asked.evaluations,
        "seed": asked.seed,
        "variant": asked.variant,
        "runs": [],
    }
    for operator in asked.operators:
        for compiler in asked.compilers:
            found = run_one(operator, compiler, asked)
            document["runs"].append(found)
            write_atomic(asked.out, json.dumps(document, indent=1) + "\n")
            print(f"{operator} {compiler}: {found['said']}", flush=True)
    print(f"written to {asked.out}")


def run_one(operator: str, compiler: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Canary, search and counts of one operator's kernel under one compiler."""
    provider = provider_from({"tool": compiler, "variant": asked.variant})
    target = NativeTarget(operator, asked.workload, provider)
    found: dict[str, Any] = {"operator": operator, "compiler": provider.version, "target": target.describe()}
    began = time.monotonic()
    try:
        outcome = search_controls(
            target,
            search_config=SearchConfiguration(
                normalize=True, max_evaluations=asked.evaluations, seed=asked.seed
            ),
            disable_progress_bar=True,
        )
    except CanaryError as error:
        return {**found, "canary": error.report.to_json(), "said": str(error)}
    result = outcome.result
    best = result.ranked[0] if result.ranked else None
    found |= {
        "canary": outcome.canary.to_json() if outcome.canary is not None else None,
        "run": outcome.search.run,
        "store": str(outcome.search.store),
        "seconds": round(time.monotonic() - began, 1),
        "counts": outcome.counts.to_json(),
        "best_in_search": None if best is None else {"norm": best.normalised, "params": best.params},
    }
    said = str(outcome.counts)
    if best is not None and best.normalised is not None:
        said += f"; best in the search {best.normalised[0]:.3f} of the baseline's time, not yet validated"
    if asked.validate:
        found["validation"] = validation(str(outcome.search.run))
    return {**found, "said": said}


def validation(run: str) -> Any:
    """What `kernelwright search validate` says, as JSON, or its error."""
    command = [sys.executable, "-m", "kernelwright", "search", "validate", run, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"exit_code": done.returncode, "error": (done.stderr or done.stdout)[-2000:]}


if __name__ == "__main__":
    main()
