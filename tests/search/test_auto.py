"""The default optimiser, and the model-based one that it stands on."""

from __future__ import annotations

import math
import random
import runpy
from pathlib import Path

import numpy as np
import pytest

from kernelwright import space
from kernelwright.search import Failure
from kernelwright.search import load_recorded
from kernelwright.search import make_optimizer
from kernelwright.search import Optimizer
from kernelwright.search import Recorded
from kernelwright.search._auto import ASK_SECONDS
from kernelwright.search._auto import AutoSearch
from kernelwright.search._pairwise import PairwiseGP
from kernelwright.space import Configuration
from kernelwright.space import key
from kernelwright.space import Space

_made = runpy.run_path(str(Path(__file__).with_name("data") / "make_recorded.py"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return load_recorded(_made["write"](tmp_path_factory.mktemp("spaces") / "synthetic.json.gz"))


def evaluate(optimizer: Optimizer, recorded: Recorded, evaluations: int) -> list[float | Failure]:
    outcomes = []
    for _ in range(evaluations):
        (proposal,) = optimizer.ask()
        outcomes.append(recorded.outcome(proposal.configuration))
        optimizer.tell(proposal.configuration, outcomes[-1])
    return outcomes


def huge() -> Space:
    """20 parameters, 10^12 points, and constraints."""
    parameters = {f"p{place}": space.choice([1, 2, 4, 8]) for place in range(20)}
    return Space(parameters, [f"p{place} * p{place + 1} <= 16" for place in range(0, 20, 2)])


def bowl(configuration: Configuration) -> float:
    return sum((math.log2(float(value)) - 1) ** 2 for value in configuration.values())  # type: ignore[arg-type]


def test_auto_is_the_default_and_far_ahead_of_random_search(recorded: Recorded) -> None:
    scores = [
        recorded.score(evaluate(make_optimizer("auto", recorded.space, seed=seed), recorded, recorded.cutoff))
        for seed in range(2)
    ]
    assert np.mean(scores) > 0.6
    assert min(scores) > 0.2


def test_failures_of_half_of_the_space_at_random_do_not_lead_astray(recorded: Recorded) -> None:
    scores = []
    for seed in range(2):
        rng = random.Random(seed)
        fails = Failure("crashed", "turned into a failure")
        outcomes = {
            values: fails if rng.random() < 0.5 else outcome for values, outcome in recorded.outcomes.items()
        }
        half = Recorded("half", recorded.space, outcomes, recorded.fields)
        scores.append(half.score(evaluate(make_optimizer("auto", half.space, seed=seed), half, half.cutoff)))
    assert np.mean(scores) > 0.4


def test_it_begins_with_the_designed_batch_and_spends_the_whole_space() -> None:
    small = Space({"a": space.choice([1, 2, 4, 8]), "b": space.range(0, 6)}, ["a * b <= 24"])
    optimizer = AutoSearch(small, seed=3)
    origins, asked = [], set()
    while proposals := optimizer.ask():
        origins.append(proposals[0].origin)
        asked.add(key(proposals[0].configuration))
        optimizer.tell(proposals[0].configuration, float(len(asked) % 7))
    assert origins[:2] == ["designed"] * 2
    assert set(origins[2:]) == {"model"}
    assert len(asked) == len(origins) == small.count()


def test_a_stated_default_comes_first() -> None:
    stated = Space({"a": space.choice([1, 2, 4], default=4), "b": space.range(0, 9)})
    assert AutoSearch(stated).ask()[0].configuration == {"a": 4, "b": 0}


def test_failures_with_a_cause_are_avoided_and_those_without_blame_are_not() -> None:
    line = Space({"tile": space.range(0, 40), "other": space.range(0, 40)})

    def told(kind: str) -> float:
        optimizer = PairwiseGP(line, seed=0, start=1)
        for tile in range(0, 40, 4):
            for other in (5, 35):
                good = tile < 20
                outcome = 1.0 + abs(tile - 10) / 10 if good else Failure(kind)
                optimizer.tell({"tile": tile, "other": other}, outcome)
        asked = optimizer.ask(12)
        return float(np.mean([int(one.configuration["tile"]) > 20 for one in asked]))  # type: ignore[call-overload]

    assert told("worker_lost") > told("build_failed")


def test_open_proposals_are_spread_out(recorded: Recorded) -> None:
    optimizer = AutoSearch(recorded.space, seed=0)
    evaluate(optimizer, recorded, 20)
    batch = [one.configuration for one in optimizer.ask(8)]
    assert len({key(one) for one in batch}) == 8
    for configuration in batch[::-1]:
        optimizer.tell(configuration, recorded.outcome(configuration))
    assert len(optimizer.ask(2)) == 2


def test_cheap_evaluations_are_not_modelled(recorded: Recorded) -> None:
    told, measured = AutoSearch(recorded.space, seconds=ASK_SECONDS / 10), AutoSearch(recorded.space)
    evaluate(told, recorded, 10)
    evaluate(measured, recorded, 10)
    assert not told.modelled
    assert told.ask()[0].origin == "local"
    assert measured.ask()[0].origin == "model"
    measured.expect(ASK_SECONDS / 10)
    assert measured.ask()[0].origin == "local"


def test_with_very_many_results_it_goes_on_without_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.search._auto.MOST_RESULTS", 12)
    optimizer = AutoSearch(huge(), seed=1)
    origins = []
    for _ in range(20):
        (proposal,) = optimizer.ask()
        origins.append(proposal.origin)
        optimizer.tell(proposal.configuration, bowl(proposal.configuration))
    assert origins[:2] == ["designed"] * 2
    assert set(origins[2:12]) == {"model"}
    assert "model" not in origins[13:]


def test_in_huge_spaces_it_climbs_to_the_optimum() -> None:
    optimizer = AutoSearch(huge(), seed=1)
    best = math.inf
    for _ in range(60):
        (proposal,) = optimizer.ask()
        assert not huge_violated(proposal.configuration)
        optimizer.tell(proposal.configuration, bowl(proposal.configuration))
        best = min(best, bowl(proposal.configuration))
    # The best of 60 at random is about 12 on average.
    assert best <= 8


def huge_violated(configuration: Configuration) -> bool:
    return any(
        int(configuration[f"p{place}"]) * int(configuration[f"p{place + 1}"]) > 16  # type: ignore[call-overload]
        for place in range(0, 20, 2)
    )


def test_two_objectives_spread_over_the_front() -> None:
    line = Space({"a": space.range(0, 30), "b": space.range(0, 30)})
    optimizer = AutoSearch(line, seed=0, objectives=2)
    for _ in range(60):
        (proposal,) = optimizer.ask()
        a, b = float(proposal.configuration["a"]), float(proposal.configuration["b"])  # type: ignore[arg-type]
        optimizer.tell(proposal.configuration, (a + b, 30 - a + b))
    assert sum(one["b"] == 0 for one in optimizer.front) >= 10
