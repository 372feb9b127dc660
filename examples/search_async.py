"""Search with an objective that waits rather than computes: many evaluations at a time in one process."""

import asyncio
import time

from kernelwright import space
from kernelwright.search import AsyncWorker
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration


async def objective(config: dict) -> float:
    """Ask a service, which takes a while, how good these settings are."""
    await asyncio.sleep(0.1)
    return (config["temperature"] - 0.7) ** 2 + abs(config["top_k"] - 40) / 100


if __name__ == "__main__":
    begin = time.perf_counter()
    results = Search(
        objective,
        {"temperature": space.range(0.0, 2.0, 0.1), "top_k": space.log_sampling(1, 200)},
        SearchConfiguration(max_evaluations=60),
        AsyncWorker,
    ).start(num_workers=10, task_timeout=5)
    best = results.get_best_result()
    print(f"best: {best['score']:.3f} with {best['params']}")
    print(f"{len(results.evaluations)} evaluations of 0.1 s in {time.perf_counter() - begin:.1f} s")
