"""The base of operator tests: forward and backward against an fp64 oracle, over backends.

    class TestRmsNorm(OperatorTestCase):
        _backends = ("torch", "cpu")

        @pytest.mark.parametrize("backend", _backends)
        def test_op(self, backend):
            self.select(backend)
            self.assertCorrectness(kw.ops.rms_norm, reference, {"x": x, "weight": weight}, gradient=True)

Without `atol` and `rtol`, tolerances are not chosen but measured: an output may be twice as far from the fp64
oracle as torch is in the same dtype, plus a floor in units of the output's scale, and passes a gate on its
relative L2 error. An unavailable backend skips its tests with the reason; an available one that raises fails.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from kernelwright import dispatch
from kernelwright.ops import ErrorBudget
from kernelwright.referee._oracle import as_fp64
from kernelwright.referee._oracle import expectation
from kernelwright.referee._oracle import same_bits
from kernelwright.referee._python_judge import fault
from kernelwright.referee._python_judge import share_memory

#: Gradients of inputs that were broadcast sum many terms; the rule scales with torch's own error in doing so.
_GRADIENT_BUDGET = ErrorBudget(
    relative_l2={torch.float32: 1e-5, torch.bfloat16: 8e-3, torch.float16: 2e-3, torch.float64: 1e-13}
)


class OperatorTestCase:
    """Base of a test class of one operator; pytest style, no `__init__`."""

    #: Backends to parametrise over.
    _backends: ClassVar[tuple[str, ...] | list[str]] = ("torch",)
    #: Seed of `setUp`.
    seed: ClassVar[int] = 0

    @pytest.fixture(autouse=True)
    def _isolated(self) -> Iterator[None]:
        """Each test starts from the same random state and leaves no backend behind."""
        self.setUp()
        yield
        dispatch.set_backend(None)

    def setUp(self) -> None:
        """Seed torch; called before each test, and again wherever a test wants a fresh start."""
        torch.manual_seed(self.seed)

    def select(self, backend: str) -> None:
        """Prefer `backend` until the test ends; skips the test, with the reason, where it is not available.

        Raises UnknownNameError for a name that no backend has: a misspelt backend must not look like a skip.
        """
        if not dispatch.is_backend_available(backend):
            reason = dispatch.backends()[backend]
            pytest.skip(f"backend {backend!r} is not available here: {reason}")
        dispatch.set_backend(backend)

    def assertCorrectness(  # noqa: N802 - named as in unittest
        self,
        op: Callable[..., Any],
        reference: Callable[..., Any],
        kwargs: Mapping[str, Any],
        *,
        atol: float | None = None,
        rtol: float | None = None,
        gradient: Tensor | tuple[Tensor, ...] | bool | None = None,
        extra_test_kwargs: Mapping[str, Any] | None = None,
        extra_ref_kwargs: Mapping[str, Any] | None = None,
        budget: ErrorBudget | None = None,
        deterministic: bool = True,
    ) -> None:
        """Fail unless `op(**kwargs)` is what `reference` computes in fp64, forward and, if asked, backward.

        Args:
            op: what is tested.
            reference: the same in plain torch, able to compute in fp64; never in place.
            kwargs: arguments of both; floating tensors are given to the oracle in fp64.
            atol: absolute tolerance; with `rtol`, replaces the measured one.
            rtol: relative tolerance.
            gradient: True, or the gradient of each output, to compare the gradients of all floating tensor
                arguments that require one (of all floating ones if none does) with those of fp64 autograd.
            extra_test_kwargs: arguments of `op` only, such as `backend` or `out`.
            extra_ref_kwargs: arguments of `reference` only.
            budget: another error budget than the default one.
            deterministic: whether a second call must give the same bits.
        """
        before = {name: _snapshot(value) for name, value in kwargs.items()}
        mine = {**kwargs, **(extra_test_kwargs or {})}
        theirs = {**kwargs, **(extra_ref_kwargs or {})}
        with torch.no_grad():
            output = op(**mine)
            kept = [part.clone() for part in _outputs(output)]
        for name, value in before.items():
            if value is not None and not _equal(value, kwargs[name]):
                raise AssertionError(f"the call changed its argument {name}")
        with torch.no_grad():
            same_dtype = _outputs(reference(**theirs))
            expected = _outputs(reference(**{name: as_fp64(value) for name, value in theirs.items()}))
        _assert_outputs("output", _outputs(output), same_dtype, expected, atol, rtol, budget)
        _assert_own_memory(_outputs(output), same_dtype, kwargs)
        if deterministic:
            with torch.no_grad():
                again = _outputs(op(**mine))
            for number, (first, second) in enumerate(zip(kept, again, strict=True)):
                if not _equal(first, second):
                    raise AssertionError(f"a second call gave another output {number}")
            _assert_own_memory(again, same_dtype, dict(enumerate(_outputs(output))), mine.values())
        if gradient is not None and gradient is not False:
            self._assert_backward(op, reference, mine, theirs, gradient, atol, rtol, budget)

    def _assert_backward(
        self,
        op: Callable[..., Any],
        reference: Callable[..., Any],
        mine: Mapping[str, Any],
        theirs: Mapping[str, Any],
        gradient: Tensor | tuple[Tensor, ...] | bool,
        atol: float | None,
        rtol: float | None,
        budget: ErrorBudget | None,
    ) -> None:
        names = _differentiable(theirs)
        if not names:
            raise AssertionError("no argument is a floating tensor: there is no gradient to compare")
        cotangents = None if gradient is True else _outputs(gradient)
        got = _gradients(op, mine, names, cotangents)
        same_dtype = _gradients(reference, theirs, names, cotangents)
        expected = _gradients(
            reference, {name: as_fp64(value) for name, value in theirs.items()}, names, cotangents
        )
        for name in names:
            _assert_outputs(
                f"gradient of {name}",
                [got[name]],
                [same_dtype[name]],
                [expected[name]],
                atol,
                rtol,
                budget or _GRADIENT_BUDGET,
            )


class PyTestCase(OperatorTestCase):
    """The same under the name that TileGym's test base has."""


def _assert_outputs(
    what: str,
    got: list[Tensor],
    same_dtype: list[Tensor],
    expected: list[Tensor],
    atol: float | None,
    rtol: float | None,
    budget: ErrorBudget | None,
) -> None:
    if len(got) != len(expected):
        raise AssertionError(f"{what}: {len(got)} tensors, expected {len(expected)}")
    for number, (mine, same, want) in enumerate(zip(got, same_dtype, expected, strict=True)):
        name = what if len(expected) == 1 else f"{what} {number}"
        if not want.is_floating_point():
            if mine.dtype != want.dtype or not torch.equal(mine, want):
                raise AssertionError(f"{name}: integer results must be equal")
        elif atol is None and rtol is None:
            problem = fault(mine, expectation(want, same, budget or ErrorBudget()))
            if problem:
                raise AssertionError(f"{name}: {problem}")
        else:
            try:
                torch.testing.assert_close(mine, want.to(same.dtype), atol=atol or 0.0, rtol=rtol or 0.0)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from None


def _assert_own_memory(
    got: list[Tensor], same_dtype: list[Tensor], others: Mapping[Any, Any], given: Iterable[Any] = ()
) -> None:
    """Fail where an output lies in the memory of an argument or, by number, of an output of an earlier call.

    What the reference returns as a view may be one; what lies in a tensor that was given, as `out=`, must.
    """
    views = [value for value in others.values() if isinstance(value, Tensor)]
    for number, (mine, same) in enumerate(zip(got, same_dtype, strict=True)):
        if any(share_memory(same, one) for one in views):
            continue
        if any(isinstance(one, Tensor) and share_memory(mine, one) for one in given):
            continue
        for name, other in others.items():
            if isinstance(other, Tensor) and share_memory(mine, other):
                what = f"argument {name}" if isinstance(name, str) else f"output {name} of an earlier call"
                raise AssertionError(f"output {number} shares memory with {what}")


def _outputs(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else list(value)


def _differentiable(arguments: Mapping[str, Any]) -> list[str]:
    floating = {
        name: value
        for name, value in arguments.items()
        if isinstance(value, Tensor) and value.is_floating_point()
    }
    return [name for name, value in floating.items() if value.requires_grad] or list(floating)


def _gradients(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    names: list[str],
    cotangents: list[Tensor] | None,
) -> dict[str, Tensor]:
    """Gradients by autograd; what flows in is given, or random with the same values in every dtype."""
    own = dict(arguments)
    for name in names:
        own[name] = arguments[name].detach().clone().requires_grad_()
    outputs = [part for part in _outputs(function(**own)) if part.is_floating_point()]
    if not all(part.requires_grad for part in outputs):
        raise AssertionError("an output does not require a gradient though an argument does")
    if cotangents is None:
        generator = torch.Generator().manual_seed(1)
        # Drawn in the coarsest dtype, so that fp64 and the tested dtype see the same values.
        drawn = [torch.randn(part.shape, generator=generator).bfloat16() for part in outputs]
    else:
        drawn = cotangents
    found = torch.autograd.grad(
        outputs,
        [own[name] for name in names],
        [value.to(part.dtype) for value, part in zip(drawn, outputs, strict=True)],
        allow_unused=False,
    )
    return dict(zip(names, found, strict=True))


def _snapshot(value: Any) -> Tensor | None:
    return value.detach().clone() if isinstance(value, Tensor) else None


def _equal(left: Tensor, right: Tensor) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and same_bits(left, right)
