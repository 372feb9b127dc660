"""Judges of a `baseline.py` and a kernel, started so that waiting for torch overlaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.referee import ContractJudge


def contract_judge(
    fields: dict[str, Any], *, seed: int | None, threads: int | None, budget_s: float
) -> ContractJudge:
    """The judge of a target as `_target.contract_fields` gives it; a context manager."""
    from kernelwright.referee import ContractJudge
    from kernelwright.referee import ContractTarget

    return ContractJudge(
        ContractTarget(**fields), seed=seed, threads=threads, patience=None, budget_s=budget_s
    )


def contract_title(fields: dict[str, Any]) -> str:
    """What is compared, in one line."""
    op, package = fields["op"], fields["package"]
    name = op if op.split(".")[0] == package.split(".")[0] else f"{package}.{op}"
    baseline = Path(fields["baseline"])
    here = Path.cwd()
    shown = baseline.relative_to(here) if baseline.is_relative_to(here) else baseline
    return f"{name} against {shown}"
