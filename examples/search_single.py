"""Search a compiler's options: the objective gets a hex string, and {} for the compiler's own settings."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from kernelwright.controls import Controls
from kernelwright.controls import encode_controls
from kernelwright.controls import GccSearchSpace
from kernelwright.controls import save_compiler_config
from kernelwright.search import INVALID_SCORE
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration

SOURCE = """
#include <chrono>
#include <cstdio>
static float a[4096], b[4096];
int main() {
  for (int i = 0; i < 4096; i++) { a[i] = i % 7; b[i] = i % 5; }
  double best = 1e9, sum = 0;
  for (int round = 0; round < 30; round++) {
    auto begin = std::chrono::steady_clock::now();
    for (int again = 0; again < 20; again++)
      for (int i = 0; i < 4096; i++) b[i] = a[i] > 3 ? b[i] * 0.5f + a[i] : b[i] - 0.25f * a[i];
    std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    if (took.count() < best) best = took.count();
  }
  for (int i = 0; i < 4096; i++) sum += b[i];
  std::printf("%.6f %.4f", best, sum);
}
"""
EXPECTED = -504270.0


def objective(config) -> float:
    """Microseconds of the program compiled with these options; checked before its time counts."""
    folder = Path(tempfile.mkdtemp(prefix="search_single_"))
    try:
        (folder / "kernel.cpp").write_text(SOURCE)
        command = ["g++", "-O1", "kernel.cpp", "-o", "kernel"]
        if not (isinstance(config, dict) and not config):
            acf_path = folder / "candidate.acf"
            save_compiler_config(acf_path, config)
            command.insert(2, f"@{acf_path}")
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=20)
        run = subprocess.run([folder / "kernel"], capture_output=True, text=True, check=True, timeout=5)
        took, result = map(float, run.stdout.split())
        return took if abs(result - EXPECTED) < 1e-2 * abs(EXPECTED) else INVALID_SCORE
    except (subprocess.SubprocessError, OSError, ValueError):
        return INVALID_SCORE
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    tuner = Search(
        objective_function=objective,
        search_space=GccSearchSpace(params=False),
        search_config=SearchConfiguration(generations=2, pool_size=5, problem_type="min", normalize=True),
    )
    # The canary: before anything is searched, see that options arrive.
    baseline, slow = objective({}), objective(encode_controls(Controls("gcc", ("-O0",))))
    assert slow > 1.05 * baseline, f"-O0 does not reach the compiler: {slow} us against {baseline} us"
    print(
        f"canary: {baseline:.1f} us, with -O0 {slow:.1f} us; a sample: {objective(tuner.sample(1)[0]):.1f} us"
    )

    best = tuner.start(num_workers=1, task_timeout=30).get_best_result()
    print(f"best: {best['score']:.1f} us, {best['norm_score']:.2f} of the baseline's time, with")
    print(bytes.fromhex(best["params"]).decode())
