"""How operators and implementations come to be known."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import kernelwright as kw
from kernelwright.dispatch import Call
from kernelwright.dispatch import dispatch
from kernelwright.dispatch import implementations
from kernelwright.dispatch import on_first_use
from kernelwright.dispatch import operators
from kernelwright.dispatch import register_impl
from kernelwright.dispatch import spec
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError

X = torch.ones(2, 3)


def test_the_interface_is_the_only_signature_and_its_body_never_runs(scale):
    assert scale.call.__name__ == "scale"
    assert scale.call.__doc__ == "x · weight · factor."
    torch.testing.assert_close(scale.call(X, X, factor=3.0), X * 3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'weight'"):
        scale.call(X)
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3"):
        scale.call(X, X, 3.0)


def test_an_interface_in_the_manner_of_tilegym_works_as_it_stands():
    @kw.dispatch("my_op")
    def my_op(input: torch.Tensor, out: torch.Tensor | None = None, **kwargs: Any) -> Tensor:
        raise NotImplementedError

    def reference_my_op(input: torch.Tensor, out: torch.Tensor | None = None, **kwargs: Any) -> Tensor:
        return torch.add(input, 1, out=out)

    kw.register_impl("my_op", "torch")(reference_my_op)
    y = torch.empty_like(X)
    assert my_op(X, y) is y, "out may be given by position where the interface has it"
    torch.testing.assert_close(my_op(X, backend="torch"), X + 1)
    assert "cannot be checked" in str(kw.explain("my_op", X))


def test_a_bind_registers_at_once_and_gets_the_default_configuration():
    @dispatch("twice")
    def twice(x: Tensor) -> Tensor:  # type: ignore[empty-body]
        """2 · x."""

    given = []

    def bind(configuration: Any) -> Any:
        given.append(configuration)
        return lambda x, out=None: x * configuration["factor"]

    from kernelwright import space

    tunables = space.Space({"factor": space.choice([2, 3])})
    implementation = register_impl("twice", backend="cpu", bind=bind, tunables=tunables, rank=1)
    torch.testing.assert_close(twice(X), X * 2)
    assert given == [tunables.default]
    assert implementations("twice") == (implementation,)


def test_a_specialised_callable_is_called_by_position_with_out_last():
    @dispatch("three")
    def three(x: Tensor, *, a: int = 1, b: str = "b") -> Tensor:  # type: ignore[empty-body]
        """Nothing."""

    seen: list[Any] = []

    class Bound:
        tier = "avx2"

        def specialize(self, call: Call) -> Any:
            seen.append(call)
            return lambda *values: seen.append(values) or values[0]

    register_impl("three", backend="cpu", bind=lambda _: Bound())
    assert three(X, b="c") is X
    call, values = seen
    assert values == (X, 1, "c", None)
    assert call.scalars == {"a": 1, "b": "c"}
    assert call.tensors["x"].shape == (2, 3)
    assert kw.explain("three", X).tier == "avx2"


def test_a_second_registration_replaces_the_first_and_serves_the_next_call(scale):
    scale.call(X, X)
    register_impl("scale", "fast", rank=5)(lambda x, weight, *, factor=1.0: x + 100)
    torch.testing.assert_close(scale.call(X, X), X + 100)
    assert [one.name for one in implementations("scale")] == ["fast", "torch"]


def test_implementations_come_best_rank_first_and_torch_last(scale):
    register_impl("scale", "fast", name="faster", rank=9)(lambda x, weight, *, factor=1.0: x)
    register_impl("scale", "torch", rank=99)(lambda x, weight, *, factor=1.0: x)
    assert [one.name for one in implementations("scale")] == ["faster", "fast", "torch"]


def test_an_implementation_must_take_every_parameter_of_the_operator(scale):
    with pytest.raises(UsageError, match="lacks the parameter factor"):
        register_impl("scale", "odd")(lambda x, weight: x)


def test_an_unknown_operator_is_an_error_with_the_nearest_name(scale):
    with pytest.raises(UnknownNameError, match="did you mean 'scale'"):
        register_impl("scael", "torch")
    with pytest.raises(UnknownNameError, match="did you mean 'rms_norm'"):
        spec("rms_nrom")


@pytest.mark.parametrize("name", ["not a name", "1st", ""])
def test_an_operator_needs_a_name_that_python_takes(name):
    with pytest.raises(UsageError, match="Python name"):
        dispatch(name)


def test_an_interface_with_star_args_cannot_be_dispatched():
    with pytest.raises(UsageError, match="ordinary or keyword-only"):

        @dispatch("odd")
        def odd(*xs: Tensor) -> None: ...


def test_hooks_run_once_and_before_the_registry_is_asked():
    ran = []
    on_first_use(lambda: ran.append("hook"))
    assert ran == []
    operators()
    operators()
    assert ran == ["hook"]


def test_a_failing_hook_is_tried_again_by_the_next_question():
    ran = []

    def hook() -> None:
        ran.append("hook")
        if len(ran) == 1:
            raise OSError("no disk")

    on_first_use(hook)
    with pytest.raises(OSError, match="no disk"):
        operators()
    operators()
    assert len(ran) == 2


def test_the_operators_of_the_package_are_there():
    assert {"rms_norm", "softmax", "silu_and_mul"} <= set(operators())
    assert spec("softmax").name == "softmax"
