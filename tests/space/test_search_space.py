"""Templates: what the objective gets, and the way back."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from kernelwright import space
from kernelwright.errors import FileFormatError
from kernelwright.errors import NotRepresentableError
from kernelwright.errors import SpaceError
from kernelwright.errors import UnknownNameError
from kernelwright.space import Configuration
from kernelwright.space import key
from kernelwright.space import Provider
from kernelwright.space import SearchSpace
from kernelwright.space import Space
from kernelwright.space import when


class Flags:
    """A compiler's search space, in small."""

    def __init__(self, knockout_prob: float = 0.5) -> None:
        self._space = Space(
            {
                "-O": space.choice(["1", "2", "3"], knockout_prob=knockout_prob),
                "-funroll": space.literal("all", knockout_prob=0.5),
                "align": space.choice([0, 16, 64], knockout_prob=knockout_prob),
            },
            [space.Constraint(lambda align: align < 64, name="a small alignment")],
        )

    def space(self) -> Space:
        return self._space

    def render(self, configuration: Configuration) -> str:
        return json.dumps(configuration).encode().hex()

    def parse(self, text: str) -> Configuration:
        return dict(json.loads(bytes.fromhex(text)))


def mixed() -> SearchSpace:
    return SearchSpace(
        [
            {
                "tile": {"m": space.choice([64, 128]), "n": space.choice([64, 128, 256])},
                "dtype": "fp16",
                "split": space.flag(),
                "splits": when("split", {"k": space.range(2, 8), "passes": space.subset(["a", "b"])}),
                "order": space.permutation(["m", "n", "k"], knockout_prob=0.3),
            },
            Flags(),
            space.choice([1, 2], knockout_prob=0.3),
        ],
        ["m * n <= 128 * 128"],
    )


@st.composite
def templates(draw: st.DrawFn, depth: int = 0) -> Any:
    """Anything that may stand in a template: nested, mixed, knocked out, under a condition."""
    prob = draw(st.sampled_from([0.0, 0.5]))
    leaves: list[Any] = [
        space.choice([1, 2, 4], knockout_prob=prob),
        space.range(0, 3, knockout_prob=prob),
        space.flag(knockout_prob=prob),
        space.literal("-O3", knockout_prob=prob),
        space.log_sampling(1.0, 8.0, knockout_prob=prob),
        space.permutation(["x", "y"], knockout_prob=prob),
        space.subset([1, 2], knockout_prob=prob),
        "a constant",
        7,
        None,
    ]
    kinds = ["leaf"] if depth > 2 else ["leaf", "leaf", "dict", "list", "provider", "space", "when"]
    kind = "dict" if depth == 0 else draw(st.sampled_from(kinds))
    if kind == "leaf":
        return draw(st.sampled_from(leaves))
    if kind == "provider":
        return Flags()
    if kind == "space":
        return Space({"u": space.range(0, 2), "v": when("u > 0", space.flag())}, ["u < 2 or v"])
    if kind == "when":
        return when("mode", draw(templates(depth=depth + 1)))
    if kind == "list":
        return [space.flag(), *draw(st.lists(templates(depth=depth + 1), max_size=2))]
    names = draw(st.lists(st.sampled_from(["a", "b", "c d", "-O"]), max_size=3, unique=True))
    # The condition of `when` looks for the nearest `mode`.
    first = {"mode": space.flag()} if depth == 0 else {}
    return {**first, **{name: draw(templates(depth=depth + 1)) for name in names}}


@settings(max_examples=60, deadline=None)
@given(templates(), st.integers(0, 2**32))
def test_config_and_flat_are_inverses_through_json(template: Any, seed: int) -> None:
    tested = SearchSpace(template)
    rng = random.Random(seed)
    for drawn in (tested.space.default, tested.space.sample(rng), tested.space.sample(rng)):
        config = tested.config(drawn)
        assert tested.flat(config) == drawn
        assert tested.config(tested.flat(config)) == config
        assert tested.flat(json.loads(json.dumps(config))) == drawn
        assert json.loads(json.dumps(config)) == config


@settings(max_examples=40, deadline=None)
@given(templates(), st.integers(0, 2**32))
def test_in_a_list_everything_is_as_alone(template: Any, seed: int) -> None:
    alone = SearchSpace(template)
    listed = SearchSpace([alone, space.flag()])
    drawn = listed.space.sample(random.Random(seed))
    config = listed.config(drawn)
    assert len(config) == 2
    inner = {name: drawn[f"0.{name}"] for name in alone.space.parameters}
    assert alone.space.contains(inner)
    if any(value is not None for value in inner.values()):
        assert config[0] == alone.config(inner)
    assert listed.flat(config) == drawn


def test_a_plain_dict_keeps_its_names() -> None:
    tested = SearchSpace({"tile": space.choice([64, 128]), "n": 4096, "deep": {"er": {"k": space.flag()}}})
    assert list(tested.space.parameters) == ["tile", "deep.er.k"]
    assert tested.config({"tile": 64, "deep.er.k": True}) == {
        "tile": 64,
        "n": 4096,
        "deep": {"er": {"k": True}},
    }


def test_a_provider_alone_gives_text_and_in_a_list_its_place() -> None:
    flags = Flags()
    assert isinstance(flags, Provider)
    alone = SearchSpace(flags)
    text = alone.config(alone.space.default)
    assert isinstance(text, str)
    assert bytes.fromhex(text)
    assert alone.flat(text) == alone.space.default
    assert list(alone.space.parameters) == ["-O", "-funroll", "align"]
    both = SearchSpace([{"tile": space.choice([64, 128])}, flags])
    assert list(both.space.parameters) == ["0.tile", "1.-O", "1.-funroll", "1.align"]
    config = both.config(both.space.default)
    assert config == [{"tile": 64}, text]
    assert both.providers == {"1": flags}
    assert alone.providers == {"": flags}


def test_a_mixed_template_gives_a_list_of_the_same_length() -> None:
    tested = mixed()
    rng = random.Random(0)
    for _ in range(30):
        config = tested.config(tested.space.sample(rng))
        assert [type(config[0]), type(config[1])] == [dict, str]
        assert len(config) == 3
        assert config[2] in (None, 1, 2)
        assert ("splits" in config[0]) == config[0]["split"]
        assert config[0]["tile"]["m"] * config[0]["tile"]["n"] <= 128 * 128
        assert config[0]["dtype"] == "fp16"


def test_all_knocked_out_is_the_baseline() -> None:
    for template in (
        {"a": space.literal("-O3", knockout_prob=0.5), "n": 3},
        Flags(),
        [{"b": space.flag(knockout_prob=0.5)}, Flags()],
    ):
        tested = SearchSpace(template)
        nothing: Configuration = dict.fromkeys(tested.space.parameters)
        assert tested.space.contains(nothing)
        assert tested.config(nothing) == {}
        assert tested.flat({}) == nothing
    with pytest.raises(SpaceError, match="'a' cannot be None"):
        SearchSpace({"a": space.flag()}).flat({})


def test_names_in_constraints_find_their_parameter() -> None:
    part = {"tile": space.choice([1, 2, 4]), "stages": space.range(1, 4)}
    assert SearchSpace({"gemm": part}, ["gemm.tile * gemm.stages <= 4"]).space.count() == 4 + 2 + 1
    assert SearchSpace([part, Flags(0)], ["tile * stages <= 4"]).space.count() == 7 * 3 * 2 * 2
    with pytest.raises(SpaceError, match=r"'tile' could be '0\.tile' or '1\.tile'"):
        SearchSpace([part, part], ["tile < 4"])
    # Inside a part, its own come first; a Space brings its constraints along.
    own = Space(part, ["tile * stages <= 4"])
    assert SearchSpace([own, own]).space.count() == 7 * 7
    both = SearchSpace({"mode": space.flag(), "in": {"mode": space.range(0, 3), "x": when("mode > 2", part)}})
    assert both.space.count() == 2 * (3 + 12)


def test_a_callable_of_everything_sees_its_own_part_only() -> None:
    def small(configuration: Configuration) -> bool:
        assert set(configuration) == {"a", "b"}
        return sum(configuration.values()) < 3  # type: ignore[arg-type]

    own = Space({"a": space.range(0, 3), "b": space.range(0, 3)}, [small])
    assert SearchSpace([own, {"c": space.flag()}]).space.count() == 6 * 2


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ({}, "at least one parameter"),
        ({"n": 3}, "at least one parameter"),
        ([], "nothing to search"),
        ({"tile": [64, 128]}, "tile: the list .* write space.choice"),
        (space.flag(), "give {'name'"),
        ("text", "nothing to search"),
        ({1: space.flag()}, "the name 1 is no string"),
        ([Flags], r"give an instance, Flags\(\)"),
        ({"a.b": space.flag(), "a": {"b": space.flag()}}, "two entries .* 'a.b'"),
    ],
)
def test_what_cannot_be_searched_is_said(template: Any, says: str) -> None:
    with pytest.raises(SpaceError, match=says):
        SearchSpace(template)


def test_a_config_of_the_wrong_form_is_said() -> None:
    tested = mixed()
    good = tested.config(tested.space.default)
    with pytest.raises(SpaceError, match="a list of 3"):
        tested.flat(good[:2])
    with pytest.raises(UnknownNameError, match=r"0\.spilt"):
        tested.flat([{**good[0], "spilt": 1}, *good[1:]])
    with pytest.raises(SpaceError, match=r"0\.tile must be a dict"):
        tested.flat([{**good[0], "tile": 64}, *good[1:]])
    with pytest.raises(SpaceError, match=r"the constant '0\.dtype' is 'fp16', not 'fp32'"):
        tested.flat([{**good[0], "dtype": "fp32"}, *good[1:]])
    with pytest.raises(SpaceError, match="1 must be the text of Flags"):
        tested.flat([good[0], {"-O": "2"}, good[2]])
    with pytest.raises(SpaceError, match=r"'0\.tile\.m' cannot be 96; the nearest valid value is"):
        tested.flat([{**good[0], "tile": {"m": 96, "n": 64}}, *good[1:]])


def test_fingerprints_follow_the_definition() -> None:
    first = SearchSpace({"a": space.range(0, 3), "b": space.flag()}, ["a > 0"])
    same = SearchSpace({"a": space.range(0, 3), "b": space.flag()}, ["a > 0"])
    assert first.fingerprint == same.fingerprint
    others = [
        SearchSpace({"a": space.range(0, 4), "b": space.flag()}, ["a > 0"]),
        SearchSpace({"a": space.range(0, 3, default=1), "b": space.flag()}, ["a > 0"]),
        SearchSpace({"a": space.range(0, 3), "b": space.flag()}, ["a > 1"]),
        SearchSpace({"a": space.range(0, 3), "b": space.flag(), "n": 1}, ["a > 0"]),
        SearchSpace({"a": space.range(0, 3), "b": space.flag()}, [lambda a: a > 0]),
        SearchSpace({"a": space.range(0, 3), "b": space.flag()}, [lambda a: a > 1]),
    ]
    assert len({one.fingerprint for one in (first, *others)}) == 7


@settings(max_examples=40, deadline=None)
@given(templates(), st.integers(0, 2**32))
def test_a_search_space_survives_json(template: Any, seed: int) -> None:
    tested = SearchSpace(template)
    if tested.providers:
        with pytest.raises(NotRepresentableError, match="'a small alignment' is a function"):
            tested.to_json()
        return
    back = SearchSpace.from_json(json.loads(json.dumps(tested.to_json())))
    assert back.fingerprint == tested.fingerprint
    first, second = random.Random(seed), random.Random(seed)
    drawn = tested.space.sample(first)
    assert back.space.sample(second) == drawn
    assert back.config(drawn) == tested.config(drawn)
    assert back.flat(tested.config(drawn)) == drawn
    nested = SearchSpace([back]).space.sample(random.Random(seed))
    assert nested == {f"0.{name}": value for name, value in drawn.items()}


def test_a_provider_is_handed_in_again_not_loaded(tmp_path: Any) -> None:
    class Plain(Flags):
        def __init__(self) -> None:
            self._space = Space({"-O": space.choice(["1", "2"])})

    tested = SearchSpace([{"tile": space.choice([1, 2])}, Plain()])
    path = tmp_path / "space.json"
    tested.save(path)
    with pytest.raises(
        SpaceError, match=r"needs its provider .*Plain for '1': pass providers={'1': Plain\(\)}"
    ):
        SearchSpace.load(path)
    back = SearchSpace.load(path, providers={"1": Plain()})
    assert back.fingerprint == tested.fingerprint
    assert back.config(back.space.default) == tested.config(tested.space.default)
    with pytest.raises(SpaceError, match="offers"):
        SearchSpace.load(path, providers={"1": Flags()})


def test_documents_that_are_no_search_space_are_refused(tmp_path: Any) -> None:
    path = tmp_path / "space.json"
    mixed_plain = SearchSpace({"a": space.flag()}).to_json()
    with pytest.raises(SpaceError, match="cannot be read"):
        SearchSpace.from_json({"space": mixed_plain["space"]})
    with pytest.raises(SpaceError, match="no parameter 'b'"):
        SearchSpace.from_json({**mixed_plain, "template": {"dict": {"b": {"parameter": "b"}}}})
    path.write_text('{"schema": "kernelwright.search_space", "version": 99}')
    with pytest.raises(FileFormatError, match="version 99"):
        SearchSpace.load(path)


def test_odd_constants_are_handed_through_but_not_saved() -> None:
    marker = object()
    tested = SearchSpace({"a": space.flag(), "stream": marker})
    config = tested.config({"a": True})
    assert config["stream"] is marker
    assert tested.flat(config) == {"a": True}
    assert tested.fingerprint == SearchSpace({"a": space.flag(), "stream": object()}).fingerprint
    with pytest.raises(NotRepresentableError, match="the constant 'stream' is a object"):
        tested.to_json()


def test_each_config_is_fresh() -> None:
    tested = SearchSpace({"in": {"on": space.subset([1, 2], default=[1])}})
    config = tested.config(tested.space.default)
    config["in"]["on"].append(2)
    assert tested.config(tested.space.default) == {"in": {"on": [1]}}
    assert key(tested.flat(config)) == key({"in.on": (1, 2)})
