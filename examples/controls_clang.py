"""Bring options to clang++ by its adapter: prove that they arrive, search them, see what changed."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from kernelwright.build import code_key
from kernelwright.controls import adapter
from kernelwright.controls import ClangSearchSpace
from kernelwright.controls import compiler_arguments
from kernelwright.controls import cpu_resources
from kernelwright.search import INVALID_SCORE
from kernelwright.search import IsoMultiProcessWorker
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration

SOURCE = """
#include <chrono>
#include <cstdio>
extern "C" void blend(float *out, const float *a, const float *b, long n) {
  for (long i = 0; i < n; i++) out[i] = a[i] * 0.25f + b[i] * 0.75f;
}
enum { N = 1 << 14 };
static float a[N], b[N], out[N];
int main() {
  for (int i = 0; i < N; i++) { a[i] = i % 7; b[i] = i % 5; }
  double best = 1e9;
  for (int round = 0; round < 30; round++) {
    auto begin = std::chrono::steady_clock::now();
    for (int call = 0; call < 20; call++) blend(out, a, b, N);
    std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    if (took.count() < best) best = took.count();
  }
  std::printf("%.6f %.6f", best / 20, double(out[12345]));
}
"""


def build(config: Any, folder: Path) -> Path:
    """The program, compiled with -O3 and these options behind it; with {}, the baseline."""
    (folder / "kernel.cpp").write_text(SOURCE)
    injection = adapter("clang").inject(config, folder)
    command = ["clang++", "-O3", "-fPIC", "-Wl,--build-id=none", "kernel.cpp", "-o", "kernel"]
    subprocess.run([*command, *injection.arguments], cwd=folder, check=True, capture_output=True, timeout=60)
    return folder / "kernel"


def objective(config: Any) -> float:
    """Microseconds of one call, compiled with these options."""
    folder = Path(tempfile.mkdtemp(prefix="controls_clang_"))
    try:
        run = subprocess.run([build(config, folder)], capture_output=True, text=True, check=True, timeout=10)
        took, value = map(float, run.stdout.split())
        return took if value == (12345 % 7) * 0.25 + (12345 % 5) * 0.75 else INVALID_SCORE
    except (subprocess.SubprocessError, OSError, ValueError):
        return INVALID_SCORE
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    provider = ClangSearchSpace(variant="memory_bound")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        keys = {name: code_key(build(provider.level(name), folder)) for name in ("baseline", "lowest")}
        if code_key(build({}, folder)) != keys["baseline"] or keys["lowest"] == keys["baseline"]:
            raise SystemExit("the options do not reach clang++")
        print(f"{provider.version}: the options arrive; {len(provider.space().parameters)} are searched")

        results = Search(
            objective_function=objective,
            search_space=provider,
            search_config=SearchConfiguration(generations=2, pool_size=6, problem_type="min", seed=0),
            worker_type=IsoMultiProcessWorker,
        ).start(num_workers=1, task_timeout=60)
        best = results.get_best_result()
        print(
            f"best: {best['score']:.3f} us with {' '.join(compiler_arguments(best['params'])) or 'no option'}"
        )
        for what, config in (("baseline", {}), ("best", best["params"])):
            known = cpu_resources(build(config, folder), mca=False)
            names = ("instructions", "loop_vector_bits", "loop_instructions", "spills")
            print(f"{what}: " + ", ".join(f"{name} {known[name]}" for name in names))
