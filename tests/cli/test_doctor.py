"""`kernelwright doctor` shows what is here, says what is missing, and measures what this machine can do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright import machine
from kernelwright import winners
from kernelwright.cli import _diagnosis
from kernelwright.cli import _probes
from kernelwright.cli._app import app
from kernelwright.machine import Ceiling
from kernelwright.machine import Ceilings

SRC = Path(__file__).parents[2] / "src"
WHEN = "2026-01-02T03:04:05+00:00"
BANDWIDTH = Ceiling("copy", 10e9, 9e9, 11e9, "B/s", 2, "avx2", WHEN, "DRAM", "nontemporal", 1)
FLOPS = Ceiling("flops", 5e11, 4e11, 6e11, "FLOP/s", 2, "avx2", WHEN, dtype="fp32", instruction="vfmadd")


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    for name in ("CACHE", "DATA", "RUNS"):
        monkeypatch.setenv(f"KERNELWRIGHT_{name}", str(tmp_path / name.lower()))
    monkeypatch.delenv("KERNELWRIGHT_TIER", raising=False)
    return tmp_path


@pytest.fixture
def doctor():
    def run(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["doctor", *arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.stdout

    return run


@pytest.fixture
def measured(monkeypatch):
    """Measurements that were asked for; each takes no time and finds two ceilings."""
    asked: list[float] = []

    def measure(*, deadline_s: float, say: object) -> _probes.Measurement:
        asked.append(deadline_s)
        facts = {"load_before": 0.0, "notes": ["L3: none"]}
        found = Ceilings(machine.fingerprint(), (BANDWIDTH, FLOPS), facts)
        return _probes.Measurement(found, ("L3: none",), 0)

    monkeypatch.setattr(_probes, "measure", measure)
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    return asked


@pytest.fixture
def no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)


def test_everything_is_shown(doctor):
    text = doctor("--no-measure")
    here = machine.current()
    wanted = [here.cpu.model.split()[0], machine.available_tiers()[-1], machine.fingerprint()]
    wanted += ["L1d", "memory", "NUMA", "OpenMP", "ninja", "torch", "Python.h", "GPU", "winners", "artifacts"]
    wanted += [machine.find_compiler().version, "Extras", "Ceilings", "not measured, as asked", "ready"]
    assert [word for word in wanted if word not in text] == []


def test_brief_is_a_few_lines(doctor):
    text = doctor("--brief", "--no-measure")
    assert len(text.strip().splitlines()) <= 6
    assert "ready" in text
    assert "ceilings have not been measured" in text


def test_json_holds_everything(doctor):
    facts = json.loads(doctor("--json", "--no-measure"))
    assert facts["able"] is True
    assert facts["machine"]["fingerprint"] == machine.fingerprint()
    assert facts["machine"]["tiers"] == list(machine.available_tiers())
    assert facts["compilers"][0]["kind"] in ("gcc", "clang")
    assert {check["name"] for check in facts["checks"]} >= {"C++ compiler", "torch", "ninja", "OpenMP"}
    assert facts["ceilings"] == []


def test_without_a_compiler_it_says_what_to_install_and_fails(doctor, no_compiler, measured):
    text = doctor(code=1)
    assert "apt install g++" in text.replace("\n", " ")
    assert "not ready" in text
    assert measured == []


def test_a_compiler_that_was_asked_for_and_is_not_there_is_named(doctor, monkeypatch):
    monkeypatch.setenv("CXX", "g++-99")
    facts = json.loads(doctor("--json", "--no-measure", code=1))
    (check,) = [check for check in facts["checks"] if check["name"] == "C++ compiler"]
    assert "'g++-99'" in check["remedy"]
    assert facts["able"] is False


def test_without_torch_it_fails_and_says_how_to_get_it(doctor, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # makes `import torch` raise
    text = doctor("--brief", "--no-measure", code=1)
    assert "missing torch" in text
    assert "pip install torch" in text


def test_a_compiler_without_openmp_is_found_out(monkeypatch, tmp_path):
    fake = tmp_path / "g++"
    fake.write_text(
        "#!/bin/sh\ncase $1 in\n--version) echo 'g++ 12.2.0'; echo 'Free Software Foundation';;\n"
        "-dumpmachine) echo here;;\n*) echo 'fatal error: omp.h: No such file' >&2; exit 1;;\nesac\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    check = _diagnosis.openmp()
    assert not check.ok
    assert "omp.h" in (check.remedy or "")


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    check = _diagnosis.writable("cache folder", tmp_path / "file" / "cache", "KERNELWRIGHT_CACHE")
    assert not check.ok
    assert "KERNELWRIGHT_CACHE" in (check.remedy or "")
    assert _diagnosis.writable("cache folder", tmp_path / "new" / "cache", "X").ok


def test_ceilings_are_measured_once_and_kept(doctor, measured):
    text = doctor()
    assert len(measured) == 1
    assert measured[0] < 15
    assert "vfmadd" in text
    assert "L3: none" in text
    assert "busy" not in text
    doctor()
    assert len(measured) == 1
    assert "10.0 GB/s" in doctor("--brief")
    doctor("--measure")
    assert len(measured) == 2


def test_what_was_measured_on_a_busy_machine_is_measured_again_when_it_is_idle(doctor, measured, monkeypatch):
    busy = Ceilings(machine.fingerprint(), (BANDWIDTH, FLOPS), {"load_before": 100.0})
    machine.store_ceilings(busy)
    assert "busy" in doctor("--no-measure")
    assert measured == []
    monkeypatch.setattr("os.getloadavg", lambda: (100.0, 1.0, 1.0))
    assert "busy" in doctor()
    assert measured == []
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 1.0, 1.0))
    assert "busy" not in doctor()
    assert len(measured) == 1


def test_stored_ceilings_are_shown_where_none_may_be_measured(doctor, measured):
    machine.store_ceilings(Ceilings(machine.fingerprint(), (BANDWIDTH, FLOPS), {}))
    assert len(json.loads(doctor("--json", "--no-measure"))["ceilings"]) == 2
    assert measured == []


def test_a_broken_file_of_ceilings_is_measured_again(doctor, measured, caplog):
    path = machine.store_ceilings(Ceilings(machine.fingerprint(), (BANDWIDTH,), {}))
    path.write_text("{")
    doctor()
    assert len(measured) == 1
    assert "kept as" in caplog.text
    assert machine.load_ceilings() is not None


def test_a_broken_file_of_winners_is_said(doctor, folders, caplog):
    path = folders / "data" / "winners" / f"rms_norm@{machine.fingerprint()}.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    doctor("--no-measure")
    assert f"{path.name} cannot be read" in caplog.text
    assert path.with_name(f"{path.name}.broken-1").exists()
    assert winners.all_records() == ()


def test_a_cap_on_the_tier_is_said(doctor, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_TIER", "generic")
    text = doctor("--no-measure").replace("\n", " ")
    if len(machine.supported_tiers(machine.current().cpu.features)) > 1:
        assert "capped by KERNELWRIGHT_TIER=generic" in text


def test_extras_are_read_from_the_package_and_said_how_to_get():
    versions = {"iced-x86": "1.21", "pytest": "8"}

    def version_of(name: str) -> str:
        if name not in versions:
            raise _diagnosis.importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    found = _diagnosis.extras(
        [
            "torch>=2.9",
            'iced-x86>=1.21; extra == "disassembly"',
            "kernelwright[disassembly]; extra == 'test'",
            "pytest>=8.2; extra == 'test'",
            "ray[default]>=2; python_version > '3.8' and extra == 'ray'",
        ],
        version_of,
    )
    assert [(one.name, one.installed) for one in found] == [
        ("disassembly", True),
        ("test", True),
        ("ray", False),
    ]
    assert found[1].distributions == (("iced-x86", "1.21"), ("pytest", "8"))
    assert found[2].command == "pip install 'kernelwright[ray]'"
