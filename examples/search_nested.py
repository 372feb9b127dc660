"""Search a nested space, with parts that are there only where they mean something, and constraints."""

from kernelwright import space
from kernelwright.search import MultiProcessWorker
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration


def objective(config: dict) -> float:
    """A made-up cost of a loop nest."""
    tile, schedule = config["tile"], config["schedule"]
    cost = abs(tile["m"] * tile["n"] - 4096) / 512 + abs(tile["m"] - tile["n"]) / 64
    if schedule["kind"] == "dynamic":
        cost += abs(schedule["chunk"] - 12) / 4
    else:
        cost += 3.0
    return cost + (0.0 if config["order"][0] == "k" else 1.0)


if __name__ == "__main__":
    template = space.SearchSpace(
        {
            "tile": {"m": space.choice([16, 32, 64, 128]), "n": space.choice([16, 32, 64, 128])},
            "schedule": {
                "kind": space.choice(["static", "dynamic"]),
                "chunk": space.when("kind == 'dynamic'", space.range(1, 64)),
            },
            "order": space.permutation(["m", "n", "k"]),
            "version": 3,
        },
        constraints=["tile.m * tile.n <= 8192"],
    )
    print(f"{template.space.count()} configurations")
    results = Search(
        objective, template, SearchConfiguration(max_evaluations=80, seed=1), MultiProcessWorker
    ).start(num_workers=2)
    best = results.get_best_result()
    print(f"best: {best['score']:.2f} with {best['params']}")
