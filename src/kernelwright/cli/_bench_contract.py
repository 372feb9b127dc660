"""`kernelwright bench baseline.py`: anyone's kernel, checked and raced against what it replaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelwright.errors import UnknownNameError

_MODES = ("cold", "warm")
_GATES = ("bootstrap", "welch")


def bench_contract(
    fields: dict[str, Any],
    *,
    modes: Sequence[str],
    gate: str | None,
    budget: str,
    processes: int,
    threads: int | None,
    seed: int | None,
    quiet: bool,
) -> tuple[dict[str, Any], bool]:
    """Judge and show it; the JSON object, and whether the kernel passed and is not slower."""
    from kernelwright.cli._contract import contract_judge
    from kernelwright.cli._contract import contract_title
    from kernelwright.cli._judged import summary
    from kernelwright.cli._time import parse_seconds

    for mode in modes:
        if mode not in _MODES:
            raise UnknownNameError("mode", mode, (*_MODES, "both"))
    if gate is not None and gate not in _GATES:
        raise UnknownNameError("gate", gate, _GATES)
    seconds = parse_seconds(budget)
    with contract_judge(
        fields, seed=seed, threads=threads, budget_s=seconds, saying="checking and racing"
    ) as judge:
        verdict = judge.bench(modes, budget_s=seconds, processes=processes, gate=gate or "bootstrap")
    document = summary(verdict)
    if not quiet:
        from kernelwright.cli._verdict_view import make_console
        from kernelwright.cli._verdict_view import show_verdict

        show_verdict(make_console(), contract_title(fields), verdict)
    passed = verdict.status == "passed" and document["comparison"] != "slower"
    return document, passed
