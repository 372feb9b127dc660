"""The function that a person calls: one generated per operator, so that a hit costs under a microsecond.

A call first meets the entry used last, then the entry of its shape (see `_table`), then its exact key, then
planning. The exact key holds everything that a decision may depend on. Per tensor: its type, dtype, shape,
device, layout, its strides unless it is contiguous (a contiguous tensor is described with the strides of its
shape, so that size-one dimensions do not matter), and whether it is a negated view. Per value: its type and
itself, with a zero spelt out since -0.0 == 0.0. Then who may want a gradient, the backend asked for, the
scope, and whether a dispatch mode (FakeTensorMode, make_fx) or a function transform (vmap, grad) is active:
these are never stored, so their calls always miss.

Left out on purpose, as these cannot change a decision: inference mode (grad mode is off in it; nothing else
is looked at) and jit tracing (sizes are tensors then, with a hash of their own, so that these calls miss).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._compile import _disable_dynamo
from torch.compiler import is_dynamo_compiling

from kernelwright.dispatch._backends import scope
from kernelwright.dispatch._registry import Operator
from kernelwright.dispatch._signature import Kind
from kernelwright.dispatch._signature import Parameter

#: What reading the key of a call may raise: no plan, an argument that is no tensor, a size without a hash.
_MISSES = (LookupError, AttributeError, TypeError, RuntimeError)

_TENSOR = (
    "type({0}), {0}.dtype, {0}.shape, {0}.is_contiguous() or {0}.stride(), "
    "{0}.is_cpu or {0}.device, {0}.layout, {0}.is_neg()"
)


def make_closure(
    operator: Operator, interface: Callable[..., Any], miss: Callable[..., Any]
) -> Callable[..., Any]:
    """The dispatching function of an operator, dressed as its interface.

    A hit calls its plan. Else `miss(table, values, out, backend, extra, key)` serves the call, where `key` is
    None if the call has none. torch.compile traces the torch implementation; what that may not serve breaks
    the graph and is dispatched as in eager code.
    """
    signature = operator.signature
    names = "".join(f"{name}, " for name in signature.names)
    by_name = "".join(f"{name}={name}, " for name in signature.names)
    tensors = "".join(f"{one.name}, " for one in signature.parameters if one.kind is Kind.TENSOR)
    values = [one.name for one in signature.parameters if one.kind is not Kind.TENSOR]
    key = _key_text(signature.parameters)
    text = f"""\
def {operator.name}({signature.head()}):
    if _kw_compiling():
        if _kw_torch is None or _kw_extra or backend not in (None, "torch"):
            return _kw_untraced({by_name}out=out, backend=backend, **_kw_extra)
        return _kw_torch({names}out)
    table = _kw_table
    key = None
    if out is None:
{_front_text("", names, tensors, values)}
        try:
            key = ({key})
            entry = table.plans[key]
        except _kw_misses:
            entry = None
        if entry is None or _kw_extra:
            return _kw_miss(table, ({names}), None, backend, _kw_extra, key)
        table.promote(key, entry, ({tensors}), out=False)
    else:
{_front_text("out_", names, tensors + "out, ", values)}
        try:
            key = ({key}, {_TENSOR.format("out")}, _kw_grad() and out.requires_grad)
            entry = table.plans[key]
        except _kw_misses:
            entry = None
        if entry is None or _kw_extra:
            return _kw_miss(table, ({names}), out, backend, _kw_extra, key)
        table.promote(key, entry, ({tensors}out), out=True)
    return entry[1]({names}out)
"""
    # Without a __name__, so that torch.compile looks for these names here and not in a module.
    namespace = operator.namespace
    namespace.update(
        signature.defaults(),
        _kw_compiling=is_dynamo_compiling,
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
    namespace["_kw_untraced"] = _disable_dynamo(function)
    functools.update_wrapper(function, interface)
    del function.__dict__["__wrapped__"]  # its signature lacks out and backend
    return function


def _front_text(prefix: str, names: str, tensors: str, values: list[str]) -> str:
    """Serve the call from the entry used last or that of its shape: values by identity, tensors by check."""
    known = [f"_kw_{index}" for index in range(len(values) + 3)]
    pairs = zip([*values, "backend", "_kw_scope()", "_kw_grad()"], known, strict=True)
    same = " and ".join(f"{value} is {one}" for value, one in pairs)
    matches = f"{same} and _kw_check({tensors}) and not _kw_modes() and not _kw_extra"
    entry = f"_kw_check, _kw_plan, {', '.join(known)}"
    first = tensors.split(",")[0]
    return f"""\
        {entry} = table.{prefix}front
        if {matches}:
            return _kw_plan({names}out)
        try:
            entry = table.{prefix}shapes.get(({first}.shape, {first}.dtype), table.never)
        except _kw_misses:
            entry = table.never
        {entry} = entry
        if {matches}:
            table.{prefix}front = entry
            return _kw_plan({names}out)"""


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
    """The part of a key for an argument whose annotation says nothing. Raises TypeError if there is none."""
    if isinstance(value, torch.Tensor):
        layout = value.is_contiguous() or value.stride()
        grad = torch.is_grad_enabled() and value.requires_grad
        return type(value), value.dtype, value.shape, layout, value.device, value.layout, value.is_neg(), grad
    if isinstance(value, list | tuple):
        return type(value), tuple(opaque_key(one) for one in value)
    return type(value), value or repr(value)
