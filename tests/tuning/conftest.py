"""Every test of a run has its own folders for runs, winners and artifacts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from standin import StandIn


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("KERNELWRIGHT_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def standin() -> StandIn:
    return StandIn()
