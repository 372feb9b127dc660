"""Which implementation serves a call, and why each other one does not."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
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
    """The decision for one call, and what it was based on.

    Attributes:
        call: what was decided on.
        chosen: who serves it.
        because: what decided: `backend=`, `use_backend`, `set_backend`, `KERNELWRIGHT_BACKEND`, `torch only`
            (only torch knows what the call means), `rank`; with `winner` where one set the configuration.
        configuration: values of the implementation's tunables.
        tier: ISA tier of the code, if it has one.
        run: called with the values of all parameters in order, then out.
        refusals: implementation → why it does not serve.
        notes: what else a person should know.
        exact: whether the key of the call holds all that was looked at, so that the plan may be kept.
    """

    call: Call
    chosen: Implementation
    because: str
    configuration: Mapping[str, Any]
    tier: str | None
    run: Callable[..., Any]
    refusals: Mapping[str, str]
    notes: tuple[str, ...]
    exact: bool


@dataclass(frozen=True)
class _Asked:
    """A call with what was asked of it besides computing."""

    call: Call
    values: tuple[Any, ...]
    extra: Mapping[str, Any]
    #: The backend to use and who wants it, or None.
    wanted: tuple[str, str] | None
    #: Why only torch can know what the call means, or None.
    torch_only: str | None


@dataclass(frozen=True)
class _Choice:
    """An implementation, bound in a configuration."""

    implementation: Implementation
    because: str
    configuration: Mapping[str, Any]
    bound: Callable[..., Any]


def serve(
    operator: Operator,
    table: Table,
    values: tuple[Any, ...],
    out: Tensor | None,
    backend: str | None,
    extra: Mapping[str, Any],
    key: Any,
) -> Any:
    """Plan a call that no plan serves yet, run it, and keep the plan if the key is exact.

    Raises what `make_plan` raises, and UsageError where torch finds that the arguments do not fit together.
    """
    plan = make_plan(operator, values, out, backend, extra)
    try:
        result = plan.run(*values, out)
    except (RuntimeError, IndexError) as error:
        if type(error) not in (RuntimeError, IndexError) or plan.chosen.backend != "torch":
            raise  # out of memory, a failed kernel
        raise UsageError(f"{operator.name} of {_shapes(plan.call)}: {error}") from error
    if plan.exact and key is not None and not extra:
        pairs = list(zip(operator.signature.parameters, values, strict=True))
        tensors = [value for parameter, value in pairs if parameter.kind is Kind.TENSOR]
        others = [value for parameter, value in pairs if parameter.kind is not Kind.TENSOR]
        tensors += [] if out is None else [out]
        state = [backend, _backends.scope(), torch.is_grad_enabled()]
        table.keep(key, make_entry(plan.run, tensors, [*others, *state]))
    return result


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
    everything = tensors if out is None else {**tensors, "out": out}
    _check_layouts(operator, everything)
    call = _describe(operator, values, tensors, out)
    if out is not None:
        _output.check(operator, values, call)

    tracing = _tracing()
    torch_only = tracing or _unusual(everything)
    wanted = (backend, "backend=") if backend is not None else _backends.preference()
    if wanted is not None:
        _backends.require(wanted[0])
    notes: list[str] = []
    if operator.spec is None:
        notes.append("no spec: results of this operator cannot be checked")
    if torch_only is not None and backend is None:
        if wanted is not None and wanted[0] != "torch":
            notes.append(f"the preference for {wanted[0]!r} is set aside: {torch_only}")
        wanted = ("torch", "torch only")

    asked = _Asked(call, values, extra, wanted, torch_only)
    with operator.lock:
        choice, refusals = _choose(operator, asked, notes)
    specialize = getattr(choice.bound, "specialize", None)
    if specialize is not None and not extra:
        run = specialize(call)
    else:
        takes_out = choice.implementation.takes_out
        run = operator.signature.positional(choice.bound, takes_out=takes_out, extra=extra)
    if out is not None and torch_only is None:
        run = _output.guard(operator, call, run, bump=choice.implementation.backend != "torch")
    return Plan(
        call=call,
        chosen=choice.implementation,
        because=choice.because,
        configuration=dict(choice.configuration),
        tier=getattr(choice.bound, "tier", None),
        run=run,
        refusals=refusals,
        notes=tuple(notes),
        exact=tracing is None,
    )


def _choose(operator: Operator, asked: _Asked, notes: list[str]) -> tuple[_Choice, dict[str, str]]:
    """The first choice that can be bound, and why each other implementation does not serve."""
    candidates = _registry.implementations(operator.name)
    reasons = {one.name: _refusal(operator, one, asked) for one in candidates}
    refusals = {name: reason for name, reason in reasons.items() if reason is not None}
    able = [one for one in candidates if reasons[one.name] is None]
    for one, because, configuration in _preferred(operator, asked, able, notes):
        bound = _bind(operator, one, configuration)
        if not isinstance(bound, KernelwrightError):
            others = {other.name: f"{one.name} comes first ({because})" for other in able if other is not one}
            return _Choice(one, because, configuration, bound), {**others, **refusals}
        if because.endswith("winner"):
            notes.append(f"the winner is ignored, it cannot be bound: {_brief(bound)}")
        else:
            refusals[one.name] = _brief(bound)
            able = [other for other in able if other is not one]
    if asked.wanted is not None:
        name = asked.wanted[0]
        concerned = {one.name for one in candidates if one.backend == name}
        refusals = {one: reason for one, reason in refusals.items() if one in concerned}
        refusals = refusals or {name: f"{operator.name!r} has no implementation on this backend"}
    raise UnsupportedCallError(operator.name, tuple(refusals.items()))


def _preferred(
    operator: Operator, asked: _Asked, able: Sequence[Implementation], notes: list[str]
) -> Iterator[tuple[Implementation, str, Mapping[str, Any]]]:
    """Implementation, reason and configuration of each choice, best first."""
    record = _winner(operator, asked, able, notes)
    if record is not None:
        winning = next(one for one in able if one.name == record.implementation)
        yield winning, f"{asked.wanted[1]} and winner" if asked.wanted else "winner", record.configuration
    for one in able:
        default = one.tunables.default if one.tunables is not None else {}
        yield one, asked.wanted[1] if asked.wanted else "rank", default


def _refusal(operator: Operator, one: Implementation, asked: _Asked) -> str | None:
    """Why an implementation may not serve the call, or None."""
    call = asked.call
    if asked.wanted is not None and one.backend != asked.wanted[0]:
        who = asked.wanted[1]
        return (
            asked.torch_only if who == "torch only" else f"backend {asked.wanted[0]!r} was asked for ({who})"
        )
    if asked.torch_only is not None and one.backend != "torch":
        return asked.torch_only
    if (reason := _fact(operator, one, one.available)) is not None:
        return str(reason)
    unknown = [word for word in asked.extra if word not in one.keywords]
    if unknown:
        return f"does not take the keyword {', '.join(unknown)}"
    if call.out is not None and not one.takes_out:
        return "does not take out="
    if call.wants_grad and not one.gradient:
        return "a gradient is wanted and it has none"
    return one.supports(call)


def _winner(
    operator: Operator, asked: _Asked, able: Sequence[Implementation], notes: list[str]
) -> winners.Record | None:
    """The stored winner that may serve; `notes` learns of one that may not."""
    tunable = {one.name: one for one in able if one.tunables is not None}
    if operator.spec is None or not tunable:
        return None
    arguments = dict(zip(operator.signature.names, asked.values, strict=True))
    dtype = asked.call.tensors[operator.spec.tensors[0]].dtype
    bucket = operator.spec.bucket(operator.spec.sizes_of(**arguments), dtype)
    record, problems = winners.lookup(operator.name, bucket)
    notes.extend(problems)
    if record is None:
        return None
    implementation = tunable.get(record.implementation)
    if implementation is None or implementation.tunables is None:
        notes.append(f"the winner of {bucket} is for {record.implementation!r}, which does not serve here")
        return None
    reason = record.outdated(_fact(operator, implementation, implementation.provenance))
    try:
        chosen = {name: value for name, value in record.configuration.items() if name != winners.CONTROLS}
        implementation.tunables.validate({**implementation.tunables.default, **chosen})
    except KernelwrightError as error:
        reason = reason or str(error)
    if reason is not None:
        notes.append(f"the winner of {bucket} is ignored: {reason}")
        return None
    return record


def _fact(operator: Operator, one: Implementation, question: Callable[[], Any]) -> Any:
    """The answer to `available` or `provenance`, asked once until plans become void: it may read files."""
    key = (one.name, question)
    if key not in operator.bound:
        operator.bound[key] = question()
    return operator.bound[key]


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


def _tracing() -> str | None:
    """Why the state of this thread leaves only torch to serve, or None; no part of it is in the key."""
    if torch._C._len_torch_dispatch_stack():
        return "a torch dispatch mode (FakeTensorMode, make_fx) is active, which sees torch operators only"
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "a function transform (torch.func) is active, which sees torch operators only"
    if torch._C._get_tracing_state() is not None:
        return "torch.jit traces, which sees torch operators only"
    return None


def _unusual(tensors: Mapping[str, Tensor]) -> str | None:
    """Why a tensor is more than its memory, so that only torch can serve, or None."""
    for name, tensor in tensors.items():
        if type(tensor) not in PLAIN_TYPES:
            return f"{name} is a {type(tensor).__name__}, a type that torch operators know"
        if tensor.is_neg() or tensor.is_conj():
            return f"{name} is a negated or conjugated view, which torch operators know"
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


def _shapes(call: Call) -> str:
    return ", ".join(f"{name} {info.shape} {info.dtype}" for name, info in call.tensors.items())


def _brief(error: KernelwrightError) -> str:
    return ": ".join(line.strip() for line in str(error).strip().splitlines()[:2])
