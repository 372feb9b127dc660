"""The reference: computed in fp64 whatever it casts to, asked in a process of its own; what it may not do."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright.errors import UsageError
from kernelwright.ops import load_baseline
from kernelwright.process import Template
from kernelwright.referee import RefereeError
from kernelwright.referee.contract._facts import Deadlines
from kernelwright.referee.contract._fp64 import in_fp64
from kernelwright.referee.contract._fp64 import NoOracle
from kernelwright.referee.contract._fp64 import promotion
from kernelwright.referee.contract._reference import Made
from kernelwright.referee.contract._reference import Reference
from kernelwright.referee.contract._reference import Refusal
from kernelwright.referee.contract._witness import Refused
from kernelwright.referee.contract._witness import Witness

HEAD = "import torch\n"
NORM = """
def get_inputs():
    return [torch.randn(6, 40).bfloat16(), torch.randn(40).bfloat16()]
def get_reference_output(x, weight):
    f = x.float()
    return (f * torch.rsqrt(f.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight
"""
SUM = """
def get_inputs():
    return [torch.randn(6, 40)]
def get_reference_output(x):
    return x.sum(-1)
"""


def call(*steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    given = {"workload": "default", "seed": 5, "steps": list(steps), "gradient": False, "slack": True}
    return {**given, **changes}


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """A witness takes the process for its own, threads of torch included."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def witness(tmp_path: Path) -> Callable[[str], Witness]:
    def witness(text: str) -> Witness:
        (tmp_path / "baseline.py").write_text(HEAD + textwrap.dedent(text))
        return Witness(load_baseline(tmp_path / "baseline.py"))

    return witness


# In fp64 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.float() * 3,
        lambda x: x.to(torch.bfloat16) + x.half(),
        lambda x: x * torch.ones(4, dtype=torch.float32),
        lambda x: x @ torch.eye(4),
        lambda x: torch.nn.functional.layer_norm(x.float(), (4,)),
        lambda x: torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])[0],
        lambda x: torch.zeros(4, 4).copy_(x).mul_(2),
        lambda x: torch.softmax(x, -1, dtype=torch.float32),
    ],
)
def test_nothing_rounds_on_the_way(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with promotion():
        got = function(x)
    assert got.dtype == torch.float64
    rounded = function(x.float()).double()
    assert not torch.equal(got, rounded)
    assert torch.allclose(got, rounded, rtol=2e-2, atol=2e-2)


def test_constants_of_the_user_are_taken_as_they_are() -> None:
    table = torch.randn(4)
    with promotion():
        got = torch.ones(4, 4, dtype=torch.float64) @ table
    assert torch.allclose(got, torch.full((4,), float(table.double().sum()), dtype=torch.float64), rtol=1e-14)


def test_codes_are_meant() -> None:
    with promotion():
        assert torch.ones(2, dtype=torch.float64).to(torch.int8).dtype == torch.int8
        assert torch.ones(2, dtype=torch.float64).to(torch.float8_e4m3fn).dtype == torch.float8_e4m3fn


def test_looking_at_bits_is_no_computation() -> None:
    with pytest.raises(NoOracle), promotion():
        torch.ones(2, dtype=torch.float64).view(torch.int64)


def test_trees_are_copied_with_their_strides() -> None:
    x = torch.randn(4, 6).t().requires_grad_(True)
    made = in_fp64({"a": [x, 3], "b": (x.detach().int(),)})
    assert made["a"][0].dtype == torch.float64
    assert made["a"][0].stride() == x.stride()
    assert made["a"][0].requires_grad
    assert made["b"][0].dtype == torch.int32


# What it says ---------------------------------------------------------------------------------------------


def test_a_half_precision_reference_is_judged_against_fp64(witness: Callable[[str], Witness]) -> None:
    said = witness(NORM).testify(call())
    assert said.precision == "fp64"
    assert said.peer.value.dtype == torch.bfloat16
    assert said.oracle.value.dtype == torch.float64
    x, weight = (tensor.double() for tensor in said.arguments)
    exact = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
    assert torch.allclose(said.oracle.value, exact, rtol=1e-12)


def test_a_module_is_judged_against_itself_in_fp64(witness: Callable[[str], Witness]) -> None:
    said = witness(
        """
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(40, 3)
                self.table = torch.randn(3)
            def forward(self, x):
                return self.linear(x) + self.table
        def get_inputs():
            return [torch.randn(6, 40)]
        """
    ).testify(call())
    assert said.precision == "fp64"
    assert said.oracle.value.dtype == torch.float64
    assert torch.allclose(said.oracle.value.float(), said.peer.value, rtol=1e-4, atol=1e-5)


def test_a_reference_of_bits_is_its_own_oracle(witness: Callable[[str], Witness]) -> None:
    said = witness(
        "def get_inputs(): return [torch.randn(8)]\n"
        "def get_reference_output(x): return (x.view(torch.int32) & -65536).view(torch.float32)\n"
    ).testify(call())
    assert said.precision == "own"
    assert torch.equal(said.oracle.value, said.peer.value)


def test_arguments_changed_in_place_are_results(witness: Callable[[str], Witness]) -> None:
    text = "def get_inputs(): return [torch.randn(8), torch.randn(8)]\n"
    text += "def get_reference_output(x, y): x.mul_(y)\n"
    said = witness(text + "MUTATES = ['x']").testify(call())
    assert said.mutated == [0]
    assert torch.allclose(said.oracle.leaves[0].float(), said.arguments[0] * said.arguments[1])
    with pytest.raises(UsageError, match=r"changes its argument x in place; write MUTATES = \['x'\]"):
        witness(text).testify(call())


def test_gradients_are_those_of_fp64(witness: Callable[[str], Witness]) -> None:
    said = witness(SUM + "BACKWARD = True").testify(call(gradient=True))
    assert said.grad_outputs is not None
    (outer,) = said.grad_outputs
    (inner,) = said.oracle.gradients
    assert outer is not None
    assert inner is not None
    assert inner.dtype == torch.float64
    assert torch.allclose(inner, outer.double()[:, None].expand(6, 40))


def test_gradients_of_a_detached_output_are_no_contract(witness: Callable[[str], Witness]) -> None:
    with pytest.raises(UsageError, match="drop BACKWARD, or do not detach"):
        witness(SUM.replace("x.sum", "x.detach().sum") + "BACKWARD = True").testify(call(gradient=True))


def test_a_view_of_an_input_is_the_references_word_for_it(witness: Callable[[str], Witness]) -> None:
    assert witness(SUM.replace("x.sum(-1)", "x.t()")).testify(call()).shares_input
    assert not witness(SUM).testify(call()).shares_input


def test_slack_is_small_where_nothing_cancels_and_large_where_all_does(
    witness: Callable[[str], Witness],
) -> None:
    about = witness(SUM.replace("x.sum(-1)", "x - x.mean(-1, keepdim=True)"))
    (plain,) = about.testify(call()).slack
    shift = {"kind": "shift", "by": 1e4, "seed": 1}
    (shifted,) = about.testify(call(shift)).slack
    assert plain is not None
    assert shifted is not None
    assert float(plain.max()) < 1e-5
    assert float(shifted.max()) > 1e-4


def test_ties_are_left_open_and_nothing_else(witness: Callable[[str], Witness]) -> None:
    about = witness(
        "def get_inputs():\n    x = torch.randn(6, 40)\n    x[2, 3] = x[2, 30] = 9.0\n    return [x]\n"
        "def get_reference_output(x): return x.argmax(-1)\n"
    )
    (unstable,) = about.testify(call()).slack
    assert unstable is not None
    assert unstable.tolist() == [False, False, True, False, False, False]


def test_a_plain_output_of_ties_alone_is_judged_all_the_same(witness: Callable[[str], Witness]) -> None:
    about = witness(
        "def get_inputs(): return [torch.randn(6, 1).expand(6, 40).contiguous()]\n"
        "def get_reference_output(x): return x.argmax(-1)\n"
    )
    assert about.testify(call()).slack == [None]


def test_layouts_that_no_input_has_are_refused(witness: Callable[[str], Witness]) -> None:
    about = witness("def get_inputs(): return [torch.randn(4)]\ndef get_reference_output(x): return x * 2\n")
    with pytest.raises(Refused):
        about.inputs(call({"kind": "layout", "layout": "padded", "which": "first", "seed": 0}))


# In a process of its own ----------------------------------------------------------------------------------


@pytest.fixture
def reference(tmp_path: Path, template: Template) -> Iterator[Callable[..., Reference]]:
    made: list[Reference] = []

    def reference(text: str, **options: Any) -> Reference:
        path = tmp_path / "baseline.py"
        path.write_text(HEAD + textwrap.dedent(text))
        made.append(Reference(path, template=template, board_bytes=1 << 28, **options))
        return made[-1]

    yield reference
    for one in made:
        one.close()


def test_a_contract_is_read_and_a_workload_described(reference: Callable[..., Reference]) -> None:
    one = reference(NORM + "ERROR_BUDGET = {'atol': 1e-3}\nSHARES = True\n", rtol=0.5)
    assert one.contract.workloads == ("default",)
    assert one.contract.shares
    assert (one.contract.budget.atol, one.contract.budget.rtol) == (None, 0.5), (
        "the caller's replace the file's"
    )
    facts = one.describe("default", (1, 2))
    assert facts.parameters == ("x", "weight")
    assert [leaf.shape for leaf in facts.leaves] == [(6, 40), (40,)]
    assert (facts.precision, facts.fixed, facts.repeats, facts.groups) == ("fp64", False, 0.0, ((0,),))
    assert facts.nbytes == one.largest_bytes == 2 * (240 + 40 + 240)
    with pytest.raises(UsageError, match="has no workload 'other'; it has default"):
        one.describe("other", (1, 2))


def test_a_call_comes_with_its_expectation(reference: Callable[..., Reference], tmp_path: Path) -> None:
    one = reference(NORM)
    one.describe("default", (1, 2))
    made = one.make(call())
    assert isinstance(made, Made)
    known = Witness(load_baseline(tmp_path / "baseline.py")).testify(call())
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(made.tensors, known.arguments, strict=True))
    (leaf,) = made.expected.leaves
    assert leaf.fault(known.peer.value) is None
    assert leaf.fault(known.peer.value * 1.1) is not None
    again = one.make(call())
    assert isinstance(again, Made)
    assert torch.equal(again.tensors[0], made.tensors[0])


def test_a_call_that_was_made_ahead_is_the_same_call(reference: Callable[..., Reference]) -> None:
    one = reference(NORM)
    one.describe("default", (1, 2))
    plain = one.make(call())
    one.make_ahead(call())
    assert isinstance(plain, Made)
    answer = one.answer("default", plain.arguments, [plain.tensors[0] * 2, plain.tensors[1]])
    assert isinstance(answer, Made), "asked in between, and answered"
    made = one.make(call())
    assert isinstance(made, Made)
    assert torch.equal(made.tensors[0], plain.tensors[0])
    one.make_ahead(call())
    other = one.make(call({"kind": "lead", "rows": 7, "group": [0], "seed": 1}))
    assert isinstance(other, Made), "what was made ahead is not what was asked for"
    assert other.tensors[0].shape[0] == 7


def test_a_refusal_made_ahead_is_a_refusal(reference: Callable[..., Reference]) -> None:
    one = reference(SUM.replace("x.sum(-1)", "x.view(6, 40).sum(-1)"))
    one.describe("default", (1, 2))
    lead = call({"kind": "lead", "rows": 7, "group": [0], "seed": 1})
    one.make_ahead(lead)
    assert isinstance(one.make(lead), Refusal)


def test_given_arguments_are_answered(reference: Callable[..., Reference]) -> None:
    one = reference(NORM)
    one.describe("default", (1, 2))
    made = one.make(call())
    assert isinstance(made, Made)
    x = made.tensors[0] * 2
    answer = one.answer("default", made.arguments, [x, made.tensors[1]])
    assert isinstance(answer, Made)
    right = torch.nn.functional.rms_norm(x.float(), (40,), None, 1e-6).bfloat16() * made.tensors[1]
    assert answer.expected.leaves[0].fault(right) is None
    assert torch.equal(answer.tensors[0], x)


def test_what_the_reference_does_not_take_is_refused(reference: Callable[..., Reference]) -> None:
    one = reference(SUM.replace("x.sum(-1)", "x.view(6, 40).sum(-1)"))
    assert one.describe("default", (1, 2)).groups == ()
    made = one.make(call({"kind": "lead", "rows": 7, "group": [0], "seed": 1}))
    assert isinstance(made, Refusal)
    assert "RuntimeError" in made.said


def test_inputs_that_ignore_seeds_and_references_that_draw_are_noticed(
    reference: Callable[..., Reference],
) -> None:
    one = reference(
        "def get_inputs():\n    return [torch.ones(4, 4)]\n"
        "def get_reference_output(x):\n    return x * torch.rand(4, 4)\n"
    )
    facts = one.describe("default", (1, 2))
    assert facts.fixed
    assert facts.repeats > 0.1


def test_a_modules_state_is_handed_over(reference: Callable[..., Reference]) -> None:
    one = reference(
        """
        class Model(torch.nn.Module):
            def __init__(self, inner, scale):
                super().__init__()
                self.weight = torch.nn.Parameter(scale.expand(inner).clone())
            def forward(self, x):
                return x * self.weight
        def get_init_inputs():
            return [4, torch.tensor(3.0)]
        def get_inputs():
            return [torch.randn(2, 4)]
        """
    )
    assert one.contract.module
    init, state, tensors = one.state()
    assert init[0] == {"t": "value", "v": 4}
    assert list(state) == ["weight"]
    assert [tensor.tolist() for tensor in tensors] == [3.0, [3.0] * 4]


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("x = 1", UsageError, "defines no get_inputs()"),
        (SUM.replace("x.sum(-1)", "x.sum(-7)"), RefereeError, "the reference raised IndexError"),
        (SUM.replace("torch.randn(6, 40)", "1 / 0"), RefereeError, "ZeroDivisionError"),
        (SUM.replace("x.sum(-1)", "__import__('os')._exit(0)"), RefereeError, "the reference crashed"),
        ("import my_kernel\n" + SUM, UsageError, "imports 'my_kernel'"),
    ],
)
def test_a_broken_reference_is_no_verdict_on_the_kernel(
    reference: Callable[..., Reference], text: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=r"baseline\.py") as caught:
        reference(text, refuse="my_kernel").describe("default", (1, 2))
    assert said in str(caught.value)


def test_a_reference_that_hangs_is_given_up(
    reference: Callable[..., Reference], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = reference(SUM.replace("return x.sum(-1)", "__import__('time').sleep(60)"))
    assert one.contract
    monkeypatch.setattr(one, "deadlines", Deadlines(first_s=30.0, idle_s=0.5, call_s=30.0))
    with pytest.raises(RefereeError, match="the reference hung"):
        one.describe("default", (1, 2))
