"""Search with every evaluation in MLflow, kept in a SQLite file. Needs kernelwright[mlflow]."""

from kernelwright import space
from kernelwright.search import MultiProcessWorker
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration


def objective(config: dict) -> float:
    """A valley with a bend."""
    return (1 - config["x"]) ** 2 + 100 * (config["y"] - config["x"] ** 2) ** 2


if __name__ == "__main__":
    results = Search(
        objective,
        {"x": space.range(-2.0, 2.0, 0.25), "y": space.range(-1.0, 3.0, 0.25)},
        SearchConfiguration(max_evaluations=20),
        MultiProcessWorker,
        tracker_config={"type": "mlflow", "tracking_uri": "sqlite:///mlflow.db", "experiment": "valley"},
    ).start()
    best = results.get_best_result()
    print(f"best: {best['score']:.3f} with {best['params']}; see it with")
    print("mlflow ui --backend-store-uri sqlite:///mlflow.db")
