"""Search for the front of two objectives: compress well, and compress fast."""

import time
import zlib

from kernelwright import space
from kernelwright.search import MultiProcessWorker
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration

TEXT = b"".join(b"%d bottles of beer on the wall, %x; " % (n, n * n * 7919) for n in range(6000))


def objective(config: dict) -> tuple[float, float]:
    """How many times smaller it gets, and milliseconds: the first is to be high, the second low."""
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        packer = zlib.compressobj(config["level"], zlib.DEFLATED, config["window"], config["memory"])
        packed = packer.compress(TEXT) + packer.flush()
        best = min(best, 1e3 * (time.perf_counter() - begin))
    assert zlib.decompress(packed, config["window"]) == TEXT
    return len(TEXT) / len(packed), best


if __name__ == "__main__":
    results = Search(
        objective,
        {"level": space.range(1, 9), "window": space.range(9, 15), "memory": space.range(1, 9)},
        SearchConfiguration(num_objectives=2, problem_type=["max", "min"], max_evaluations=60),
        MultiProcessWorker,
    ).start(num_workers=1)
    print(f"the front of {len(results.get_results())} configurations:")
    for one in results.pareto_front():
        ratio, took = one["score"]
        print(f"  {ratio:5.2f} times smaller in {took:5.2f} ms with {one['params']}")
