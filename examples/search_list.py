"""Search a kernel's parameters and the compiler's options together: the objective gets a list of the two."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from kernelwright import space
from kernelwright.controls import GccSearchSpace
from kernelwright.controls import save_compiler_config
from kernelwright.search import INVALID_SCORE
from kernelwright.search import IsoMultiProcessWorker
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration

SOURCE = """
#include <chrono>
#include <cstdio>
enum { N = 192 };
static float a[N][N], b[N][N], c[N][N];
int main() {
  for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) { a[i][j] = (i + j) % 3; b[i][j] = (i * j) % 5; }
  double best = 1e9;
  for (int round = 0; round < 5; round++) {
    for (auto &row : c) for (auto &value : row) value = 0;
    auto begin = std::chrono::steady_clock::now();
    for (int kk = 0; kk < N; kk += TILE)
      for (int i = 0; i < N; i++)
        for (int k = kk; k < kk + TILE; k++)
          for (int j = 0; j < N; j++) c[i][j] += a[i][k] * b[k][j];
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    if (took.count() < best) best = took.count();
  }
  std::printf("%.6f %.1f", best, c[17][23]);
}
"""


def objective(mixed: list) -> float:
    """Milliseconds of a matrix product with this tile, compiled with these options."""
    tile, gcc_config = 64, None
    if mixed != {}:
        user_space, gcc_config = mixed
        tile = user_space["tile"]
    folder = Path(tempfile.mkdtemp(prefix="search_list_"))
    try:
        (folder / "kernel.cpp").write_text(SOURCE)
        command = ["g++", "-O2", f"-DTILE={tile}", "kernel.cpp", "-o", "kernel"]
        if gcc_config:
            save_compiler_config(folder / "candidate.acf", gcc_config)
            command.insert(2, "@candidate.acf")
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=20)
        run = subprocess.run([folder / "kernel"], capture_output=True, text=True, check=True, timeout=5)
        took, value = map(float, run.stdout.split())
        expected = sum((17 + k) % 3 * ((k * 23) % 5) for k in range(192))
        return took if value == expected else INVALID_SCORE
    except (subprocess.SubprocessError, OSError, ValueError):
        return INVALID_SCORE
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    results = Search(
        objective_function=objective,
        search_space=[
            {"tile": space.choice([8, 16, 32, 64, 96, 192])},
            GccSearchSpace(options=["-ftree-vectorize", "-funroll-loops", "-ftree-pre"], params=False),
        ],
        search_config=SearchConfiguration(generations=2, pool_size=6, problem_type="min", seed=0),
        worker_type=IsoMultiProcessWorker,
        dump_results="results.csv",
    ).start(num_workers=2, task_timeout=30)
    best = results.get_best_result()
    user_space, gcc_config = best["params"]
    save_compiler_config("best.acf", gcc_config)
    print(f"best: {best['score']:.2f} ms with {user_space} and g++ @best.acf:")
    print(Path("best.acf").read_text())
