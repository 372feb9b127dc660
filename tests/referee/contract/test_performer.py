"""What a performer does with a candidate: found, built, called, raced; outputs copied out and described."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright.process import Template
from kernelwright.referee._verdict import Status
from kernelwright.referee.contract._stage import Baseline
from kernelwright.referee.contract._stage import Performer
from kernelwright.referee.contract._stage import PerformerFailure

Perform = Callable[..., Performer]

DOUBLE = """
    def kernel(x):
        return x * 2
"""


def value(number: object) -> dict[str, Any]:
    return {"t": "value", "v": number}


# Finding and building.


@pytest.mark.parametrize(
    "op", ["kernel", "candidate.kernel", "candidate.fast.deep.kernel", "fast.deep.kernel", "Holder.kernel"]
)
def test_a_callable_is_found_by_its_dotted_name(loaded: Perform, op: str) -> None:
    files = {
        "__init__.py": DOUBLE + "\n\n    class Holder:\n        kernel = staticmethod(kernel)\n",
        "fast/__init__.py": "",
        "fast/deep.py": DOUBLE,
    }
    performer = loaded(files, op)
    result = performer.call([performer.board.put(torch.ones(3))])
    assert result.tensors[0] is not None
    assert result.tensors[0].tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("source", "op", "says"),
    [
        (DOUBLE, "kernels", "candidate has no 'kernels'; it has kernel"),
        (DOUBLE, "candidate", "names a package"),
        ("kernel = 3", "kernel", "candidate.kernel is a int, which cannot be called"),
        ("import nothing_of_this_name", "kernel", "No module named 'nothing_of_this_name'"),
        ("def kernel(x:", "kernel", "SyntaxError"),
        ("1 / 0", "kernel", r"ZeroDivisionError: division by zero \(.*candidate/__init__.py:1\)"),
    ],
)
def test_what_cannot_be_loaded_is_said_with_its_place(
    perform: Perform, source: str, op: str, says: str
) -> None:
    with pytest.raises(PerformerFailure, match=says) as caught:
        perform(source, op).load()
    assert caught.value.status is Status.CRASHED
    assert caught.value.raised is not None


def test_a_candidates_folder_does_not_hide_torch_or_the_standard_library(loaded: Perform) -> None:
    harm = dict.fromkeys(
        (f"../{name}.py" for name in ("torch", "json", "mmap", "_tree")), "raise SystemExit(3)"
    )
    performer = loaded({"__init__.py": "import json\nfrom torch import add as kernel\n", **harm})
    result = performer.call([performer.board.put(torch.ones(2)), performer.board.put(torch.ones(2))])
    assert result.facts[0].plain


MODULE = """
    import torch

    class kernel(torch.nn.Module):
        def __init__(self, rows, bias):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(rows, 4))
            self.register_buffer("bias", torch.full((rows,), float(bias)))
            self.other = torch.nn.Parameter(torch.randn(2))

        def forward(self, x):
            return x @ self.weight.t() + self.bias
"""


def test_a_module_is_built_under_a_seed_and_takes_the_state_that_fits(perform: Perform) -> None:
    performer = perform(MODULE, init=(value(3), value(1)), init_seed=11)
    weight, wrong = torch.randn(3, 4), torch.randn(5)
    performer.target = type(performer.target)(
        **{
            **vars(performer.target),
            "state": {
                "weight": performer.board.put(weight),
                "other": performer.board.put(wrong),
                "gone": performer.board.put(wrong),
            },
        }
    )
    told = performer.load()
    assert told.kind == "object"
    assert told.state["weight"] == ""
    assert told.state["other"] == "the candidate's has shape (2,), not (5,)"
    assert "no parameter" in told.state["gone"]
    x = torch.randn(2, 4)
    (out,) = performer.call([performer.board.put(x)]).tensors
    torch.testing.assert_close(out, x @ weight.t() + 1)


def test_modules_built_under_the_same_seed_are_the_same(loaded: Perform) -> None:
    outputs = []
    for seed in (5, 5, 6):
        performer = loaded(MODULE, init=(value(3), value(0)), init_seed=seed)
        outputs.append(performer.call([performer.board.put(torch.ones(1, 4))]).tensors[0])
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


def test_a_baseline_is_called_as_a_candidate_is(tmp_path: Path, template: Template) -> None:
    file = tmp_path / "baseline.py"
    file.write_text(
        "import torch\n\n"
        "def get_inputs():\n    return [torch.ones(4)]\n\n"
        "def get_reference_output(x):\n    return x + 1\n"
    )
    with Performer(Baseline(file), template=template, board_bytes=1 << 28) as performer:
        performer.load()
        (out,) = performer.call([performer.board.put(torch.ones(4))]).tensors
        assert out is not None
        assert out.tolist() == [2, 2, 2, 2]
        assert performer.who == "the baseline"
        assert performer.acts() == ()


# Outputs.


def test_outputs_of_all_kinds_come_back_with_their_place(loaded: Perform) -> None:
    performer = loaded(
        """
        import torch

        def kernel(x, *, n):
            return {"y": x + n, "rest": [x.long(), (x > 0, None), 3.5, "text", {1, 2}]}
        """
    )
    x = torch.tensor([[1.0, -1.0]])
    result = performer.call([performer.board.put(x)], {"n": value(1)})
    assert [fact.path for fact in result.facts] == ["['y']", "['rest'][0]", "['rest'][1][0]"]
    assert [fact.dtype for fact in result.facts] == ["float32", "int64", "bool"]
    assert [one.tolist() for one in result.tensors if one is not None] == [
        [[2, 0]],
        [[1, -1]],
        [[True, False]],
    ]
    assert result.value["items"]["rest"]["items"][2:4] == [value(3.5), value("text")]
    assert result.value["items"]["rest"]["items"][4]["type"] == "set"


def test_an_output_keeps_its_strides_and_says_where_it_lies(loaded: Perform) -> None:
    performer = loaded(
        """
        import torch

        def kernel(x):
            wide = torch.zeros(3, 10)
            wide[:, 2:8:2] = x
            return wide[:, 2:8:2]
        """
    )
    x = torch.arange(9.0).view(3, 3)
    result = performer.call([performer.board.put(x)])
    (fact,), (out,) = result.facts, result.tensors
    assert out is not None
    assert torch.equal(out, x)
    assert out.stride() == fact.strides == (10, 2)
    assert (fact.offset, fact.storage_bytes, fact.plain) == (2, 120, True)


PROBLEMS = {
    "torch.nn.Parameter(x)": "Parameter",
    "x.to('meta')": "meta",
    "x.to_sparse()": "sparse",
    "torch._efficientzerotensor(x.shape)": "without memory",
    "torch._lazy_clone(x.clone())": "has not been made yet",
    "torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)": "quint8",
    "transforms._add_batch_dim(x.clone(), 0, transforms._vmap_increment_nesting(1, 'error'))": "functorch",
    "make_subclass(x)": "candidate.Sub",
}


@pytest.mark.parametrize("expression", PROBLEMS)
def test_a_tensor_that_is_not_a_plain_one_is_not_read_but_named(loaded: Perform, expression: str) -> None:
    performer = loaded(
        f"""
        import torch
        import torch._C._functorch as transforms

        class Sub(torch.Tensor):
            pass

        def make_subclass(x):
            return x.clone().as_subclass(Sub)

        def kernel(x):
            return {expression}
        """
    )
    result = performer.call([performer.board.put(torch.ones(2, 2))])
    assert result.tensors == (None,)
    assert PROBLEMS[expression] in result.facts[0].problem
    assert not result.facts[0].plain


def test_lazy_bits_of_an_output_are_said(loaded: Perform) -> None:
    performer = loaded("def kernel(x):\n    y = x.clone()\n    return y.conj(), y.conj().imag\n")
    result = performer.call([performer.board.put(torch.ones(2, dtype=torch.complex64))])
    assert [(fact.is_conj, fact.is_neg) for fact in result.facts] == [(True, False), (False, True)]
    assert not any(fact.plain for fact in result.facts)


def test_an_output_in_the_memory_of_an_input_is_said(loaded: Perform) -> None:
    performer = loaded("def kernel(x, y):\n    return y[1:], x + 1, x.numpy().view()[0:1] * 0 is None\n")
    result = performer.call([performer.board.put(torch.ones(3)), performer.board.put(torch.ones(3))])
    assert [fact.shares_input for fact in result.facts] == [1, None]


def test_memory_of_an_input_is_found_behind_another_storage(loaded: Perform) -> None:
    performer = loaded("import torch\n\ndef kernel(x):\n    return torch.from_numpy(x.numpy())\n")
    result = performer.call([performer.board.put(torch.ones(3))])
    assert result.facts[0].shares_input == 0


def test_outputs_in_one_storage_are_said(loaded: Perform) -> None:
    performer = loaded("def kernel(x):\n    y = x + 1\n    return y, y[1:]\n")
    result = performer.call([performer.board.put(torch.ones(3))])
    assert [fact.shares_output for fact in result.facts] == [None, 0]


def test_an_output_in_the_memory_of_an_earlier_one_is_said(loaded: Perform) -> None:
    performer = loaded(
        """
        import torch

        ring = [torch.empty(4) for _ in range(3)]

        def kernel(x):
            ring.append(ring.pop(0))
            return ring[0].copy_(x)
        """
    )
    node = performer.board.put(torch.ones(4))
    seen = [performer.call([node]).facts[0].shares_earlier for _ in range(4)]
    assert seen == [None, None, None, 3]


def test_an_output_in_a_modules_state_is_said(loaded: Perform) -> None:
    performer = loaded(
        """
        import torch

        class kernel(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("cache", torch.zeros(4))

            def forward(self, x):
                self.cache.copy_(x)
                return self.cache[1:]
        """
    )
    result = performer.call([performer.board.put(torch.ones(4))])
    assert result.facts[0].shares_state == "cache"


def test_an_earlier_output_can_be_read_again(loaded: Perform) -> None:
    performer = loaded(
        """
        import torch

        buffer = torch.empty(2)

        def kernel(x):
            return buffer.copy_(x)
        """
    )
    results = [performer.call([performer.board.put(torch.full((2,), float(i)))]) for i in (1, 2)]
    assert [one.tolist() for one in performer.recopy(results[0].number) if one is not None] == [[2, 2]]
    for _ in range(8):
        performer.call([performer.board.put(torch.ones(2))])
    with pytest.raises(PerformerFailure, match="no longer kept") as caught:
        performer.recopy(results[0].number)
    assert caught.value.alive


def test_what_is_written_after_the_return_shows_in_a_second_look(loaded: Perform) -> None:
    performer = loaded(
        """
        import threading
        import time

        import torch

        def kernel(x):
            out = torch.zeros_like(x)

            def work():
                time.sleep(0.05)
                out.copy_(x)

            threading.Thread(target=work).start()
            return out
        """
    )
    result = performer.call([performer.board.put(torch.ones(3))], settle_ms=400)
    assert result.tensors[0] is not None
    assert result.settled is not None
    assert result.settled[0] is not None
    assert result.tensors[0].tolist() == [0, 0, 0]
    assert result.settled[0].tolist() == [1, 1, 1]


def test_a_late_but_settled_output_looks_the_same_twice(loaded: Perform) -> None:
    performer = loaded(DOUBLE)
    result = performer.call([performer.board.put(torch.ones(3))], settle_ms=1)
    assert result.settled is not None
    assert torch.equal(result.settled[0], result.tensors[0])  # type: ignore[arg-type]


def test_an_output_larger_than_its_room_is_said(loaded: Perform) -> None:
    performer = loaded("def kernel(x):\n    return x.repeat(1000), x + 1\n")
    result = performer.call([performer.board.put(torch.ones(16))], room=4096)
    assert result.tensors[0] is None
    assert result.tensors[1] is not None
    assert "64000 bytes" in result.value["items"][0]["missing"]


def test_a_view_into_much_memory_is_packed_where_it_would_not_fit(loaded: Perform) -> None:
    performer = loaded(
        "import torch\n\ndef kernel(x):\n    return torch.ones(1 << 20)[:: 1 << 16] * x.sum()\n"
    )
    performer = loaded(
        "import torch\n\ndef kernel(x):\n    return (torch.ones(1 << 20) * x.sum())[:: 1 << 16]\n"
    )
    result = performer.call([performer.board.put(torch.ones(2))], room=4096)
    assert result.facts[0].strides == (1 << 16,)
    assert result.tensors[0] is not None
    assert result.tensors[0].tolist() == [2.0] * 16


# Inputs.


def test_inputs_are_looked_at_by_the_judge_alone(loaded: Perform) -> None:
    performer = loaded(
        """
        import ctypes

        def kernel(x, y):
            x[0] = 9
            ctypes.memset(y.data_ptr() + y.nbytes, 0, 3)
            return x + 0
        """
    )
    x, y = torch.ones(3), torch.ones(3)
    nodes = [performer.board.put(one) for one in (x, y)]
    performer.call(nodes)
    assert [performer.board.holds(node, one) for node, one in zip(nodes, (x, y), strict=True)] == [
        False,
        True,
    ]
    assert [performer.board.harm(node) for node in nodes] == ["", "3 bytes after it"]


OVERREAD = """
    import ctypes

    def kernel(x, where):
        ctypes.string_at(x.data_ptr() + where, 4)
        return x + 1
"""


@pytest.mark.parametrize(("guard", "where"), [("after", 12), ("before", -4)])
def test_a_read_in_a_guard_page_ends_the_process(loaded: Perform, guard: Any, where: int) -> None:
    performer = loaded(OVERREAD)
    x = torch.ones(3)
    performer.call([performer.board.put(x, guard=guard), value(0)])
    performer.call([performer.board.put(x), value(where)])  # without one, nothing happens
    with pytest.raises(PerformerFailure, match="SIGSEGV") as caught:
        performer.call([performer.board.put(x, guard=guard), value(where)])
    assert caught.value.status is Status.CRASHED
    assert not caught.value.alive


def test_guard_pages_hold_only_for_their_call(loaded: Perform) -> None:
    performer = loaded(OVERREAD)
    mark = performer.board.mark()
    node = performer.board.put(torch.ones(3), guard="after")
    performer.call([node, value(0)])
    performer.board.release(mark)
    inside = performer.board.put(torch.ones(4096))
    (out,) = performer.call([inside, value(0)]).tensors
    assert out is not None
    assert out.eq(2).all()


def test_each_input_has_a_storage_of_its_own(loaded: Perform) -> None:
    performer = loaded("def kernel(x, y):\n    return [t.untyped_storage().nbytes() for t in (x, y)]\n")
    nodes = [performer.board.put(torch.ones(3)), performer.board.put(torch.ones(5), offset=2)]
    result = performer.call(nodes)
    assert [one["v"] for one in result.value["items"]] == [12, 28]


@pytest.mark.parametrize(
    ("shape", "poison"),
    [
        ((16, 64), None),
        ((2, 4), [32, 4096]),
        ((300, 300), [360000]),
        ((300, 301), [4096]),
        ((3000, 3000), []),
    ],
)
def test_memory_that_a_call_gets_is_full_of_nan(loaded: Perform, shape: tuple[int, int], poison: Any) -> None:
    performer = loaded("import torch\n\ndef kernel(x):\n    return torch.empty(x.shape)\n")
    node = performer.board.put(torch.ones(1).expand(shape) if poison else torch.ones(shape))
    for _ in range(5):
        (out,) = performer.call([node], poison=poison).tensors
        assert out is not None
        # The allocator keeps its own notes in the first bytes of free memory.
        assert out.numel() - int(out.isnan().sum()) <= 8


def test_gradients_come_back_with_the_outputs(loaded: Perform) -> None:
    performer = loaded("def kernel(x, w, b):\n    return (x * w).sum(-1), x.detach() + 1\n")
    x, w = torch.randn(3, 4), torch.randn(4)
    given = torch.randn(3)
    board = performer.board
    result = performer.call(
        [board.put(x, grad=True), board.put(w, grad=True), board.put(torch.ones(1), grad=True)],
        grad_outputs=[board.put(given), board.put(x)],
    )
    assert [fact.requires_grad for fact in result.facts] == [True, False]
    assert result.gradients is not None
    torch.testing.assert_close(result.gradients[0], given[:, None] * w)
    torch.testing.assert_close(result.gradients[1], (given[:, None] * x).sum(0))
    assert result.gradients[2] is None


def test_without_gradients_asked_for_there_are_none(loaded: Perform) -> None:
    performer = loaded(DOUBLE)
    result = performer.call([performer.board.put(torch.ones(2), grad=True)])
    assert result.gradients is None
    assert not result.facts[0].requires_grad


def test_the_number_of_threads_is_the_judges(loaded: Perform) -> None:
    performer = loaded(
        """
        import torch

        def kernel(x):
            seen = torch.get_num_threads()
            torch.set_num_threads(1)
            return seen
        """
    )
    node = performer.board.put(torch.ones(1))
    assert [performer.call([node], threads=n).value["v"] for n in (2, 1, 2)] == [2, 1, 2]


def test_the_number_of_threads_holds_for_every_batch(loaded: Perform) -> None:
    performer = loaded(
        """
        import torch

        def kernel(x):
            seen = torch.get_num_threads()
            torch.set_num_threads(1)
            return seen
        """
    )
    performer.arrange([([performer.board.put(torch.ones(1))], {})], threads=2)
    for _ in range(2):
        performer.batch([0, 0])
        assert [one.value["v"] for one in performer.collect([0, 1])] == [2, 1]


def test_a_traced_call_names_the_operators_it_reached(loaded: Perform) -> None:
    performer = loaded("import torch\n\ndef kernel(x):\n    return torch.softmax(x, -1)\n")
    node = performer.board.put(torch.ones(2, 2))
    assert any("softmax" in name for name in performer.call([node], trace=True).operators)
    assert performer.call([node]).operators == ()


def test_tracing_does_not_load_a_compiler_and_bears_one(loaded: Perform) -> None:
    plain = loaded("import sys\n\ndef kernel(x):\n    return x + 1, 'torch._dynamo' in sys.modules\n")
    node = plain.board.put(torch.ones(2))
    assert plain.call([node], trace=True).value["items"][1]["v"] is False
    performer = loaded(
        "import torch\n\n@torch.compile(backend='aot_eager')\ndef kernel(x):\n    return x.exp()\n"
    )
    node = performer.board.put(torch.ones(2))
    for trace in (True, False, True):
        (out,) = performer.call([node], trace=trace).tensors
        torch.testing.assert_close(out, torch.ones(2).exp())


# Batches.

COUNTING = """
    calls = 0

    def kernel(x, step=1):
        global calls
        calls += step
        return x + calls
"""


def test_a_batch_makes_its_calls_in_order_and_keeps_their_outputs(loaded: Perform) -> None:
    performer = loaded(COUNTING)
    board = performer.board
    slots = [([board.put(torch.full((2,), 100.0 * i))], {}) for i in range(3)]
    performer.arrange(slots)
    batch = performer.batch([2, 0, 1, 0], lead=[1, 1])
    assert batch.calls == 4
    assert 0 < batch.own_ns < batch.wall_ns
    taken = performer.collect([3, 0])
    assert [one.tensors[0][0].item() for one in taken if one.tensors[0] is not None] == [6, 203]
    assert all(fact.plain for one in taken for fact in one.facts)


def test_a_batch_with_keywords_makes_the_same_calls(loaded: Perform) -> None:
    performer = loaded(COUNTING)
    node = performer.board.put(torch.zeros(1))
    performer.arrange([([node], {"step": value(10)}), ([node], {})])
    performer.batch([0, 1, 0])
    assert [one.tensors[0].item() for one in performer.collect([0, 1, 2])] == [10, 11, 21]  # type: ignore[union-attr]


def test_contents_can_be_new_after_the_lead(loaded: Perform) -> None:
    performer = loaded(DOUBLE)
    node = performer.board.put(torch.zeros(2))
    performer.arrange([([node], {})])
    performer.batch([0], lead=[0], refresh=lambda: performer.board.rewrite(node, torch.ones(2)))
    (taken,) = performer.collect([0])
    assert taken.tensors[0] is not None
    assert taken.tensors[0].tolist() == [2, 2]


def test_only_the_last_outputs_are_kept_when_asked(loaded: Perform) -> None:
    performer = loaded(COUNTING)
    performer.arrange([([performer.board.put(torch.zeros(1))], {})])
    performer.batch([0] * 5, keep=2)
    assert [one.tensors[0].item() for one in performer.collect([4, 3])] == [5, 4]  # type: ignore[union-attr]
    with pytest.raises(IndexError, match="call 2"):
        performer.collect([2])
    performer.drop()
    with pytest.raises(IndexError):
        performer.collect([4])


def test_outputs_of_a_batch_say_what_they_share(loaded: Perform) -> None:
    performer = loaded("def kernel(x):\n    return x\n")
    performer.arrange([([performer.board.put(torch.zeros(4))], {})])
    performer.batch([0, 0])
    assert performer.collect([1])[0].facts[0].shares_input == 0


def test_timed_outputs_in_one_memory_are_said(loaded: Perform) -> None:
    performer = loaded("import torch\n\nout = torch.empty(4)\n\ndef kernel(x):\n    return out.copy_(x)\n")
    performer.arrange([([performer.board.put(torch.zeros(4))], {})])
    performer.batch([0, 0, 0])
    facts = [one.facts[0] for one in performer.collect([0, 2])]
    assert [fact.shares_earlier for fact in facts] == [None, 1]


def test_checked_and_timed_calls_come_from_the_same_line(loaded: Perform) -> None:
    performer = loaded(
        """
        import sys

        places = []

        def kernel(x):
            frame = sys._getframe(1)
            places.append((frame.f_code.co_name, frame.f_lasti))
            return x + len(set(places))
        """
    )
    node = performer.board.put(torch.zeros(1))
    performer.call([node])
    performer.arrange([([node], {})])
    performer.batch([0, 0], lead=[0])
    assert performer.collect([1])[0].tensors[0].item() == 1  # type: ignore[union-attr]


def test_the_arguments_of_coming_calls_are_in_no_frame(loaded: Perform) -> None:
    performer = loaded(
        """
        import sys

        import torch

        def found(value, depth=0):
            if isinstance(value, torch.Tensor):
                yield value
            elif isinstance(value, (list, tuple)) and depth < 5:
                for one in value:
                    yield from found(one, depth + 1)

        def kernel(x):
            frame, count = sys._getframe(1), 0
            while frame is not None:
                count += sum(1 for one in frame.f_locals.values() for _ in found(one))
                frame = frame.f_back
            return x + count
        """
    )
    performer.arrange([([performer.board.put(torch.zeros(1))], {}) for _ in range(4)])
    performer.batch([0, 1, 2, 3])
    assert performer.collect([0])[0].tensors[0].item() == 0  # type: ignore[union-attr]


def test_an_exception_in_a_batch_leaves_the_performer_usable(loaded: Perform) -> None:
    performer = loaded(
        """
        def kernel(x):
            if x[0] > 1:
                raise ValueError("too large")
            return x
        """
    )
    slots = [([performer.board.put(torch.full((1,), float(i)))], {}) for i in range(3)]
    performer.arrange(slots)
    with pytest.raises(PerformerFailure, match="too large") as caught:
        performer.batch([0, 1, 2])
    assert caught.value.alive
    assert performer.batch([0, 1]).calls == 2


def test_an_empty_batch_takes_the_time_of_its_messages(loaded: Perform) -> None:
    performer = loaded(DOUBLE)
    performer.arrange([([performer.board.put(torch.zeros(1))], {})])
    assert 0 < performer.overhead_ns(times=5) < 1e9
