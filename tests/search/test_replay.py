"""Recorded spaces as objectives, and the score of a search on one."""

from __future__ import annotations

import json
import math
import random
import runpy
from pathlib import Path

import numpy as np
import pytest

from kernelwright.errors import FileFormatError
from kernelwright.errors import SpaceError
from kernelwright.search import Failure
from kernelwright.search import load_recorded
from kernelwright.search import Recorded
from kernelwright.search import recorded_spaces
from kernelwright.search import ReplayObjective

_made = runpy.run_path(str(Path(__file__).with_name("data") / "make_recorded.py"))
synthetic, write = _made["synthetic"], _made["write"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return load_recorded(write(tmp_path_factory.mktemp("spaces") / "synthetic.json.gz"))


def test_the_space_is_what_was_recorded_and_nothing_else(recorded: Recorded) -> None:
    document = synthetic()
    assert recorded.name == "synthetic"
    assert recorded.space.count() == len(document["cache"]) == len(recorded.outcomes)
    assert list(recorded.space.parameters) == document["tune_params_keys"]
    for configuration in recorded.space.configurations():
        record = document["cache"][",".join(str(value) for value in configuration.values())]
        outcome = recorded.outcome(configuration)
        if isinstance(record["time"], str):
            kind = "build_failed" if record["time"] == "CompilationFailedConfig" else "crashed"
            assert outcome == Failure(kind, record["time"])
        else:
            assert outcome == record["time"]


def test_the_objective_gives_the_recorded_fields_and_invalid_scores(recorded: Recorded) -> None:
    both = ReplayObjective(recorded, ("time", "compile_time"))
    works = {"tile_x": 64, "tile_y": 4, "width": 2, "unroll": 1, "shared": 1, "layout": 0, "revision": 3}
    fails = {**works, "tile_x": 256, "tile_y": 8}
    time, compile_time = both(works)  # type: ignore[misc]
    assert ReplayObjective(recorded)(works) == time == recorded.outcome(works)
    assert compile_time > 100
    assert ReplayObjective(recorded)(fails) == math.inf
    assert both(fails) == (math.inf, math.inf)
    assert both.outcome(fails) == Failure("crashed", "RuntimeFailedConfig")
    with pytest.raises(SpaceError, match="not among what was recorded of synthetic"):
        recorded.outcome({**works, "tile_y": 32, "tile_x": 256})


def test_random_search_scores_zero_and_the_optimum_one(recorded: Recorded) -> None:
    outcomes = list(recorded.outcomes.values())
    rng = random.Random(0)
    scores = [recorded.score(rng.sample(outcomes, recorded.cutoff)) for _ in range(2000)]
    assert abs(np.mean(scores)) < 4 * np.std(scores) / math.sqrt(len(scores))
    assert recorded.score([recorded.optimum]) == pytest.approx(1)


def test_the_expectation_of_random_search_is_exact(recorded: Recorded) -> None:
    times = sorted(recorded.worst if isinstance(one, Failure) else one for one in recorded.outcomes.values())
    count = len(times)
    for drawn in (1, 2, 7, 100):
        chances = [
            math.comb(count - 1 - place, drawn - 1) / math.comb(count, drawn) for place in range(count)
        ]
        expected = sum(chance * time for chance, time in zip(chances, times, strict=True))
        assert recorded.random_best[drawn] == pytest.approx(expected)
    assert recorded.random_best[0] == recorded.worst


def test_failures_improve_nothing_and_a_stopped_run_keeps_its_best(recorded: Recorded) -> None:
    fails = Failure("crashed")
    assert recorded.best_so_far([fails, 3.0, fails, 2.0]).tolist() == [recorded.worst, 3.0, 3.0, 2.0]
    assert recorded.score([2.0]) == recorded.score([2.0, fails, 5.0])
    assert recorded.score([fails] * 300) < recorded.score([]) + 1e-12 < 0


def test_the_cutoff_is_where_random_search_is_95_percent_of_the_way(recorded: Recorded) -> None:
    goal = np.median(recorded.times) - 0.95 * (np.median(recorded.times) - recorded.optimum)
    cutoff = recorded.cutoff
    assert cutoff == 220 or recorded.random_best[cutoff] <= goal < recorded.random_best[cutoff - 1]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"tune_params_keys": ["a"], "tune_params": {}}'])
def test_what_is_no_recorded_space_is_said(tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(content)
    with pytest.raises(FileFormatError, match="not a recorded tuning space"):
        load_recorded(path)


def test_a_space_where_all_failed_is_said(tmp_path: Path) -> None:
    record = {"a": 1, "time": "RuntimeFailedConfig"}
    document = {"tune_params_keys": ["a"], "tune_params": {"a": [1]}, "cache": {"1": record}}
    path = tmp_path / "failed.json"
    path.write_text(json.dumps(document))
    with pytest.raises(FileFormatError, match="no configuration"):
        load_recorded(path)


def test_spaces_are_found_through_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "b.json")
    write(tmp_path / "a.json.gz")
    (tmp_path / "a.T1.json").write_text("{}")
    monkeypatch.setenv("KERNELWRIGHT_SPACES", str(tmp_path))
    assert [path.name for path in recorded_spaces()] == ["a.json.gz", "b.json"]
    monkeypatch.delenv("KERNELWRIGHT_SPACES")
    beside = Path(__file__).resolve().parents[3] / "shared" / "data" / "tuning_spaces"
    assert recorded_spaces() == sorted(
        path for path in beside.glob("*.json.gz") if not path.name.endswith(".T1.json")
    )
