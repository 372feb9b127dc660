"""The contract of ask and tell, which every optimiser keeps."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from kernelwright import space
from kernelwright.errors import SpaceError
from kernelwright.search import Annealing
from kernelwright.search import Failure
from kernelwright.search import GeneticSearch
from kernelwright.search import HillClimbing
from kernelwright.search import LocalSearch
from kernelwright.search import Optimizer
from kernelwright.search import RandomSearch
from kernelwright.space import Configuration
from kernelwright.space import key
from kernelwright.space import Space

OPTIMIZERS = [RandomSearch, LocalSearch, Annealing, HillClimbing, GeneticSearch]
every = pytest.mark.parametrize("make", OPTIMIZERS)


def small() -> Space:
    return Space(
        {"a": space.range(0, 5), "b": space.choice([1, 2, 4, 8], log=True), "kind": space.choice(["x", "y"])},
        ["a * b <= 16", "kind == 'x' or a > 1"],
    )


def loss(configuration: Configuration) -> float:
    a, b = int(configuration["a"]), int(configuration["b"])
    return (a - 2) ** 2 + abs(math.log2(b) - 2) + (configuration["kind"] == "x")


@every
def test_the_whole_space_is_asked_once_and_then_nothing(make: Callable[..., Optimizer]) -> None:
    optimizer = make(small(), seed=1)
    asked = []
    while batch := optimizer.ask(3):
        for proposal in batch:
            asked.append(key(proposal.configuration))
            optimizer.tell(proposal.configuration, loss(proposal.configuration))
    assert len(asked) == len(set(asked)) == small().count()
    assert optimizer.ask(1) == []
    assert loss(optimizer.best or {}) == min(map(loss, small().configurations()))


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(OPTIMIZERS), st.integers(0, 999), st.lists(st.integers(0, 3), max_size=12))
def test_never_the_same_twice_whatever_the_order_of_tells(
    make: Callable[..., Optimizer], seed: int, steps: list[int]
) -> None:
    rng = random.Random(seed)
    optimizer = make(small(), seed=seed)
    open_: list[Configuration] = []
    seen: set[str] = set()
    for step in steps:
        for proposal in optimizer.ask(step):
            assert small().contains(proposal.configuration)
            assert key(proposal.configuration) not in seen
            seen.add(key(proposal.configuration))
            open_.append(proposal.configuration)
        rng.shuffle(open_)
        if open_:
            told = open_.pop()
            optimizer.tell(told, Failure("crashed") if rng.random() < 0.3 else loss(told))


@every
def test_the_same_seed_asks_the_same_and_a_replay_goes_on_the_same(make: Callable[..., Optimizer]) -> None:
    def drive(optimizer: Optimizer, rounds: int) -> list[str]:
        names = []
        for _ in range(rounds):
            for proposal in optimizer.ask(2):
                names.append(key(proposal.configuration))
                optimizer.tell(proposal.configuration, loss(proposal.configuration))
        return names

    whole = drive(make(small(), seed=5), 8)
    assert whole == drive(make(small(), seed=5), 8)
    assert whole != drive(make(small(), seed=6), 8)

    first = make(small(), seed=5)
    drive(first, 4)
    second = make(small(), seed=5)
    for name, score in first.scores.items():
        configuration = next(one for one in small().configurations() if key(one) == name)
        second.withhold(configuration)
        second.tell(configuration, score)
    assert drive(second, 4) == whole[8:]


@every
def test_what_is_told_without_being_asked_is_not_asked(make: Callable[..., Optimizer]) -> None:
    optimizer = make(small(), seed=0)
    known = {"a": 2, "b": 4, "kind": "y"}
    optimizer.tell(known, 0.0)
    optimizer.withhold({"a": 3, "b": 4, "kind": "y"})
    asked = [proposal.configuration for proposal in optimizer.ask(100)]
    assert len(asked) == (small().count() or 0) - 2
    assert known not in asked
    assert optimizer.best == known


@every
def test_failures_and_scores_without_a_number_never_become_the_best(make: Callable[..., Optimizer]) -> None:
    optimizer = make(small(), seed=0)
    proposals = [proposal.configuration for proposal in optimizer.ask(4)]
    optimizer.tell(proposals[0], Failure("crashed", "signal 11"))
    optimizer.tell(proposals[1], math.nan)
    optimizer.tell(proposals[2], -math.inf)
    assert optimizer.best is None
    assert sorted(one.kind for one in optimizer.failures.values()) == [
        "crashed",
        "invalid_score",
        "invalid_score",
    ]
    optimizer.tell(proposals[3], 7.0)
    assert optimizer.best == proposals[3]
    with pytest.raises(SpaceError, match="told before"):
        optimizer.tell(proposals[3], 7.0)


@every
def test_a_space_where_all_fails_is_searched_to_its_end(make: Callable[..., Optimizer]) -> None:
    optimizer = make(small(), seed=0)
    count = 0
    for proposal in optimizer.ask(5) + optimizer.ask(100):
        count += 1
        optimizer.tell(proposal.configuration, Failure("wrong"))
    assert count == small().count()


def test_the_first_batch_is_the_default_and_then_spread_out() -> None:
    tested = Space({name: space.range(0, 9) for name in "abcd"})
    batch = LocalSearch(tested, seed=0).ask(8)
    assert batch[0].configuration == tested.default
    assert [proposal.origin for proposal in batch] == ["default", *["designed"] * 7]
    points = [proposal.configuration for proposal in batch]
    gap = min(tested.distance(a, b) for i, a in enumerate(points) for b in points[:i])
    rng = random.Random(0)
    loose = []
    for _ in range(50):
        drawn = [tested.sample(rng) for _ in range(8)]
        loose.append(min(tested.distance(a, b) for i, a in enumerate(drawn) for b in drawn[:i]))
    assert gap > max(loose)


def test_after_the_start_single_parameters_are_changed() -> None:
    tested = Space({name: space.range(0, 9) for name in "abcd"})
    optimizer = LocalSearch(tested, seed=0)
    for proposal in optimizer.ask(8):
        optimizer.tell(proposal.configuration, float(sum(map(int, proposal.configuration.values()))))
    best = optimizer.best or {}
    (proposal,) = optimizer.ask(1)
    assert proposal.origin == "local"
    assert sum(proposal.configuration[name] != best[name] for name in best) == 1


def test_local_search_beats_random_search_on_a_rugged_bowl() -> None:
    tested = Space({name: space.range(0, 7) for name in "abcdef"}, ["a + b <= 10"])

    def rugged(configuration: Configuration) -> float:
        values = [int(value) for value in configuration.values()]
        noise = random.Random(str(values)).random()
        return sum((value - 4) ** 2 for value in values) + 3 * noise

    def reach(optimizer: Optimizer) -> float:
        for _ in range(80):
            for proposal in optimizer.ask(1):
                optimizer.tell(proposal.configuration, rugged(proposal.configuration))
        return min(optimizer.scores.values())

    seeds = range(8)
    local = sum(reach(LocalSearch(tested, seed=seed)) for seed in seeds)
    chance = sum(reach(RandomSearch(tested, seed=seed)) for seed in seeds)
    assert local < 0.5 * chance
