"""The code in the guide to searching does what the guide says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kernelwright.search import MultiProcessWorker
from kernelwright.search import Search
from kernelwright.search._remedies import REMEDIES

GUIDE = (Path(__file__).parents[2] / "docs" / "search.md").read_text()


def test_the_blocks_of_the_guide_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    # A warm pool evaluates the same as a process each, faster.
    monkeypatch.setattr(Search.__init__, "__defaults__", _with_pool())
    names: dict[str, Any] = {"__name__": "guide_to_searching"}
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 9
    for block in blocks:
        exec(compile(block, "docs/search.md", "exec"), names)


def _with_pool() -> tuple[Any, ...]:
    """The defaults of Search, with another worker."""
    from kernelwright.search import IsoMultiProcessWorker

    defaults = Search.__init__.__defaults__ or ()
    return tuple(MultiProcessWorker if one is IsoMultiProcessWorker else one for one in defaults)


def test_every_kind_of_failure_in_the_guide_has_a_remedy() -> None:
    table = GUIDE.partition("| kind | what happened |")[2].partition("\n\n")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
    kinds = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert len(kinds) == 11
    assert kinds <= set(REMEDIES)
