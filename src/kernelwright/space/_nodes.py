"""Nodes: a compiled template, that turns flat configurations into what an objective gets, and back."""

from __future__ import annotations

from abc import ABC
from abc import abstractmethod
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Final
from typing import Protocol
from typing import runtime_checkable

from kernelwright.errors import SpaceError
from kernelwright.errors import UnknownNameError
from kernelwright.space._constraints import Configuration
from kernelwright.space._constraints import Constraint
from kernelwright.space._space import Space


@runtime_checkable
class Provider(Protocol):
    """A source of a search space whose configurations reach the objective as text: a compiler's options.

    `parse` undoes `render`; both mind the provider's own flat space.
    """

    def space(self) -> Space:
        """The provider's flat space; the same each time."""
        ...

    def render(self, configuration: Configuration) -> str:
        """What the objective gets: a hex string."""
        ...

    def parse(self, text: str) -> Configuration:
        """The configuration that renders as `text`. Raises SpaceError where there is none."""
        ...


@runtime_checkable
class Pinned(Protocol):
    """A provider whose configurations mean what they do for one version of something: of a compiler."""

    def pin(self) -> dict[str, Any]:
        """What that is, as plain JSON; part of the search space's definition."""
        ...


class Absent:
    """Stands for an entry that is left out."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = Absent()


class Node(ABC):
    """One entry of a compiled template."""

    @abstractmethod
    def moved(self, prefix: str, names: Sequence[str]) -> Node:
        """The same entry in a larger template, where the flat space of `names` gets `prefix`."""

    @abstractmethod
    def config(self, configuration: Mapping[str, Any]) -> Any:
        """What the objective gets for this entry, or `ABSENT`."""

    @abstractmethod
    def flat(self, config: Any, into: Configuration) -> None:
        """Write the flat values that `config` was made from."""

    def walk(self) -> Iterable[Node]:
        """All entries without entries of their own."""
        yield self


class LeafNode(Node):
    def __init__(self, name: str) -> None:
        self.name = name

    def moved(self, prefix: str, names: Sequence[str]) -> Node:
        return LeafNode(prefix + self.name)

    def config(self, configuration: Mapping[str, Any]) -> Any:
        value = configuration[self.name]
        if value is None:
            return ABSENT
        return list(value) if isinstance(value, tuple) else value

    def flat(self, config: Any, into: Configuration) -> None:
        into[self.name] = tuple(config) if isinstance(config, list) else config


class ConstantNode(Node):
    def __init__(self, where: str, value: Any) -> None:
        self.where, self.value = where, value

    def moved(self, prefix: str, names: Sequence[str]) -> Node:
        return ConstantNode(prefix + self.where, self.value)

    def config(self, configuration: Mapping[str, Any]) -> Any:
        return self.value

    def flat(self, config: Any, into: Configuration) -> None:
        # Not `!=`: a constant may be anything, an array too.
        if config is not self.value and repr(config) != repr(self.value):
            raise SpaceError(f"the constant {self.where!r} is {self.value!r}, not {config!r}")


class PartNode(Node):
    """A part that is there only where its condition holds."""

    def __init__(self, condition: Constraint, inner: Node) -> None:
        self.condition, self.inner = condition, inner

    def moved(self, prefix: str, names: Sequence[str]) -> Node:
        return PartNode(self.condition.moved_to(prefix, names), self.inner.moved(prefix, names))

    def config(self, configuration: Mapping[str, Any]) -> Any:
        if not self.condition.is_met_by_present(configuration):
            return ABSENT
        return self.inner.config(configuration)

    def flat(self, config: Any, into: Configuration) -> None:
        self.inner.flat(config, into)

    def walk(self) -> Iterable[Node]:
        yield from self.inner.walk()


class DictNode(Node):
    def __init__(self, prefix: str, entries: dict[str, Node]) -> None:
        self.prefix, self.entries = prefix, entries

    def moved(self, prefix: str, names: Sequence[str]) -> Node:
        entries = {name: node.moved(prefix, names) for name, node in self.entries.items()}
        return DictNode(prefix + self.prefix, entries)

    def config(self, configuration: Mapping[str, Any]) -> Any:
        made = {}
        for name, node in self.entries.items():
            value = node.config(configuration)
            if value is not ABSENT:
                made[name] = value
        return made

    def flat(self, config: Any, into: Configuration) -> None:
        if not isinstance(config, Mapping):
            where = self.prefix.rstrip(".") or "the configuration"
            raise SpaceError(f"{where} must be a dict, got {config!r}")
        for name, value in config.items():
            if name not in self.entries:
                raise UnknownNameError("parameter", f"{self.prefix}{name}", self._known())
            self.entries[name].flat(value, into)

    def walk(self) -> Iterable[Node]:
        for node in self.entries.values():
            yield from node.walk()

    def _known(self) -> list[str]:
        return [f"{self.prefix}{name}" for name in self.entries]


class ListNode(Node):
    def __init__(self, prefix: str, entries: list[Node]) -> None:
        self.prefix, self.entries = prefix, entries

    def moved(self, prefix: str, names: Sequence[str]) -> Node:
        return ListNode(prefix + self.prefix, [node.moved(prefix, names) for node in self.entries])

    def config(self, configuration: Mapping[str, Any]) -> Any:
        made = [node.config(configuration) for node in self.entries]
        return [None if value is ABSENT else value for value in made]

    def flat(self, config: Any, into: Configuration) -> None:
        where = self.prefix.rstrip(".") or "the configuration"
        if not isinstance(config, list | tuple) or len(config) != len(self.entries):
            raise SpaceError(f"{where} must be a list of {len(self.entries)}, got {config!r}")
        for node, value in zip(self.entries, config, strict=True):
            if value is not None or isinstance(node, ConstantNode):
                node.flat(value, into)

    def walk(self) -> Iterable[Node]:
        for node in self.entries:
            yield from node.walk()


class TextNode(Node):
    def __init__(self, prefix: str, provider: Provider, names: list[str]) -> None:
        self.prefix, self.provider, self.names = prefix, provider, names

    def moved(self, prefix: str, names: Sequence[str]) -> Node:
        return TextNode(prefix + self.prefix, self.provider, self.names)

    def config(self, configuration: Mapping[str, Any]) -> Any:
        return self.provider.render({name: configuration[self.prefix + name] for name in self.names})

    def flat(self, config: Any, into: Configuration) -> None:
        if not isinstance(config, str):
            where = self.prefix.rstrip(".") or "the configuration"
            raise SpaceError(f"{where} must be the text of {type(self.provider).__name__}, got {config!r}")
        for name, value in self.provider.parse(config).items():
            into[self.prefix + name] = value
