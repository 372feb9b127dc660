"""Templates: what a user gives to a search, and what the objective gets from it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from kernelwright.space._constraints import Configuration
from kernelwright.space._space import Space


class SearchSpace:
    """A flat dict of parameters, or a Space."""

    def __init__(self, template: Any) -> None:
        self.space = template if isinstance(template, Space) else Space(template)
        self.fingerprint = hashlib.sha256(repr(self.space).encode()).hexdigest()

    def config(self, configuration: Mapping[str, Any]) -> Any:
        return {name: value for name, value in configuration.items() if value is not None}

    def flat(self, config: Any) -> Configuration:
        return self.space.validate(config)

    def describe(self) -> dict[str, Any]:
        return {"space": repr(self.space)}
