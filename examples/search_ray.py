"""Search on a Ray cluster: this machine's, unless an address says which. Needs kernelwright[ray]."""

import argparse
import functools

from kernelwright import space
from kernelwright.search import RayWorker
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration


def objective(config: dict) -> float:
    """What is heavy is imported inside, where the evaluation runs."""
    import math

    return math.hypot(config["x"] - 3, config["y"] + 5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", help="of a cluster, as ray.init takes it")
    parser.add_argument("--gpus", type=float, default=0.0, help="for each evaluation")
    options = parser.parse_args()
    results = Search(
        objective,
        {"x": space.range(-10, 10), "y": space.range(-10, 10)},
        SearchConfiguration(max_evaluations=30),
        functools.partial(RayWorker, address=options.address, num_gpus=options.gpus),
    ).start(num_workers=2, task_timeout=30)
    best = results.get_best_result()
    print(f"best: {best['score']:.2f} with {best['params']}")
    print(f"places: {sorted({one.metadata['node'] for one in results.evaluations})}")
