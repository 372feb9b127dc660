"""The suite that any optimiser can run: ours and the adapters keep it, and it finds what is broken."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import HealthCheck
from hypothesis import settings
from hypothesis import strategies as st

from kernelwright import space
from kernelwright.search import check_optimizer
from kernelwright.search import ConformanceError
from kernelwright.search import Optimizer
from kernelwright.search import OptunaSearch
from kernelwright.search import Proposal
from kernelwright.search import RandomSearch
from kernelwright.search._optimizers import make_optimizer
from kernelwright.space import Configuration
from kernelwright.space import Parameter
from kernelwright.space import Space

ONE = ["random", "annealing", "hill_climbing", "genetic", "nsga2"]
SEVERAL = ["random", "genetic", "nsga2"]
ADAPTERS = ["optuna", "pymoo"]


def named(name: str, **options: Any) -> Callable[..., Optimizer]:
    def make(space: Space, *, seed: int, objectives: int) -> Optimizer:
        return make_optimizer(name, space, seed=seed, objectives=objectives, **options)

    return make


@pytest.mark.parametrize("name", ONE)
def test_ours_keep_the_contract_in_its_stronger_form(name: str) -> None:
    check_optimizer(named(name), seeds=[3], restores=True)


@pytest.mark.parametrize("name", SEVERAL)
def test_ours_keep_it_with_several_objectives(name: str) -> None:
    check_optimizer(named(name), objectives=[2, 3], seeds=[4], evaluations=24, restores=True)


@pytest.mark.parametrize("name", ADAPTERS)
def test_the_adapters_keep_the_contract(name: str) -> None:
    check_optimizer(named(name), objectives=[1, 2], seeds=[5], evaluations=18)


def test_optunas_samplers_can_be_named_or_brought() -> None:
    from optuna.samplers import RandomSampler

    tested = [Space({"a": space.range(0, 5), "b": space.flag()}, ["not b or a < 3"])]
    check_optimizer(named("optuna", sampler="nsga2", population_size=4), spaces=tested, seeds=[0])
    check_optimizer(named("optuna", sampler=lambda seed: RandomSampler(seed=seed)), spaces=tested, seeds=[0])


def parameters() -> st.SearchStrategy[Parameter]:
    numbers = st.lists(st.integers(1, 64), min_size=1, max_size=5, unique=True)
    return st.one_of(
        numbers.map(lambda values: space.choice(sorted(values), log=True)),
        st.lists(st.sampled_from("uvwxyz"), min_size=1, max_size=4, unique=True).map(space.choice),
        st.integers(0, 9).map(lambda high: space.range(0, high)),
        st.just(space.flag()),
        st.just(space.range(0.5, 2.0)),
        st.just(space.literal("-O3", knockout_prob=0.4)),
        st.just(space.permutation(["i", "j", "k"])),
    )


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    made: dict[str, Parameter] = {"a": space.range(0, draw(st.integers(1, 6)))}
    made["b"] = space.choice([1, 2, 4, 8])
    for index in range(draw(st.integers(0, 3))):
        made[f"p{index}"] = draw(parameters())
    if draw(st.booleans()):
        made["child"] = space.when("b >= 4", draw(parameters()))
    rules = draw(st.sets(st.sampled_from(["a + b <= 6", "a != b", "b == 1 or a > 0"]), max_size=2))
    return Space(made, sorted(rules))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(spaces(), st.sampled_from(ONE), st.integers(0, 99))
def test_whatever_the_space(tested: Space, name: str, seed: int) -> None:
    check_optimizer(named(name), spaces=[tested], seeds=[seed], evaluations=16, restores=True)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(spaces(), st.sampled_from(ADAPTERS), st.integers(0, 99))
def test_whatever_the_space_for_adapters(tested: Space, name: str, seed: int) -> None:
    check_optimizer(named(name), spaces=[tested], seeds=[seed], evaluations=10)


class Repeats(RandomSearch):
    def ask(self, n: int = 1) -> list[Proposal]:
        return [Proposal(self.space.default, "default")] * n


class Stops(RandomSearch):
    def ask(self, n: int = 1) -> list[Proposal]:
        return super().ask(n) if len(self._seen) < 5 else []


class Invalid(RandomSearch):
    def _propose(self, rng: random.Random) -> Proposal | None:
        return Proposal({**self.space.sample(rng), "a": 99}, "random")


class Greedy(RandomSearch):
    def ask(self, n: int = 1) -> list[Proposal]:
        return super().ask(n + 1)


class Dice(RandomSearch):
    def _rng(self, attempt: int = 0) -> random.Random:
        return random.SystemRandom()


class Batched(RandomSearch):
    def ask(self, n: int = 1) -> list[Proposal]:
        return list(reversed(super().ask(n)))


class Forgetful(RandomSearch):
    def tell(self, configuration: Any, outcome: Any) -> None:
        self.scores.pop(space.key(configuration), None)
        self.vectors.pop(space.key(configuration), None)
        super().tell(configuration, outcome)


class Last(RandomSearch):
    @property
    def best(self) -> Configuration | None:
        return dict(self._seen[next(reversed(self.scores))])


class Counting(RandomSearch):
    asked = 0

    def _propose(self, rng: random.Random) -> Proposal | None:
        self.asked += 1
        return super()._propose(random.Random(self.asked))


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (Repeats, "nothing is asked that was seen"),
        (Stops, "the whole space is asked"),
        (Invalid, "proposals are valid"),
        (Greedy, r"ask\(n\) returns up to n"),
        (Dice, "the same calls give the same proposals"),
        (Batched, "asking for three is asking three times for one"),
        (Forgetful, "telling twice is refused"),
        (Last, "best is the lowest first score"),
        (Counting, "withholding what was asked does the same as asking it"),
    ],
)
def test_each_broken_rule_is_named(broken: type[Optimizer], rule: str) -> None:
    tested = Space({"a": space.range(0, 5), "b": space.range(0, 4)}, ["a + b < 9"])
    with pytest.raises(ConformanceError, match=rule) as caught:
        check_optimizer(broken, spaces=[tested], restores=True)
    assert isinstance(caught.value, AssertionError)
    assert "Space(" in str(caught.value)


def test_the_suite_passes_what_is_right_on_the_same_space() -> None:
    tested = Space({"a": space.range(0, 5), "b": space.range(0, 4)}, ["a + b < 9"])
    check_optimizer(RandomSearch, spaces=[tested], restores=True)


def test_a_constraint_unknown_to_optuna_is_kept_by_mending() -> None:
    tested = Space({name: space.range(0, 9) for name in "abcd"}, ["a + b + c + d == 9"])
    optimizer = OptunaSearch(tested, seed=0)
    origins = set()
    for _ in range(20):
        (proposal,) = optimizer.ask(1)
        origins.add(proposal.origin)
        assert sum(map(int, proposal.configuration.values())) == 9  # type: ignore[arg-type]
        optimizer.tell(proposal.configuration, 1.0)
    assert "mended" in origins
