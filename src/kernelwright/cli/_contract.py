"""Judges of a `baseline.py` and a kernel, started so that both processes that need torch load it at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.referee import ContractJudge


@contextlib.contextmanager
def contract_judge(
    fields: dict[str, Any], *, seed: int | None, threads: int | None, budget_s: float, saying: str
) -> Iterator[ContractJudge]:
    """The judge of a target as `_target.contract_fields` gives it; `saying` is what it is doing meanwhile.

    The process that performers are forked from is started first: it imports torch while this one does.
    """
    from kernelwright.process import Template

    with contextlib.ExitStack() as stack:
        template = stack.enter_context(Template(["torch"]))
        from kernelwright.cli._verdict_view import make_console

        stack.enter_context(make_console(stderr=True).status(saying))
        from kernelwright.referee import ContractJudge
        from kernelwright.referee import ContractTarget

        target = ContractTarget(**fields)
        with ContractJudge(target, seed=seed, threads=threads, budget_s=budget_s, template=template) as judge:
            yield judge


def contract_title(fields: dict[str, Any]) -> str:
    """What is compared, in one line."""
    op, package = fields["op"], fields["package"]
    name = op if op.split(".")[0] == package.split(".")[0] else f"{package}.{op}"
    baseline = Path(fields["baseline"])
    here = Path.cwd()
    shown = baseline.relative_to(here) if baseline.is_relative_to(here) else baseline
    return f"{name} against {shown}"
