"""Why a call is served as it is, for a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelwright.dispatch import _registry
from kernelwright.dispatch._plan import make_plan


@dataclass(frozen=True)
class Explanation:
    """Who serves a call and why; `str()` of it is meant to be read.

    Attributes:
        operator: name of the operator.
        implementation: name of the implementation that serves the call.
        backend: its backend.
        because: what decided: `backend=`, a preference, `winner`, `rank` or `torch only`.
        configuration: the values of its tunables, empty if it has none.
        tier: the ISA tier of the code that runs, or None where that has no meaning.
        refusals: implementation → why it does not serve.
        notes: what else matters: winners that were ignored, what cannot be checked.
    """

    operator: str
    implementation: str
    backend: str
    because: str
    configuration: Mapping[str, Any]
    tier: str | None
    refusals: Mapping[str, str]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        tier = f", tier {self.tier}" if self.tier else ""
        lines = [f"{self.operator}: {self.implementation} (backend {self.backend}{tier}), by {self.because}"]
        if self.configuration:
            values = ", ".join(f"{name}={value}" for name, value in self.configuration.items())
            lines.append(f"  configuration: {values}")
        lines.extend(f"  not {name}: {reason}" for name, reason in self.refusals.items())
        lines.extend(f"  note: {note}" for note in self.notes)
        return "\n".join(lines)


def explain(name: str, *args: Any, out: Any = None, backend: str | None = None, **kwargs: Any) -> Explanation:
    """Who would serve `kernelwright.ops.<name>(*args, **kwargs)` here and now, and why nobody else.

    Runs nothing, but may build the kernel that the call would. Raises what the call would raise, and
    UnknownNameError for an operator that is not known.
    """
    _registry.connect()
    operator = _registry.find_operator(name)
    values, extra = operator.signature.bind(args, kwargs)
    plan = make_plan(operator, values, out, backend, extra)
    notes = plan.notes
    if plan.chosen.backend != "torch":
        notes = (*notes, "under torch.compile the torch implementation serves, so that the graph stays whole")
    return Explanation(
        operator=name,
        implementation=plan.chosen.name,
        backend=plan.chosen.backend,
        because=plan.because,
        configuration=plan.configuration,
        tier=plan.tier,
        refusals=dict(plan.refusals),
        notes=notes,
    )
