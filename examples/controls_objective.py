"""Your own objective over compiler options: hex string in, seconds out, and the canary before the search.

Whatever compiles and runs your kernel can be such an objective. What it needs: a fresh path for each
configuration, a branch for the baseline, a check before the time counts, INVALID_SCORE for what fails.
"""

import subprocess
import tempfile
from pathlib import Path

from kernelwright.controls import canary_of_objective
from kernelwright.controls import GccSearchSpace
from kernelwright.controls import save_compiler_config
from kernelwright.search import INVALID_SCORE
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration

SOURCE = """
#include <chrono>
#include <cstdio>
static float x[8192], y[8192];
int main() {
  double best = 1e9, sum = 0;
  for (int round = 0; round < 40; round++) {
    for (int i = 0; i < 8192; i++) { x[i] = i % 13 - 6; y[i] = 0; }
    auto begin = std::chrono::steady_clock::now();
    for (int k = 1; k < 16; k++)
      for (int i = 1; i < 8192; i++) y[i] += x[i] > 0 ? x[i] * k : x[i - 1];
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (took.count() < best) best = took.count();
  }
  for (float value : y) sum += value;
  std::printf("%.9f %.1f", best, sum);
}
"""
EXPECTED = 1445760.0


def objective(config) -> float:
    """Seconds of the program compiled with these options: those of -O2 alone where `config` is {}."""
    with tempfile.TemporaryDirectory(prefix="controls_objective_") as name:
        folder = Path(name)
        (folder / "kernel.cpp").write_text(SOURCE)
        options = ["-O2"]
        if not (isinstance(config, dict) and not config):  # {} is BASELINE_CONFIG: no options
            save_compiler_config(folder / "candidate.acf", config)
            options.append("@candidate.acf")
        try:
            subprocess.run(
                ["g++", *options, "kernel.cpp", "-o", "kernel"],
                cwd=folder,
                check=True,
                capture_output=True,
                timeout=20,
            )
            run = subprocess.run([folder / "kernel"], capture_output=True, text=True, check=True, timeout=5)
        except (subprocess.SubprocessError, OSError):
            return INVALID_SCORE
        seconds, result = map(float, run.stdout.split())
        return seconds if abs(result - EXPECTED) <= 1e-3 * abs(EXPECTED) else INVALID_SCORE


def forgetful(config) -> float:
    """The commonest mistake: the options are written to a file that no compiler is given."""
    return objective({})


if __name__ == "__main__":
    space = GccSearchSpace(params=False, baseline="-O2")
    refused = canary_of_objective(forgetful, space, space)
    print(f"forgetful is caught at the stage {refused.failed.name}: {refused.failed.said}")

    report = canary_of_objective(objective, space, space).check()  # raises CanaryError where it fails
    for stage in report.stages:
        print(f"canary, {stage.name}: {stage.said}")

    result = Search(
        objective,
        space,
        SearchConfiguration(normalize=True, max_evaluations=8),
    ).start(num_workers=1, task_timeout=60)
    best = result.get_best_result()
    print(f"best of {len(result.candidates)}: {best['norm_score']:.2f} of the baseline's time, with")
    print(bytes.fromhex(best["params"]).decode())
