"""Search spaces as plain JSON: the flat space, and the form in which an objective gets it."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import Final

from kernelwright.errors import NotRepresentableError
from kernelwright.errors import SpaceError
from kernelwright.space._constraints import Constraint
from kernelwright.space._local import LocalSearchSpace
from kernelwright.space._nodes import ConstantNode
from kernelwright.space._nodes import DictNode
from kernelwright.space._nodes import LeafNode
from kernelwright.space._nodes import ListNode
from kernelwright.space._nodes import Node
from kernelwright.space._nodes import PartNode
from kernelwright.space._nodes import Pinned
from kernelwright.space._nodes import Provider
from kernelwright.space._nodes import TextNode
from kernelwright.space._plain import constraint_from_plain
from kernelwright.space._plain import constraint_to_plain
from kernelwright.space._plain import describe_constraint
from kernelwright.space._plain import describe_space
from kernelwright.space._plain import space_from_plain
from kernelwright.space._plain import space_to_plain
from kernelwright.space._space import Space

#: The schema of files that hold a search space.
SCHEMA: Final = "kernelwright.search_space"
VERSION: Final = 1


def describe_search_space(root: Node, space: Space) -> dict[str, Any]:
    """As plain JSON, for people and fingerprints; callables by name and code, odd constants by type."""
    return {"template": _node(root, describe_constraint, _any_constant), "space": describe_space(space)}


def search_space_to_plain(root: Node, space: Space) -> dict[str, Any]:
    """As plain JSON that can be read back. Raises NotRepresentableError for what cannot."""
    return {"template": _node(root, constraint_to_plain, _plain_constant), "space": space_to_plain(space)}


def search_space_from_plain(
    document: Mapping[str, Any], providers: Mapping[str, Provider]
) -> tuple[Node, Space]:
    """The nodes and the flat space that `search_space_to_plain` wrote. Raises SpaceError."""
    try:
        space = space_from_plain(document["space"])
        return _read(document["template"], "", providers, space), space
    except (AttributeError, KeyError, TypeError) as error:
        raise SpaceError(f"the search space cannot be read: {type(error).__name__}: {error}") from error


def _node(
    node: Node,
    constraint: Callable[[Constraint], dict[str, Any]],
    constant: Callable[[ConstantNode], dict[str, Any]],
) -> dict[str, Any]:
    if isinstance(node, LeafNode):
        return {"parameter": node.name}
    if isinstance(node, ConstantNode):
        return constant(node)
    if isinstance(node, PartNode):
        return {"when": constraint(node.condition), "part": _node(node.inner, constraint, constant)}
    if isinstance(node, DictNode):
        return {"dict": {name: _node(inner, constraint, constant) for name, inner in node.entries.items()}}
    if isinstance(node, ListNode):
        return {"list": [_node(inner, constraint, constant) for inner in node.entries]}
    assert isinstance(node, TextNode)
    kind = type(node.provider)
    text: dict[str, Any] = {"provider": f"{kind.__module__}.{kind.__qualname__}", "names": list(node.names)}
    if isinstance(node.provider, Pinned):
        text["pin"] = node.provider.pin()
    if isinstance(node.provider, LocalSearchSpace):
        text["local"] = {"name": node.provider.name, **space_to_plain(node.provider.space())}
    return text


def _plain_constant(node: ConstantNode) -> dict[str, Any]:
    if isinstance(node.value, int | float | str | bool | None):
        return {"constant": node.value}
    raise NotRepresentableError(
        f"the constant {node.where!r} is a {type(node.value).__name__}, which JSON cannot hold; leave it out "
        "of the template"
    )


def _any_constant(node: ConstantNode) -> dict[str, Any]:
    if isinstance(node.value, int | float | str | bool | None):
        return {"constant": node.value}
    return {"constant_of": f"{type(node.value).__module__}.{type(node.value).__qualname__}"}


def _read(plain: Mapping[str, Any], prefix: str, providers: Mapping[str, Provider], space: Space) -> Node:
    if "parameter" in plain:
        if plain["parameter"] not in space.parameters:
            raise SpaceError(f"the search space cannot be read: no parameter {plain['parameter']!r}")
        return LeafNode(plain["parameter"])
    if "constant" in plain:
        return ConstantNode(prefix.rstrip("."), plain["constant"])
    if "when" in plain:
        inner = _read(plain["part"], prefix, providers, space)
        return PartNode(constraint_from_plain(plain["when"]), inner)
    if "dict" in plain:
        entries = plain["dict"].items()
        return DictNode(
            prefix, {name: _read(inner, f"{prefix}{name}.", providers, space) for name, inner in entries}
        )
    if "list" in plain:
        inners = enumerate(plain["list"])
        return ListNode(prefix, [_read(inner, f"{prefix}{at}.", providers, space) for at, inner in inners])
    return TextNode(prefix, _provider(plain, prefix.rstrip("."), providers), list(plain["names"]))


def _provider(plain: Mapping[str, Any], where: str, providers: Mapping[str, Provider]) -> Provider:
    if where in providers:
        names = list(providers[where].space().parameters)
        if names != list(plain["names"]):
            raise SpaceError(f"the provider for {where!r} offers {names}, not {plain['names']}")
        offered = providers[where]
        pin = offered.pin() if isinstance(offered, Pinned) else None
        if pin != plain.get("pin"):
            raise SpaceError(f"the provider for {where!r} is of {pin}, and it was of {plain.get('pin')}")
        return providers[where]
    if "local" in plain:
        return LocalSearchSpace.of(space_from_plain(plain["local"]), plain["local"]["name"])
    raise SpaceError(
        f"the search space needs its provider {plain['provider']} for {where!r}: pass providers="
        f"{{{where!r}: {plain['provider'].rpartition('.')[2]}()}}"
    )
