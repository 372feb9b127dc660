"""Templates: what a user gives to a search, and what the objective gets from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kernelwright import files
from kernelwright.errors import SpaceError
from kernelwright.space._constraints import Configuration
from kernelwright.space._constraints import Constraint
from kernelwright.space._constraints import ConstraintLike
from kernelwright.space._documents import describe_search_space
from kernelwright.space._documents import SCHEMA
from kernelwright.space._documents import search_space_from_plain
from kernelwright.space._documents import search_space_to_plain
from kernelwright.space._documents import VERSION
from kernelwright.space._nodes import ABSENT
from kernelwright.space._nodes import ConstantNode
from kernelwright.space._nodes import DictNode
from kernelwright.space._nodes import LeafNode
from kernelwright.space._nodes import ListNode
from kernelwright.space._nodes import Node
from kernelwright.space._nodes import PartNode
from kernelwright.space._nodes import Provider
from kernelwright.space._nodes import TextNode
from kernelwright.space._parameters import Parameter
from kernelwright.space._presence import Conditional
from kernelwright.space._presence import Part
from kernelwright.space._space import Space


class SearchSpace:
    """A template, compiled: the flat `space` that is searched, and what an objective gets of it, and back.

    A template is a dict of parameters, constants and further templates (nested dicts; `when` parts), a flat
    `Space`, a provider, or a list that mixes them. The objective gets a dict for a dict or Space, a string
    for a provider, and a list of the same length for a list. Flat names are those of a plain dict;
    `outer.inner` where nested, `0.tile` in a list. Names in a constraint or condition may leave out what is
    in front of a dot where only one parameter can be meant, and mean their own part first.

    What is absent (knocked out, or not active) is left out of a dict and is None in a list. Where everything
    is absent, the objective gets `{}`: the baseline.

    Raises SpaceError for what cannot be searched, naming the entry; all that `Space` raises.
    """

    def __init__(self, template: Any, constraints: Iterable[ConstraintLike] = ()) -> None:
        if isinstance(template, Parameter):
            raise SpaceError(f"a search space is a dict, a list or a provider; give {{'name': {template}}}")
        build = _Build()
        self.template = template
        self.root: Node = build.node(template, "", ())
        if not isinstance(self.root, DictNode | ListNode | TextNode):
            raise SpaceError(f"there is nothing to search in {template!r}; give a dict of parameters")
        names = build.parameters
        own = [one if isinstance(one, Constraint) else Constraint(one) for one in constraints]
        #: The flat space.
        self.space: Space = Space(
            {name: build.bound(name) for name in names},
            [*build.constraints, *(one.bound_to(names) for one in own)],
        )
        self._fingerprint: str | None = None

    def __repr__(self) -> str:
        return f"SearchSpace({self.template!r})"

    def config(self, configuration: Mapping[str, Any]) -> Any:
        """What the objective gets for a configuration of the flat space; fresh, and plain JSON."""
        if all(value is None for value in configuration.values()):
            return {}
        made = self.root.config(configuration)
        return {} if made is ABSENT else made

    def flat(self, config: Any) -> Configuration:
        """The flat configuration that `config` was made from.

        Raises UnknownNameError for an entry that is not in the template, SpaceError for one of the wrong form
        and for what the flat space does not allow.
        """
        found: Configuration = dict.fromkeys(self.space.parameters)
        if not (isinstance(config, Mapping) and not config):
            self.root.flat(config, found)
        return self.space.validate(found)

    @property
    def providers(self) -> dict[str, Provider]:
        """The providers in the template by where they are: `""` for the template itself, else as `1`."""
        return {
            node.prefix.rstrip("."): node.provider for node in self.root.walk() if isinstance(node, TextNode)
        }

    @property
    def fingerprint(self) -> str:
        """A hash of the definition: equal for equal definitions, in any process."""
        if self._fingerprint is None:
            text = json.dumps(self.describe(), sort_keys=True, separators=(",", ":"))
            self._fingerprint = hashlib.sha256(text.encode()).hexdigest()[:32]
        return self._fingerprint

    def describe(self) -> dict[str, Any]:
        """The definition as plain JSON, for people and fingerprints; callables by name and code.

        Never fails: unlike `to_json`, it need not be read back.
        """
        return describe_search_space(self.root, self.space)

    def to_json(self) -> dict[str, Any]:
        """The definition as plain JSON that `from_json` reads.

        Raises NotRepresentableError naming a constraint that is a callable, or a constant that is not plain.
        """
        return search_space_to_plain(self.root, self.space)

    @classmethod
    def from_json(
        cls, document: Mapping[str, Any], providers: Mapping[str, Provider] = MappingProxyType({})
    ) -> SearchSpace:
        """The search space that `to_json` wrote.

        No code comes from a document: a provider in it is looked up in `providers`, by where it was
        (`providers` of the original), and must offer the same space. Local search spaces are read back.
        Raises SpaceError saying what is wrong.
        """
        made = object.__new__(cls)
        made.root, made.space = search_space_from_plain(document, providers)
        made.template = made
        made._fingerprint = None
        return made

    def save(self, path: Path) -> None:
        """Write `to_json` to a file."""
        files.write_json(path, SCHEMA, VERSION, self.to_json())

    @classmethod
    def load(cls, path: Path, providers: Mapping[str, Provider] = MappingProxyType({})) -> SearchSpace:
        """Read what `save` wrote. Raises FileFormatError, and all that `from_json` raises."""
        return cls.from_json(files.read_json(path, SCHEMA, VERSION), providers)


class _Build:
    """Walks a template and gathers its flat parameters and constraints."""

    def __init__(self) -> None:
        self.parameters: dict[str, Parameter] = {}
        self.constraints: list[Constraint] = []
        self._conditions: dict[str, list[tuple[Constraint, str]]] = {}
        self._parts: list[tuple[PartNode, str]] = []

    def bound(self, name: str) -> Parameter:
        """The parameter under its conditions, with full names in them."""
        self._bind_parts()
        parameter = self.parameters[name]
        conditions = [one.bound_to(self.parameters, within) for one, within in self._conditions[name]]
        return Conditional(conditions, parameter) if conditions else parameter

    def node(self, template: Any, prefix: str, active: tuple[tuple[Constraint, str], ...]) -> Node:
        where = prefix.rstrip(".")
        if isinstance(template, Part):
            return self._part(template, prefix, active)
        if isinstance(template, Parameter):
            self._add(where, template, active)
            return LeafNode(where)
        if isinstance(template, SearchSpace):
            return self._searched(template, prefix, active)
        if isinstance(template, Space):
            names = self._flat(template, prefix, active)
            return DictNode(prefix, {name: LeafNode(prefix + name) for name in names})
        if isinstance(template, Mapping):
            return self._dict(template, prefix, active)
        if isinstance(template, list | tuple):
            return self._list(template, prefix, active)
        if isinstance(template, type):
            raise SpaceError(f"{where or 'the search space'}: give an instance, {template.__name__}()")
        if isinstance(template, Provider):
            return TextNode(prefix, template, self._flat(template.space(), prefix, active))
        return ConstantNode(where, template)

    def _part(self, part: Part, prefix: str, active: tuple[tuple[Constraint, str], ...]) -> Node:
        within = prefix[: prefix[:-1].rfind(".") + 1]
        made = PartNode(part.condition, self.node(part.template, prefix, (*active, (part.condition, within))))
        self._parts.append((made, within))
        return made

    def _bind_parts(self) -> None:
        for part, within in self._parts:
            part.condition = part.condition.bound_to(self.parameters, within)
        self._parts.clear()

    def _dict(
        self, template: Mapping[Any, Any], prefix: str, active: tuple[tuple[Constraint, str], ...]
    ) -> Node:
        entries = {}
        for name, inner in template.items():
            if not isinstance(name, str):
                raise SpaceError(
                    f"{prefix.rstrip('.') or 'the search space'}: the name {name!r} is no string"
                )
            entries[name] = self.node(inner, f"{prefix}{name}.", active)
        return DictNode(prefix, entries)

    def _list(
        self, template: list[Any] | tuple[Any, ...], prefix: str, active: tuple[tuple[Constraint, str], ...]
    ) -> Node:
        before = len(self.parameters)
        entries = [self.node(inner, f"{prefix}{index}.", active) for index, inner in enumerate(template)]
        if len(self.parameters) == before:
            raise SpaceError(
                f"{prefix.rstrip('.') or 'the search space'}: the list {list(template)!r} has nothing to "
                "search in it; write space.choice([...]) to choose one of its values"
            )
        return ListNode(prefix, entries)

    def _searched(
        self, template: SearchSpace, prefix: str, active: tuple[tuple[Constraint, str], ...]
    ) -> Node:
        return template.root.moved(prefix, self._flat(template.space, prefix, active))

    def _flat(self, space: Space, prefix: str, active: tuple[tuple[Constraint, str], ...]) -> list[str]:
        names = list(space.parameters)
        for name, parameter in space.parameters.items():
            moved = parameter
            if isinstance(parameter, Conditional):
                conditions = [one.moved_to(prefix, names) for one in parameter.conditions]
                moved = Conditional(conditions, parameter.inner)
            self._add(prefix + name, moved, active)
        self.constraints += [one.moved_to(prefix, names) for one in space.constraints]
        return names

    def _add(self, name: str, parameter: Parameter, active: tuple[tuple[Constraint, str], ...]) -> None:
        if name in self.parameters:
            raise SpaceError(f"two entries of the template are called {name!r}; rename one")
        within = name[: name.rfind(".") + 1]
        conditions = list(active)
        if isinstance(parameter, Conditional):
            conditions += [(one, within) for one in parameter.conditions]
            parameter = parameter.inner
        self.parameters[name] = parameter
        self._conditions[name] = conditions
