"""The function that a person calls: one generated per operator, so that a hit costs under a microsecond.

The exact key holds everything that a decision may depend on. Per tensor: its type, dtype, shape, device, and its
strides unless it is contiguous (a contiguous tensor is described with the strides of its shape, so that size-one
dimensions do not matter). Per value: its type and itself, with a zero spelt out since -0.0 == 0.0. Then who may
want a gradient, the backend asked for, the scope, and whether a dispatch mode (FakeTensorMode, make_fx) or a
function transform (vmap, grad) is active: these are never stored, so their calls always miss.

Left out on purpose, as these cannot change a decision: inference mode (grad mode is off in it; nothing else is
looked at), the layout (a miss refuses all but strided tensors, and no other has data for a plan to read), and
jit tracing (sizes are tensors then, with a hash of their own, so that these calls miss as well).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from kernelwright.dispatch._backends import scope
from kernelwright.dispatch._registry import Operator
from kernelwright.dispatch._signature import Kind
from kernelwright.dispatch._signature import Parameter

#: What reading the key of a call may raise: no plan, an argument that is no tensor, a size without a hash.
_MISSES = (LookupError, AttributeError, TypeError, RuntimeError)

_TENSOR = "type({0}), {0}.dtype, {0}.shape, {0}.is_contiguous() or {0}.stride(), {0}.is_cpu or {0}.device"


def make_closure(
    operator: Operator,
    interface: Callable[..., Any],
    miss: Callable[..., Any],
    traced: Callable[..., Any],
) -> Callable[..., Any]:
    """The dispatching function of an operator, dressed as its interface.

    A hit calls its plan. Else `miss(values, out, backend, extra, key)` serves the call, where `key` is None if
    the call has none. While torch.compile traces, `traced(backend, extra)` allows the torch implementation.
    """
    signature = operator.signature
    names = ", ".join(signature.names)
    values = f"({names},)" if names else "()"
    text = f"""\
def {operator.name}({signature.head()}):
    if _kw_compiling():
        _kw_traced(backend, _kw_extra)
        return _kw_torch({names}{", " if names else ""}out)
    key = None
    try:
        if out is None:
            key = ({_key_text(signature.parameters)})
        else:
            key = ({_key_text(signature.parameters)}, {_TENSOR.format("out")}, _kw_grad() and out.requires_grad)
        plan = _kw_plans[key]
    except _kw_misses:
        plan = None
    if plan is None or _kw_extra:
        return _kw_miss({values}, out, backend, _kw_extra, key)
    return plan({names}{", " if names else ""}out)
"""
    namespace = operator.namespace
    namespace.setdefault("_kw_torch", None)
    namespace.update(
        signature.defaults(),
        __name__=interface.__module__,
        _kw_compiling=is_dynamo_compiling,
        _kw_traced=traced,
        _kw_plans=operator.plans,
        _kw_misses=_MISSES,
        _kw_miss=miss,
        _kw_grad=torch.is_grad_enabled,
        _kw_scope=scope,
        _kw_modes=torch._C._len_torch_dispatch_stack,
        _kw_transform=torch._C._functorch.peek_interpreter_stack,
        _kw_opaque=opaque_key,
    )
    exec(compile(text, f"<kernelwright dispatch of {operator.name}>", "exec"), namespace)
    function: Callable[..., Any] = namespace[operator.name]
    function = functools.update_wrapper(function, interface)
    del function.__wrapped__  # type: ignore[attr-defined]  # its signature lacks out and backend
    return function


def _key_text(parameters: tuple[Parameter, ...]) -> str:
    parts: list[str] = []
    grads: list[str] = []
    for one in parameters:
        if one.kind is Kind.TENSOR:
            parts.append(_TENSOR.format(one.name))
            grads.append(f"{one.name}.requires_grad")
        elif one.kind is Kind.OPTIONAL_TENSOR:
            parts.append(f"{one.name} if {one.name} is None else ({_TENSOR.format(one.name)})")
            grads.append(f"{one.name} is not None and {one.name}.requires_grad")
        elif one.kind is Kind.VALUE:
            parts.append(f"type({one.name}), {one.name} or repr({one.name})")
        else:
            parts.append(f"_kw_opaque({one.name})")
    parts.append(f"_kw_grad() and ({', '.join(grads)},)" if grads else "_kw_grad()")
    return ", ".join([*parts, "backend", "_kw_scope()", "_kw_modes()", "_kw_transform()"])


def opaque_key(value: Any) -> Any:
    """The part of a key that stands for an argument whose annotation says nothing. Raises TypeError if none can."""
    if isinstance(value, torch.Tensor):
        layout = value.is_contiguous() or value.stride()
        return type(value), value.dtype, value.shape, layout, value.device, value.requires_grad
    if isinstance(value, list | tuple):
        return type(value), tuple(opaque_key(one) for one in value)
    return type(value), value or repr(value)
