"""Reading what a performer says, which may be anything that JSON can say."""

from __future__ import annotations

from typing import Any

from kernelwright.referee.contract import _tree as tree
from kernelwright.referee.contract._facts import Act
from kernelwright.referee.contract._facts import Node
from kernelwright.referee.contract._facts import TensorFact
from kernelwright.referee.contract._handle import text_of

_ACTS = ("patched", "left_on", "state", "opened", "signalled", "channel", "looked")


def read_act(given: object) -> Act | None:
    """An act that a sensor noted; None for what is none."""
    if not isinstance(given, dict) or given.get("act") not in _ACTS:
        return None
    return Act(
        act=given["act"],
        what=text_of(given.get("what")),
        said=text_of(given.get("said")),
        where=text_of(given.get("where")),
        deceives=given.get("deceives") is True,
    )


def read_names(given: object) -> tuple[str, ...]:
    """Up to 200 names."""
    return tuple(text_of(one) for one in given[:200]) if isinstance(given, list) else ()


def read_facts(given: object, value: Node) -> tuple[TensorFact, ...] | None:
    """The facts of the tensors of `value`, one each; None when they are not that many."""
    paths = [*tree.paths_of(value)]
    if not isinstance(given, list) or len(given) != len(paths):
        return None
    return tuple(
        _fact(one if isinstance(one, dict) else {}, path) for one, path in zip(given, paths, strict=True)
    )


def _fact(given: dict[str, Any], path: str) -> TensorFact:
    return TensorFact(
        path=path,
        type=text_of(given.get("type")),
        dtype=text_of(given.get("dtype")),
        device=text_of(given.get("device")),
        layout=text_of(given.get("layout")),
        shape=_integers(given.get("shape")),
        strides=_integers(given.get("strides")),
        offset=_integer(given.get("offset")) or 0,
        storage_bytes=_integer(given.get("storage_bytes")) or 0,
        is_conj=given.get("is_conj") is True,
        is_neg=given.get("is_neg") is True,
        requires_grad=given.get("requires_grad") is True,
        shares_input=_integer(given.get("shares_input")),
        shares_output=_integer(given.get("shares_output")),
        shares_earlier=_integer(given.get("shares_earlier")),
        shares_state=text_of(given.get("shares_state")) or None,
        problem=text_of(given.get("problem")),
    )


def _integer(given: object) -> int | None:
    return given if type(given) is int and abs(given) < 1 << 62 else None


def _integers(given: object) -> tuple[int, ...]:
    if not isinstance(given, list):
        return ()
    return tuple(one for value in given[:64] if (one := _integer(value)) is not None)
