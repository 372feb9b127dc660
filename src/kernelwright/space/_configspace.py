"""ConfigSpace, read: from its objects, or from its JSON without the package."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from kernelwright.errors import NotRepresentableError
from kernelwright.errors import SpaceError
from kernelwright.space._constraints import Constraint
from kernelwright.space._parameters import Choice
from kernelwright.space._parameters import Flag
from kernelwright.space._parameters import Parameter
from kernelwright.space._parameters import Range
from kernelwright.space._presence import Conditional
from kernelwright.space._space import Space

_COMPARED = {"LT": "<", "LE": "<=", "GT": ">", "GE": ">=", "EQ": "==", "NEQ": "!="}


def from_configspace(space: Any) -> Space:
    """The space of a `ConfigSpace.ConfigurationSpace`, or of its serialised dict.

    Hyperparameters become parameters (an ordinal of strings loses its order), conditions make them
    conditional, forbidden clauses become constraints. Raises NotRepresentableError for a distribution that
    is neither uniform nor a list of equals, SpaceError for a document that makes no sense.
    """
    # A ConfigurationSpace is a mapping too, of its hyperparameters.
    document = space.to_serialized_dict() if hasattr(space, "to_serialized_dict") else space
    try:
        bodies = {str(one["name"]): one for one in document["hyperparameters"]}
        parameters = {name: _parameter(name, one) for name, one in bodies.items()}
        for one in document.get("conditions") or ():
            child = str(one["child"])
            expression = _Expression(bodies)
            condition = expression.constraint(expression.condition(one))
            parameters[child] = Conditional((condition,), parameters[child])
        constraints = []
        for one in document.get("forbiddens") or ():
            expression = _Expression(bodies)
            constraints.append(expression.constraint(f"not ({expression.forbidden(one)})"))
    except (AttributeError, KeyError, TypeError) as error:
        raise SpaceError(f"this is no ConfigSpace document: {type(error).__name__}: {error}") from error
    return Space(parameters, constraints)


def _parameter(name: str, body: Mapping[str, Any]) -> Parameter:
    kind = body["type"]
    if kind == "constant":
        return Choice([_plain(body["value"])])
    if kind in ("categorical", "ordinal"):
        weights = body.get("weights")
        if weights is not None and len({float(weight) for weight in weights}) > 1:
            raise NotRepresentableError(
                f"parameter {name!r}: its choices have weights, which have no place here; remove them"
            )
        values = [_plain(value) for value in body["sequence" if kind == "ordinal" else "choices"]]
        default = _plain(body["default_value"])
        if [type(value) for value in values] == [bool, bool] and values == [False, True]:
            return Flag(default=bool(default))
        return Choice(values, default=default)
    if kind in ("uniform_int", "uniform_float"):
        number = int if kind == "uniform_int" else float
        low, high, default = (number(body[part]) for part in ("lower", "upper", "default_value"))
        return Range(low, high, log=bool(body.get("log")), default=default)
    raise NotRepresentableError(
        f"parameter {name!r} is distributed as {kind}; only uniform numbers and lists have a place here"
    )


class _Expression:
    """Writes one condition or clause as an expression over slots, and knows which name each stands for."""

    def __init__(self, bodies: Mapping[str, Mapping[str, Any]]) -> None:
        self._bodies = bodies
        self._slots: dict[str, str] = {}

    def constraint(self, text: str) -> Constraint:
        """The constraint, called by what it says of the real names."""
        shown = text
        for name, slot in reversed(self._slots.items()):
            shown = shown.replace(slot, name)
        made = Constraint(text, shown)
        names = {slot: name for name, slot in self._slots.items()}
        return made.with_scope(tuple(names[slot] for slot in made.scope or ()))

    def condition(self, body: Mapping[str, Any]) -> str:
        """When a child is active."""
        kind = body["type"]
        if kind in ("AND", "OR"):
            return f" {kind.lower()} ".join(f"({self.condition(one)})" for one in body["conditions"])
        return self._clause(kind, str(body["parent"]), body)

    def forbidden(self, body: Mapping[str, Any]) -> str:
        """What may not be."""
        kind = body["type"]
        if kind in ("AND", "OR"):
            return f" {kind.lower()} ".join(f"({self.forbidden(one)})" for one in body["clauses"])
        if kind.startswith("RELATION_"):
            left, right = self._slot(str(body["left"])), self._slot(str(body["right"]))
            return f"{left} {_COMPARED[kind.removeprefix('RELATION_')]} {right}"
        kind = {"EQUALS": "EQ"}.get(kind, kind.removeprefix("CLAUSE_"))
        return self._clause(kind, str(body["name"]), body)

    def _clause(self, kind: str, name: str, body: Mapping[str, Any]) -> str:
        slot = self._slot(name)
        if kind == "IN":
            return f"{slot} in {tuple(_plain(value) for value in body['values'])!r}"
        value = _plain(body["value"])
        order = self._order(name)
        if kind in ("EQ", "NEQ") or order is None:
            return f"{slot} {_COMPARED[kind]} {value!r}"
        place = order.index(value)
        left = {"LT": order[:place], "LE": order[: place + 1], "GT": order[place + 1 :], "GE": order[place:]}
        return f"{slot} in {tuple(left[kind])!r}"

    def _order(self, name: str) -> Sequence[Any] | None:
        """The sequence of an ordinal: it is compared by place."""
        body = self._bodies[name]
        return [_plain(value) for value in body["sequence"]] if body["type"] == "ordinal" else None

    def _slot(self, name: str) -> str:
        return self._slots.setdefault(name, f"kw{len(self._slots)}_")


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python."""
    return value.item() if hasattr(value, "item") else value
