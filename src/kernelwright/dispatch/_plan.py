"""Which implementation serves a call, and why each other one does not."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kernelwright import winners
from kernelwright.dispatch import _backends
from kernelwright.dispatch import _output
from kernelwright.dispatch import _registry
from kernelwright.dispatch._call import Call
from kernelwright.dispatch._call import PLAIN_TYPES
from kernelwright.dispatch._call import tensor_info
from kernelwright.dispatch._registry import Implementation
from kernelwright.dispatch._registry import Operator
from kernelwright.dispatch._signature import Kind
from kernelwright.dispatch._table import make_entry
from kernelwright.dispatch._table import Table
from kernelwright.errors import KernelwrightError
from kernelwright.errors import UnknownKeywordError
from kernelwright.errors import UnsupportedCallError
from kernelwright.errors import UsageError


@dataclass(frozen=True)
class Plan:
    """The decision for one call, and what it was based on."""

    call: Call
    chosen: Implementation
    #: Why it was chosen: `backend=`, `use_backend`, `set_backend`, `KERNELWRIGHT_BACKEND`, `winner`, `rank`,
    #: `tracing` or `only torch is left`.
    because: str
    configuration: Mapping[str, Any]
    tier: str | None
    run: Callable[..., Any]
    #: Implementation name → why it does not serve.
    refusals: tuple[tuple[str, str], ...]
    #: What else a person should know: a winner that is ignored, an operator that cannot be checked.
    notes: tuple[str, ...]
    cacheable: bool


def serve(
    operator: Operator,
    table: Table,
    values: tuple[Any, ...],
    out: Tensor | None,
    backend: str | None,
    extra: Mapping[str, Any],
    key: Any,
) -> Any:
    """Plan a call that no plan serves yet, keep the plan if the key is exact, and run it."""
    plan = make_plan(operator, values, out, backend, extra)
    if plan.cacheable and key is not None and not extra:
        pairs = list(zip(operator.signature.parameters, values, strict=True))
        tensors = [value for parameter, value in pairs if parameter.kind is Kind.TENSOR]
        others = [value for parameter, value in pairs if parameter.kind is not Kind.TENSOR]
        tensors += [] if out is None else [out]
        table.keep(key, make_entry(plan.run, tensors, [*others, backend, _backends.scope()]))
    return plan.run(*values, out)


def make_plan(
    operator: Operator,
    values: tuple[Any, ...],
    out: Tensor | None,
    backend: str | None,
    extra: Mapping[str, Any],
) -> Plan:
    """Decide who serves a call.

    Raises ArgumentTypeError, UsageError and UnknownKeywordError for a call that makes no sense,
    UnknownNameError and BackendUnavailableError for the backend, UnsupportedCallError when nobody serves it.
    """
    _registry.connect()
    operator.signature.check(values, out)
    _check_keywords(operator, extra)
    tensors = _tensors(operator, values)
    _check_layouts(operator, tensors if out is None else {**tensors, "out": out})
    special = _special(tensors, out)
    call = _describe(operator, values, tensors, out)
    if out is not None:
        _output.check(operator, values, call)

    if backend is not None:
        _backends.require(backend)
        wanted: tuple[str, str] | None = (backend, "backend=")
    else:
        wanted = _backends.preference()
        if wanted is not None:
            _backends.require(wanted[0])
    notes: list[str] = (
        [] if operator.spec is not None else ["no spec: results of this operator cannot be checked"]
    )
    if special is not None and backend is None:
        if wanted is not None and wanted[0] != "torch":
            notes.append(f"the preference for {wanted[0]!r} is set aside: {special}")
        wanted = ("torch", "tracing")

    candidates = list(_registry.implementations(operator.name))
    refusals: dict[str, str] = {}
    open_ones: list[Implementation] = []
    for one in candidates:
        reason = _refusal(one, call, wanted, special, extra)
        if reason is None:
            open_ones.append(one)
        else:
            refusals[one.name] = reason
    if wanted is not None and not any(one.backend == wanted[0] for one in candidates):
        refusals = {wanted[0]: f"{operator.name!r} has no implementation on this backend", **refusals}

    with operator.lock:
        record, ignored = _winner(operator, call, values, open_ones)
        notes.extend(ignored)
        if record is not None:
            winning = next(one for one in open_ones if one.name == record.implementation)
            bound = _bind(operator, winning, record.configuration)
            if isinstance(bound, KernelwrightError):
                notes.append(
                    f"the winner of {record.bucket} is ignored, it cannot be bound: {_first_line(bound)}"
                )
            else:
                because = wanted[1] + " and winner" if wanted else "winner"
                return _finish(
                    operator,
                    call,
                    winning,
                    because,
                    record.configuration,
                    bound,
                    extra,
                    open_ones,
                    refusals,
                    notes,
                )
        for one in open_ones:
            configuration = one.tunables.default if one.tunables is not None else {}
            bound = _bind(operator, one, configuration)
            if isinstance(bound, KernelwrightError):
                refusals[one.name] = _first_line(bound)
                continue
            because = wanted[1] if wanted else "rank"
            return _finish(
                operator, call, one, because, configuration, bound, extra, open_ones, refusals, notes
            )
    raise UnsupportedCallError(operator.name, tuple(refusals.items()))


def _finish(
    operator: Operator,
    call: Call,
    chosen: Implementation,
    because: str,
    configuration: Mapping[str, Any],
    bound: Callable[..., Any],
    extra: Mapping[str, Any],
    open_ones: list[Implementation],
    refusals: Mapping[str, str],
    notes: list[str],
) -> Plan:
    specialize = getattr(bound, "specialize", None)
    if specialize is not None and not extra:
        run = specialize(call)
    else:
        run = operator.signature.positional(bound, takes_out=chosen.takes_out, extra=extra)
    if call.out is not None:
        run = _output.guard(operator, call, run, bump=chosen.backend != "torch")
    others = {
        one.name: refusals.get(one.name, f"{chosen.name} comes first ({because})")
        for one in _registry.implementations(operator.name)
        if one.name != chosen.name
    }
    return Plan(
        call=call,
        chosen=chosen,
        because=because,
        configuration=dict(configuration),
        tier=getattr(bound, "tier", None),
        run=run,
        refusals=tuple({**{k: v for k, v in refusals.items() if k != chosen.name}, **others}.items()),
        notes=tuple(notes),
        cacheable=because != "tracing",
    )


def _refusal(
    one: Implementation,
    call: Call,
    wanted: tuple[str, str] | None,
    special: str | None,
    extra: Mapping[str, Any],
) -> str | None:
    if wanted is not None and one.backend != wanted[0]:
        return (
            f"backend {wanted[0]!r} was asked for ({wanted[1]})" if wanted[1] != "tracing" else str(special)
        )
    if (reason := one.available()) is not None:
        return reason
    if special is not None and one.backend != "torch":
        return special
    unknown = [word for word in extra if word not in one.keywords]
    if unknown:
        return f"does not take the keyword {', '.join(unknown)}"
    if call.out is not None and not one.takes_out:
        return "does not take out="
    if call.wants_grad and not one.gradient:
        return "a gradient is wanted and it has none"
    return one.supports(call)


def _winner(
    operator: Operator, call: Call, values: tuple[Any, ...], open_ones: list[Implementation]
) -> tuple[winners.Record | None, list[str]]:
    """The stored winner that may serve, and what a person should know of one that may not."""
    tunable = {one.name: one for one in open_ones if one.tunables is not None}
    if operator.spec is None or not tunable:
        return None, []
    arguments = dict(zip(operator.signature.names, values, strict=True))
    dtype = call.tensors[operator.spec.tensors[0]].dtype
    bucket = operator.spec.bucket(operator.spec.sizes_of(**arguments), dtype)
    record, notes = winners.lookup(operator.name, bucket)
    if record is None:
        return None, list(notes)
    implementation = tunable.get(record.implementation)
    if implementation is None:
        return None, [
            *notes,
            f"the winner of {bucket} is for {record.implementation!r}, which does not serve here",
        ]
    reason = record.outdated(implementation.provenance())
    if reason is not None:
        return None, [*notes, f"the winner of {bucket} is ignored: {reason}"]
    return record, list(notes)


def _bind(operator: Operator, one: Implementation, configuration: Mapping[str, Any]) -> Any:
    """What bind returned for a configuration, or the error with which it failed; asked once."""
    key = (one.name, tuple(sorted(configuration.items())))
    if key not in operator.bound:
        try:
            operator.bound[key] = one.bind(configuration)
        except KernelwrightError as error:
            operator.bound[key] = error
    return operator.bound[key]


def _check_keywords(operator: Operator, extra: Mapping[str, Any]) -> None:
    if not extra:
        return
    declared = dict.fromkeys((*operator.signature.names, "out", "backend"), "the operator")
    for one in _registry.implementations(operator.name):
        for word in one.keywords:
            declared[word] = f"{declared[word]} and {one.name}" if word in declared else one.name
    for word in extra:
        if word not in declared:
            raise UnknownKeywordError(operator.name, word, declared)


def _tensors(operator: Operator, values: tuple[Any, ...]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, value in zip(operator.signature.names, values, strict=True):
        if isinstance(value, Tensor):
            found[name] = value
        elif isinstance(value, list | tuple):
            found.update(
                {f"{name}[{index}]": one for index, one in enumerate(value) if isinstance(one, Tensor)}
            )
    return found


def _check_layouts(operator: Operator, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if tensor.layout is not torch.strided:
            raise UsageError(
                f"{operator.name}: {name} has the layout {tensor.layout}; operators take strided tensors, "
                f"so pass {name}.to_dense() or a padded tensor"
            )


def _special(tensors: Mapping[str, Tensor], out: Tensor | None) -> str | None:
    """Why only torch can know what this call means, or None."""
    if torch._C._len_torch_dispatch_stack():
        return (
            "a torch dispatch mode (FakeTensorMode, make_fx, ...) is active, which only sees torch operators"
        )
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "a function transform (torch.func, vmap) is active, which only sees torch operators"
    if torch._C._get_tracing_state() is not None:
        return "torch.jit traces, which only sees torch operators"
    for name, tensor in {**tensors, **({} if out is None else {"out": out})}.items():
        if type(tensor) not in PLAIN_TYPES:
            return f"{name} is a {type(tensor).__name__}, a tensor type that only torch operators know"
        if tensor.is_neg() or tensor.is_conj():
            return f"{name} is a negated or conjugated view, which only torch operators know"
    return None


def _describe(
    operator: Operator, values: tuple[Any, ...], tensors: Mapping[str, Tensor], out: Tensor | None
) -> Call:
    grad = torch.is_grad_enabled()
    infos = {name: tensor_info(tensor, grad_enabled=grad) for name, tensor in tensors.items()}
    scalars = {
        name: value
        for name, value in zip(operator.signature.names, values, strict=True)
        if not isinstance(value, Tensor)
    }
    output = None if out is None else tensor_info(out, grad_enabled=grad)
    wants_grad = any(info.requires_grad for info in infos.values()) or (
        output is not None and output.requires_grad
    )
    return Call(operator.name, infos, scalars, output, wants_grad)


def _first_line(error: KernelwrightError) -> str:
    return str(error).strip().splitlines()[0]
