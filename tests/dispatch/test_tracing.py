"""Where torch watches the operators, torch serves, and what it watches is whole."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import kernelwright as kw
from kernelwright.errors import UnsupportedCallError

X = torch.randn(4, 8)
W = torch.randn(8)


@pytest.fixture
def scale(scale):
    """An operator that has a plan of `fast` for the very calls that are traced."""
    for _ in range(3):
        scale.call(X, X + 0)
    scale.served.clear()
    return scale


def test_a_compiled_function_takes_the_torch_implementation_without_a_graph_break():
    import torch._dynamo as dynamo

    dynamo.reset()
    graphs = []

    def backend(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    @torch.compile(fullgraph=True, backend=backend)
    def f(x, w):
        return (
            kw.ops.rms_norm(x, w)
            + kw.ops.softmax(x)
            + kw.ops.rms_norm(x, w, eps=1e-3, out=torch.empty_like(x))
        )

    expected = (
        torch.nn.functional.rms_norm(X, (8,), W, 1e-6)
        + torch.softmax(X, -1)
        + torch.nn.functional.rms_norm(X, (8,), W, 1e-3)
    )
    torch.testing.assert_close(f(X, W), expected)
    assert len(graphs) == 1
    assert "rms_norm" in graphs[0].code


@pytest.mark.skipif(
    shutil.which("g++") is None or not Path(sysconfig.get_path("include"), "Python.h").exists(),
    reason="torch.compile's own backend needs g++ and Python.h",
)
def test_the_default_backend_of_torch_compile_agrees():
    import torch._dynamo as dynamo

    dynamo.reset()
    f = torch.compile(lambda x, w: kw.ops.rms_norm(x, w), fullgraph=True)
    torch.testing.assert_close(f(X, W), kw.ops.rms_norm(X, W, backend="torch"))


def test_another_backend_asked_for_breaks_the_graph_and_serves_the_call(scale):
    import torch._dynamo as dynamo

    def f(x):
        return scale.call(x, x + 0, backend="fast") * 2

    dynamo.reset()
    torch.testing.assert_close(torch.compile(f, backend="eager")(X), X * X * 2)
    assert scale.served == ["fast"]
    dynamo.reset()
    with pytest.raises(dynamo.exc.Unsupported):
        torch.compile(f, backend="eager", fullgraph=True)(X)


def test_the_preference_of_a_scope_does_not_break_the_graph(scale):
    import torch._dynamo as dynamo

    dynamo.reset()
    with kw.use_backend("fast"):
        f = torch.compile(lambda x: scale.call(x, x + 0), backend="eager", fullgraph=True)
        torch.testing.assert_close(f(X), X * X)
    assert scale.served == []
    assert "under torch.compile the torch implementation serves" in str(kw.explain("scale", X, X))


def test_gradients_flow_through_a_compiled_call():
    import torch._dynamo as dynamo

    dynamo.reset()
    w = torch.nn.Parameter(W.clone())
    torch.compile(lambda x, w: kw.ops.rms_norm(x, w), backend="aot_eager", fullgraph=True)(
        X, w
    ).sum().backward()
    v = torch.nn.Parameter(W.clone())
    torch.nn.functional.rms_norm(X, (8,), v, 1e-6).sum().backward()
    torch.testing.assert_close(w.grad, v.grad)


def test_export_keeps_the_operator(scale):
    class Module(torch.nn.Module):
        def forward(self, x):
            return kw.ops.softmax(x)

    program = torch.export.export(Module(), (X,))
    assert "softmax" in program.graph_module.code
    torch.testing.assert_close(program.module()(X), torch.softmax(X, -1))


def test_make_fx_sees_torch_operators(scale):
    def f(x, w):
        return scale.call(x, w)

    graph = make_fx(f)(X, X + 0)
    assert "aten.mul" in graph.code
    assert scale.served == ["torch"]
    y = torch.randn(4, 8)
    torch.testing.assert_close(graph(y, y), y * y), "nothing was baked in"


def test_fake_tensors_are_served_by_torch_inside_and_outside_their_mode(scale):
    with FakeTensorMode() as mode:
        x, w = mode.from_tensor(X), mode.from_tensor(X)
        for _ in range(2):
            assert isinstance(scale.call(x, w), FakeTensor)
    assert isinstance(scale.call(x, w), FakeTensor)
    assert scale.served == ["torch"] * 3
    with pytest.raises(UnsupportedCallError, match="x is a FakeTensor"):
        scale.call(x, w, backend="fast")


def test_real_tensors_under_fake_mode_do_not_reach_a_native_plan(scale):
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert isinstance(scale.call(X, X + 0), torch.Tensor)
    assert scale.served == ["torch"]


def test_symbolic_sizes_are_served_and_not_kept(scale):
    graph = make_fx(lambda x: scale.call(x, x + 0), tracing_mode="symbolic")(X)
    y = torch.randn(7, 3)
    torch.testing.assert_close(graph(y), y * y)


def test_a_dispatch_mode_sees_the_operators_each_time(scale):
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    w = X + 0
    for _ in range(2):
        with Watch():
            scale.call(X, w)
    assert seen.count("aten.mul.Tensor") == 4
    scale.call(X, w)
    assert scale.served == ["torch", "torch", "fast"]


def test_function_transforms_are_served_by_torch(scale):
    w = X + 0
    torch.testing.assert_close(torch.func.vmap(lambda x: scale.call(x, x))(X), X * X)
    torch.testing.assert_close(torch.func.grad(lambda x: scale.call(x, w).sum())(X), w)
    torch.testing.assert_close(torch.func.vmap(lambda one: scale.call(X, w) * one)(torch.ones(2))[0], X * w)
    assert scale.served == ["torch"] * 3


@pytest.mark.filterwarnings("ignore")
def test_a_jit_trace_bakes_nothing_in(scale):
    traced = torch.jit.trace(lambda x: scale.call(x, x + 0), (X,))
    y = torch.randn(4, 8)
    torch.testing.assert_close(traced(y), y * y)


def test_a_tensor_subclass_is_served_by_torch_and_stays_one(scale):
    class Mine(torch.Tensor):
        pass

    for _ in range(3):
        assert isinstance(scale.call(X.as_subclass(Mine), X), Mine)
    assert scale.served == ["torch"] * 3
    with pytest.raises(UnsupportedCallError, match="x is a Mine"):
        scale.call(X.as_subclass(Mine), X, backend="fast")


def test_a_preference_is_set_aside_where_only_torch_can_serve_and_that_is_said(scale):
    class Mine(torch.Tensor):
        pass

    with kw.use_backend("fast"):
        scale.call(X.as_subclass(Mine), X)
        explanation = kw.explain("scale", X.as_subclass(Mine), X)
    assert scale.served == ["torch"]
    assert any("the preference for 'fast' is set aside: x is a Mine" in note for note in explanation.notes)


def test_parameters_are_plain_memory(scale):
    with torch.no_grad():
        scale.call(X, torch.nn.Parameter(X))
    assert scale.served == ["fast"]
