"""Files that a verdict stands on are the same afterwards, or there is no verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

import kernelwright
from kernelwright.referee.contract import _integrity


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("__init__.py", "judge.py", "driver.cpp", "notes.txt"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(kernelwright, "__file__", str(tmp_path / "__init__.py"))
    return tmp_path


def seen(harness: Path) -> dict[Path, str]:
    return _integrity.fingerprint(harness / "baseline.py")


def test_nothing_changed(harness: Path) -> None:
    assert _integrity.changed(seen(harness), seen(harness)) == []


def test_a_changed_a_new_and_a_missing_file_are_named(harness: Path) -> None:
    before = seen(harness)
    (harness / "judge.py").write_text("passed = True")
    (harness / "added.py").write_text("")
    (harness / "driver.cpp").unlink()
    (harness / "baseline.py").write_text("def get_inputs(): ...")
    found = _integrity.changed(before, seen(harness))
    assert [path.name for path in found] == ["added.py", "baseline.py", "driver.cpp", "judge.py"]


def test_what_is_no_code_does_not_count(harness: Path) -> None:
    before = seen(harness)
    (harness / "notes.txt").write_text("other")
    assert _integrity.changed(before, seen(harness)) == []


def test_the_real_harness_and_the_reference_are_covered(tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.py"
    baseline.write_text("")
    found = _integrity.fingerprint(baseline)
    assert baseline in found
    assert Path(_integrity.__file__) in found
    assert Path(kernelwright.__file__).parent / "referee" / "native" / "race.cpp" in found
