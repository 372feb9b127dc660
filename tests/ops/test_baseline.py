"""A user's baseline.py: what it may define, and what is said when it is wrong."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from hypothesis import settings

from kernelwright.errors import UsageError
from kernelwright.ops import Baseline
from kernelwright.ops import BaselineBudget
from kernelwright.ops import ErrorBudget
from kernelwright.ops import load_baseline
from kernelwright.ops._baseline_budget import read_budget

PLAIN = """
import torch
def get_inputs(rows=4, hidden=8):
    return [torch.randn(rows, hidden), torch.randn(hidden)]
def get_reference_output(x, weight):
    return x * weight
"""
MODEL = """
import torch
class Model(torch.nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear = torch.nn.Linear(inner, outer)
    def forward(self, x):
        return self.linear(x)
def get_inputs():
    return [torch.randn(3, 8)]
def get_init_inputs():
    return [8, 5]
"""
Load = Callable[..., Baseline]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    path, finders, modules = list(sys.path), list(sys.meta_path), set(sys.modules)
    yield
    sys.path[:], sys.meta_path[:] = path, finders
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load_text(text: str, **options: str) -> Baseline:
        path = tmp_path / "baseline.py"
        path.write_text(textwrap.dedent(text))
        return load_baseline(path, **options)

    return load_text


def test_a_function_is_a_reference(load: Load) -> None:
    baseline = load(PLAIN)
    x, weight = baseline.inputs(3, "default")
    assert baseline.workloads == ("default",)
    assert torch.equal(baseline.call(x, weight), x * weight)
    assert baseline.parameters(2) == ("x", "weight")
    assert baseline.module is None


@pytest.mark.parametrize(
    "drawn", ["torch.randn(4)", "torch.tensor(random.random())", "torch.from_numpy(numpy.random.rand(4))"]
)
def test_inputs_come_from_the_seed_alone(load: Load, drawn: str) -> None:
    baseline = load(f"import torch, random, numpy\nget_inputs = lambda: {drawn}\n" + _REFERENCE)
    (first,), (again,), (other,) = (baseline.inputs(seed, "default") for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


_REFERENCE = "def get_reference_output(x): return x\n"


@pytest.mark.parametrize("name", ["seed", "generator"])
def test_get_inputs_that_wants_a_seed_or_a_generator_gets_it(load: Load, name: str) -> None:
    generator = "generator" if name == "generator" else "torch.Generator().manual_seed(seed)"
    baseline = load(
        f"import torch\ndef get_inputs(n=3, *, {name}): return [torch.randn(n, generator={generator})]\n"
        f"WORKLOADS = [(5,), {{'n': 7}}]\n" + _REFERENCE
    )
    assert baseline.workloads == ("5", "n=7")
    assert [len(baseline.inputs(1, name)[0]) for name in baseline.workloads] == [5, 7]
    assert not torch.equal(baseline.inputs(1, "5")[0], baseline.inputs(2, "5")[0])


def test_a_model_has_the_same_parameters_wherever_it_is_loaded(load: Load) -> None:
    torch.manual_seed(1)
    first = load(MODEL)
    torch.manual_seed(2)
    second = load(MODEL)
    assert first.module is not None
    assert second.module is not None
    assert torch.equal(first.module.linear.weight, second.module.linear.weight)
    assert first.init_inputs == (8, 5)
    assert first.parameters(1) == ("x",)
    assert first.call(*first.inputs(0, "default")).shape == (3, 5)


def test_workloads_are_named_or_listed(load: Load) -> None:
    named = load(
        PLAIN + "WORKLOADS = {'small': {'rows': 2}, 'wide': (1, 64), 'own': lambda: [torch.ones(1)]}"
    )
    assert named.workloads == ("small", "wide", "own")
    shapes = [tuple(named.inputs(0, name)[0].shape) for name in named.workloads]
    assert shapes == [(2, 8), (1, 64), (1,)]
    listed = load(PLAIN + "WORKLOADS = [(2, 8), dict(rows=3, hidden=4), (2, 8)]")
    assert listed.workloads == ("2x8", "rows=3,hidden=4", "2x8 #2")


def test_one_tensor_is_a_list_of_one(load: Load) -> None:
    baseline = load("import torch\ndef get_inputs(): return torch.ones(3)\n" + _REFERENCE)
    (x,) = baseline.inputs(0, "default")
    assert x.shape == (3,)


@pytest.mark.parametrize(
    ("given", "mutated"), [("True", (0, 1)), ("['weight']", (1,)), ("[0]", (0,)), ("-1", (1,)), ("'x'", (0,))]
)
def test_mutated_arguments_are_named_or_numbered(load: Load, given: str, mutated: tuple[int, ...]) -> None:
    baseline = load(PLAIN + f"MUTATES = {given}")
    assert baseline.mutated(baseline.inputs(0, "default")) == mutated


def test_gradients_are_asked_for_with_one_word(load: Load) -> None:
    assert all(x.requires_grad for x in load(PLAIN + "BACKWARD = True").inputs(0, "default"))
    assert not any(x.requires_grad for x in load(PLAIN).inputs(0, "default"))


def test_what_is_said_of_determinism_and_memory_is_read(load: Load) -> None:
    baseline = load(PLAIN + "DETERMINISTIC = False\nSHARES = True\nNONFINITE = False")
    assert (baseline.deterministic, baseline.shares, baseline.nonfinite) == (False, True, False)
    assert not load(PLAIN + "ERROR_BUDGET = {'deterministic': False}").deterministic


def test_a_budget_may_be_given_in_part(load: Load) -> None:
    budget = load(PLAIN + "ERROR_BUDGET = {'factor': 3, 'relative_l2': {'bf16': 0.01}, 'atol': 1e-3}").budget
    plain = BaselineBudget()
    assert budget.of(torch.bfloat16).relative_l2[torch.bfloat16] == 0.01
    assert budget.of(torch.float32).relative_l2[torch.float32] == plain.relative_l2[torch.float32]
    assert (budget.factor, budget.atol, budget.rtol) == (3.0, 1e-3, None)


@given(
    factor=st.floats(0, 100),
    floor=st.floats(0, 100),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.float64]),
)
@settings(deadline=None)
def test_a_budget_object_means_the_same_as_its_numbers(factor: float, floor: float, dtype) -> None:
    path = Path("baseline.py")
    whole, _ = read_budget(path, ErrorBudget(factor, floor, {dtype: 0.5}))
    parts, _ = read_budget(path, {"factor": factor, "floor_ulps": floor, "relative_l2": 0.5})
    assert whole.of(dtype).factor == parts.of(dtype).factor
    assert whole.of(dtype).floor_ulps == parts.of(dtype).floor_ulps
    assert whole.of(dtype).relative_l2[dtype] == parts.of(dtype).relative_l2[dtype]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "defines no get_inputs()"),
        ("def get_inputs(): return []", "neither get_reference_output(*inputs) nor a class Model"),
        ("get_inputs = list\nclass Model: pass", "neither get_reference_output"),
        ("import torch\n1 / 0", "ZeroDivisionError: division by zero (line 2)"),
        ("def get_inputs(:", "cannot be run: SyntaxError"),
        ("raise SystemExit(0)", "cannot be run: SystemExit"),
        (PLAIN + "WORKLOADS = 3", "WORKLOADS is an int"),
        (PLAIN + "WORKLOADS = []", "WORKLOADS is empty"),
        (PLAIN + "WORKLOADS = [3]", "workload '3' is an int"),
        (PLAIN + "ERROR_BUDGET = 3", "ERROR_BUDGET is an int"),
        (PLAIN + "ERROR_BUDGET = {'fctor': 3}", "has the key 'fctor'; known are factor, floor_ulps"),
        (PLAIN + "ERROR_BUDGET = {'factor': -1}", "factor is -1"),
        (PLAIN + "ERROR_BUDGET = {'relative_l2': {'bf17': 1}}", "unknown dtype 'bf17'"),
        (PLAIN + "MUTATES = 2.5", "MUTATES is 2.5"),
        (PLAIN + "BACKWARD = 1", "BACKWARD is 1; write True or False"),
        (MODEL.replace("[8, 5]", "[8]"), "Model(*get_init_inputs()) raised TypeError"),
    ],
)
def test_what_is_wrong_is_said_with_the_file_and_what_to_write(load: Load, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=r"baseline\.py") as caught:
        load(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("returned", "said"),
    [("{'x': 1}", "returned a dict"), ("None", "returned a NoneType"), ("[1]", "no tensor")],
)
def test_inputs_that_are_none_are_refused(load: Load, returned: str, said: str) -> None:
    baseline = load(f"def get_inputs(): return {returned}\n" + _REFERENCE)
    with pytest.raises(UsageError, match=said):
        baseline.inputs(0, "default")


def test_a_mutated_argument_that_does_not_exist_is_refused(load: Load) -> None:
    baseline = load(PLAIN + "MUTATES = ['y']")
    with pytest.raises(UsageError, match=r"MUTATES names 'y'.*0 \(x\), 1 \(weight\)"):
        baseline.mutated(baseline.inputs(0, "default"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing\.py does not exist"):
        load_baseline(tmp_path / "missing.py")


@pytest.mark.parametrize(
    "text",
    ["import my_kernel\n" + PLAIN, PLAIN + "def later():\n    from my_kernel.sub import f\n"],
)
def test_a_reference_does_not_import_the_candidate(load: Load, text: str) -> None:
    with pytest.raises(UsageError, match=r"imports 'my_kernel', the package under judgement.*\(line \d+\)"):
        load(text, refuse="my_kernel")


def test_a_reference_does_not_reach_the_candidate_by_a_detour(load: Load, tmp_path: Path) -> None:
    (tmp_path / "my_kernel.py").write_text("def f(x): return x")
    baseline = load(
        PLAIN.replace("return x * weight", "return __import__('my_' + 'kernel').f(x)"), refuse="my_kernel.rms"
    )
    with pytest.raises(UsageError, match="the package under judgement"):
        baseline.call(*baseline.inputs(0, "default"))


def test_neighbours_are_importable_but_shadow_nothing(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("FACTOR = 3\n")
    for name in ("json", "torch", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('shadowed')\n")
    (tmp_path / "baseline.py").write_text("import json, neighbour\n" + PLAIN)
    code = (
        "from pathlib import Path; from kernelwright.ops import load_baseline; "
        f"load_baseline(Path({str(tmp_path / 'baseline.py')!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "__pycache__" / "baseline.cpython-311.pyc").exists()
