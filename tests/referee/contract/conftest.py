"""Candidates written on the spot, and processes that run them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelwright.process import Template
from kernelwright.referee.contract._stage import Candidate
from kernelwright.referee.contract._stage import Deadlines
from kernelwright.referee.contract._stage import Performer

#: Short enough for a test of a hang, long enough for a busy machine.
DEADLINES = Deadlines(first_s=40.0, idle_s=6.0, call_s=40.0, batch_s=40.0)


@pytest.fixture
def perform(tmp_path: Path, template: Template) -> Iterator[Callable[..., Performer]]:
    """`perform(source, op)` writes a package `candidate` and gives a performer for it, not loaded yet.

    `source` is its `__init__.py`, or a dict of its files.
    """
    made: list[Performer] = []

    def perform(source: str | dict[str, str], op: str = "kernel", **options: Any) -> Performer:
        files = {"__init__.py": source} if isinstance(source, str) else source
        folder = tmp_path / f"path{len(made)}"
        for name, text in files.items():
            file = folder / "candidate" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text))
        given = {name: options.pop(name) for name in ("init", "init_seed", "state") if name in options}
        candidate = Candidate("candidate", op, path=(folder,), **given)
        options = {"template": template, "deadlines": DEADLINES, "board_bytes": 1 << 28, **options}
        made.append(Performer(candidate, **options))
        return made[-1]

    yield perform
    for performer in made:
        performer.close()


@pytest.fixture
def loaded(perform: Callable[..., Performer]) -> Callable[..., Performer]:
    """As `perform`, and loaded."""

    def loaded(*given: Any, **options: Any) -> Performer:
        performer = perform(*given, **options)
        performer.load(threads=1)
        return performer

    return loaded
