"""Spaces in files: own JSON, T1 and ConfigSpace; what a format cannot hold is said."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from pathlib import Path
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
from kernelwright.errors import UsageError
from kernelwright.space import Configuration
from kernelwright.space import key
from kernelwright.space import LocalSearchSpace
from kernelwright.space import SearchSpace
from kernelwright.space import Space
from kernelwright.space import when


def t1(parameters: dict[str, Any], conditions: list[str], **defaults: Any) -> dict[str, Any]:
    return {
        "General": {"BenchmarkName": "made_up"},
        "ConfigurationSpace": {
            "TuningParameters": [
                {"Name": name, "Type": "int", "Values": values, "Default": defaults.get(name)}
                for name, values in parameters.items()
            ],
            "Conditions": [{"Expression": text, "Parameters": []} for text in conditions],
        },
        "KernelSpecification": {"Language": "CUDA"},
    }


CONVOLUTION = t1(
    {
        "block_size_x": "[16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256]",
        "block_size_y": "[1, 2, 4, 8, 16]",
        "tile_size_x": "[1, 2, 3, 4]",
        "tile_size_y": "[1, 2, 3, 4]",
        "use_padding": "[0, 1]",
        "use_shmem": "[0, 1]",
        "filter_width": "[15]",
    },
    [
        "use_padding==0 or block_size_x % 32 != 0",
        "32 <= block_size_x * block_size_y <= 1024",
        "use_padding==0 or use_shmem != 0",
        "use_shmem == 0 or (block_size_x*tile_size_x+filter_width-1)*(block_size_y*tile_size_y+14) < 12*1024",
    ],
    block_size_x=16,
    block_size_y=16,
    use_padding=1,
    use_shmem=1,
)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """Everything that own JSON holds."""
    parameters: dict[str, space.Parameter] = {
        "a": space.range(0, draw(st.integers(2, 9)), default=1),
        "b": space.choice([8, 2, 4], log=draw(st.booleans())),
        "flag": space.flag(default=draw(st.booleans())),
        "kind": space.choice(["x", "y", 1, True, 1.5]),
        "rate": space.log_sampling(1e-3, 1.0),
        "grid": space.range(0.0, 1.0, 0.25),
        "on": space.subset(["p", "q", "r"], min_size=1),
        "order": space.permutation([1, 2, 3], default=[3, 1, 2]),
        "opt": space.literal("-O3", knockout_prob=0.25),
        "sub": when("flag and a > 1", space.choice([1, 2], knockout_prob=0.5)),
    }
    chosen = draw(st.lists(st.sampled_from(list(parameters)), unique=True))
    kept = {name: one for name, one in parameters.items() if name in {*chosen, "a", "b", "flag"}}
    texts = draw(st.lists(st.sampled_from(["a * b <= 30", "a != 4", "flag or a < 8"]), unique=True))
    return Space(kept, texts)


@settings(max_examples=40, deadline=None)
@given(spaces(), st.integers(0, 2**32))
def test_own_json_brings_back_the_same_space(tmp_path_factory: Any, tested: Space, seed: int) -> None:
    path = tmp_path_factory.mktemp("spaces") / "space.json"
    space.save(tested, path)
    back = space.load(path)
    assert json.loads(path.read_text())["version"] == 1
    assert repr(back) == repr(tested)
    assert back.default == tested.default
    first, second = random.Random(seed), random.Random(seed)
    assert [back.sample(first) for _ in range(5)] == [tested.sample(second) for _ in range(5)]
    assert SearchSpace(back).fingerprint == SearchSpace(tested).fingerprint


def test_a_function_cannot_be_saved(tmp_path: Path) -> None:
    def fits(a: int) -> bool:
        return a < 3

    tested = Space({"a": space.range(0, 5)}, [fits])
    for format in ("json", "t1"):
        with pytest.raises(NotRepresentableError, match="the constraint 'fits'"):
            space.save(tested, tmp_path / "space.json", format)  # type: ignore[arg-type]
    with pytest.raises(NotRepresentableError, match="'<lambda>' is a function"):
        space.save(Space({"a": space.flag(), "b": when(lambda a: a, space.flag())}, [fits]), tmp_path / "x")
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="no format 'yaml'"):
        space.save(tested, tmp_path / "space.json", "yaml")  # type: ignore[arg-type]


def test_a_t1_file_is_read_as_kernel_tuner_means_it(tmp_path: Path) -> None:
    path = tmp_path / "convolution.T1.json"
    path.write_text(json.dumps(CONVOLUTION))
    tested = space.load(path)
    entries = CONVOLUTION["ConfigurationSpace"]["TuningParameters"]
    domains = {one["Name"]: json.loads(one["Values"]) for one in entries}
    texts = [one["Expression"] for one in CONVOLUTION["ConfigurationSpace"]["Conditions"]]
    grid = (dict(zip(domains, values, strict=True)) for values in itertools.product(*domains.values()))
    valid = {key(one) for one in grid if all(eval(text, {}, dict(one)) for text in texts)}
    assert {key(one) for one in tested.configurations()} == valid
    assert tested.count() == len(valid) > 1000
    assert tested.default["block_size_x"] == tested.default["block_size_y"] == 16


def test_t1_values_may_be_computed() -> None:
    tested = space.from_t1(
        t1(
            {
                "a": "[2**i for i in range(4)]",
                "b": "range(0, 10, 5)",
                "c": "list(range(3))",
                "d": [1, 2],
                "e": "['x', 'y']",
                "f": "[True, False]",
                "g": "[-1, 16*4, 0.5]",
            },
            ["a > 1 and e == 'x' or f"],
        )
    )
    values = {name: parameter.values() for name, parameter in tested.parameters.items()}
    assert values == {
        "a": (1, 2, 4, 8),
        "b": (0, 5),
        "c": (0, 1, 2),
        "d": (1, 2),
        "e": ("x", "y"),
        "f": (True, False),
        "g": (-1, 64, 0.5),
    }


def test_a_t1_default_that_the_conditions_exclude_gives_way() -> None:
    tested = space.from_t1(
        t1({"a": "[1, 2, 4]", "b": "[1, 2, 4]", "c": "[0, 1]"}, ["a * b <= 4"], a=4, b=4, c=1)
    )
    assert tested.default["c"] == 1
    assert 4 in (tested.default["a"], tested.default["b"])


@pytest.mark.parametrize(
    ("document", "error", "says"),
    [
        ({"ConfigurationSpace": {}}, SpaceError, "no T1 document"),
        (t1({"a": "__import__('os').listdir()"}, []), SpaceError, "'a': the values .* not allowed"),
        (t1({"a": "[9**9**9]"}, []), SpaceError, "'a': the values"),
        (t1({"a": "[1, 1]"}, []), SpaceError, "'a': .*listed twice"),
        (t1({"a": "3"}, []), SpaceError, "no list"),
        (t1({"a": "[1]"}, ["a > 2"]), SpaceError, "no configuration meets the constraint 'a > 2'"),
        (t1({"a": "[1]"}, ["aa > 2"]), UnknownNameError, "did you mean 'a'|known: a"),
        (t1({"a": "[1]"}, ["__import__('os')"]), SpaceError, "calls more than"),
    ],
)
def test_a_bad_t1_document_is_refused(document: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        space.from_t1(document)


def test_t1_is_written_and_read_back() -> None:
    tested = space.from_t1(CONVOLUTION)
    document = json.loads(json.dumps(space.to_t1(tested, "convolution")))
    back = space.from_t1(document)
    assert list(map(key, back.configurations())) == list(map(key, tested.configurations()))
    assert back.default == tested.default
    # Nested names are not T1's; a moved constraint is written about the names it has now.
    part = Space({"a": space.range(1, 3), "b": space.flag()}, ["a > 1 or b"])
    with pytest.raises(NotRepresentableError, match=r"parameter name '0\.a'"):
        space.to_t1(SearchSpace([part]).space)


@pytest.mark.parametrize(
    ("parameter", "says"),
    [
        (space.permutation([1, 2]), "'x' cannot be one"),
        (space.literal(1, knockout_prob=0.5), "'x' cannot be one"),
        (space.range(0.0, 1.0), "'x' cannot be one"),
        (when("a", space.flag()), "'x' cannot be one"),
    ],
)
def test_what_t1_cannot_hold_is_named(parameter: space.Parameter, says: str) -> None:
    with pytest.raises(NotRepresentableError, match=says):
        space.to_t1(Space({"a": space.flag(), "x": parameter}))


def configspace_like() -> Space:
    return Space(
        {
            "kind": space.choice(["rbf", "poly", "linear"], default="poly"),
            "degree": when("kind == 'poly'", space.range(1, 5, default=3)),
            "gamma": when("kind in ('rbf', 'poly')", space.choice([1, 2, 4])),
            "coef": when("kind == 'poly' and degree > 2", space.flag(default=True)),
            "steps": space.range(0, 8, 2),
            "fixed": space.literal(7),
            "iterations": space.log_sampling(1, 100, default=10),
        },
        ["degree + steps < 10", "kind != 'rbf' or steps > 0", "gamma != 4"],
    )


def test_configspace_goes_there_and_back(tmp_path: Path) -> None:
    tested = configspace_like()
    there = space.to_configspace(tested)
    back = space.from_configspace(there)
    assert back.count() == tested.count()
    assert back.default == tested.default
    rng = random.Random(0)
    for _ in range(50):
        assert back.contains(tested.sample(rng))
        assert tested.contains(back.sample(rng))
    path = tmp_path / "space.json"
    space.save(tested, path, "configspace")
    assert space.load(path).count() == tested.count()


def test_configspace_itself_agrees_on_what_is_valid() -> None:
    tested = configspace_like()
    there = space.to_configspace(tested)
    there.seed(0)
    for drawn in there.sample_configuration(60):
        plain: Configuration = dict.fromkeys(tested.parameters)
        plain.update(
            {name: getattr(value, "item", lambda v=value: v)() for name, value in dict(drawn).items()}
        )
        assert tested.contains(plain)


def test_a_configspace_of_others_is_read() -> None:
    from ConfigSpace import AndConjunction
    from ConfigSpace import CategoricalHyperparameter
    from ConfigSpace import ConfigurationSpace
    from ConfigSpace import EqualsCondition
    from ConfigSpace import ForbiddenAndConjunction
    from ConfigSpace import ForbiddenEqualsClause
    from ConfigSpace import ForbiddenGreaterThanRelation
    from ConfigSpace import ForbiddenInClause
    from ConfigSpace import GreaterThanCondition
    from ConfigSpace import NormalFloatHyperparameter
    from ConfigSpace import OrdinalHyperparameter
    from ConfigSpace import UniformIntegerHyperparameter

    there = ConfigurationSpace(seed=1)
    algorithm = CategoricalHyperparameter("opt:algorithm", ["sgd", "adam"])
    size = OrdinalHyperparameter("size", ["small", "medium", "large"])
    low = UniformIntegerHyperparameter("low", 1, 6, default_value=1)
    high = UniformIntegerHyperparameter("high", 1, 6, default_value=6)
    beta = UniformIntegerHyperparameter("beta", 0, 3)
    there.add(algorithm, size, low, high, beta)
    there.add(
        AndConjunction(EqualsCondition(beta, algorithm, "adam"), GreaterThanCondition(beta, size, "small"))
    )
    there.add(
        ForbiddenGreaterThanRelation(low, high),
        ForbiddenAndConjunction(
            ForbiddenEqualsClause(algorithm, "sgd"), ForbiddenInClause(size, ["medium", "large"])
        ),
    )
    tested = space.from_configspace(there)
    pairs = sum(low <= high for low in range(1, 7) for high in range(1, 7))
    assert tested.count() == pairs * (1 + 1 + 2 * 4)
    assert isinstance(tested.default["low"], int)
    with pytest.raises(SpaceError, match=r"not \(low > high\)"):
        tested.validate({**tested.default, "low": 5, "high": 2})
    there.add(NormalFloatHyperparameter("noise", 0, 1, lower=-3, upper=3))
    with pytest.raises(NotRepresentableError, match="'noise' is distributed as normal_float"):
        space.from_configspace(there)


@pytest.mark.parametrize(
    ("parameters", "constraints", "says"),
    [
        ({"x": space.subset([1, 2])}, [], "parameter 'x'"),
        ({"x": space.literal(1, knockout_prob=0.5)}, [], "parameter 'x'"),
        ({"x": space.range(0.0, 1.0)}, ["x < 0.5"], "'x' has too many values"),
        ({f"x{i}": space.range(0, 99) for i in range(3)}, ["x0 + x1 < x2 + 9"], "too many combinations"),
        (
            {"x": space.range(0, 9), "y": space.range(0, 9), "z": when("x > y", space.flag())},
            [],
            "condition 'x > y' of 'z'",
        ),
    ],
)
def test_what_configspace_cannot_hold_is_named(
    parameters: dict[str, space.Parameter], constraints: list[str], says: str
) -> None:
    with pytest.raises(NotRepresentableError, match=says):
        space.to_configspace(Space(parameters, constraints))


def test_a_local_search_space_is_a_provider(tmp_path: Path) -> None:
    path = tmp_path / "flags.json"
    made = Space(
        {
            "-O": space.choice(["2", "3"], knockout_prob=0.5),
            "--param=a": space.range(0, 9, knockout_prob=0.5),
            "--param": space.subset(["x", "y\n=z"], knockout_prob=0.5),
        }
    )
    space.save(made, path)
    provider = LocalSearchSpace(path)
    assert isinstance(provider, space.Provider)
    tested = SearchSpace([{"tile": space.flag()}, provider])
    rng = random.Random(0)
    for _ in range(30):
        drawn = made.sample(rng)
        assert provider.parse(provider.render(drawn)) == drawn
        flat = tested.space.sample(rng)
        assert tested.flat(tested.config(flat)) == flat
    text = bytes.fromhex(provider.render({"-O": "3", "--param=a": 4, "--param": None})).decode()
    assert text == 'kernelwright.configuration 1 flags\n-O="3"\n--param=a=4\n'
    # It needs no file to come back.
    path.unlink()
    assert SearchSpace.from_json(tested.to_json()).fingerprint == tested.fingerprint


def test_a_local_search_space_reads_t1(tmp_path: Path) -> None:
    path = tmp_path / "convolution.T1.json.gz"
    path.write_bytes(gzip.compress(json.dumps(CONVOLUTION).encode()))
    tested = SearchSpace(LocalSearchSpace(str(path)))
    config = tested.config(tested.space.default)
    assert isinstance(config, str)
    assert tested.flat(config) == tested.space.default


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("xyz", "is not the hex text"),
        (
            b"kernelwright.configuration 1 other\n".hex(),
            "not of 'kernelwright.configuration 1 flags'",
        ),
        (b"kernelwright.configuration 1 flags\nb=1\n".hex(), "no parameter of flags"),
        (b"kernelwright.configuration 1 flags\na=oh\n".hex(), "no JSON value"),
        (b"kernelwright.configuration 1 flags\na=77\n".hex(), "'a' cannot be 77"),
    ],
)
def test_a_text_of_another_space_is_refused(tmp_path: Path, text: str, says: str) -> None:
    space.save(Space({"a": space.range(0, 9)}), tmp_path / "flags.json")
    with pytest.raises(SpaceError, match=says):
        LocalSearchSpace(tmp_path / "flags.json").parse(text)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "not valid JSON"),
        (b"\x1f\x8bnot gzip", "not valid JSON"),
        (b"[1]", "holds a list"),
        (b'{"schema": "other", "a": 1}', "holds no space"),
        (b'{"schema": "kernelwright.space", "version": 9}', "version 9; this release reads 1"),
    ],
)
def test_files_that_hold_no_space_are_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "space.json"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=says):
        space.load(path)
    with pytest.raises(FileNotFoundError):
        LocalSearchSpace(tmp_path / "absent.json")
