"""What a clone promises: targets that need nothing before them, local hooks, torch pinned, a page of API."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import kernelwright as kw

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def planned(folder: Path, *targets: str) -> str:
    """The commands that make would run in a folder that holds this Makefile and nothing made yet."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (folder / name).write_text((ROOT / name).read_text())
    # `make test` runs this test: what it tells its own children must not reach this make.
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", "--dry-run", *targets], cwd=folder, env=outside, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("target", ["setup", "demo", "test", "lint", "bench"])
def test_every_target_sets_up_what_it_needs(tmp_path: Path, target: str) -> None:
    first, *_, last = planned(tmp_path, target).splitlines()
    assert first == "python3 -m venv .venv"
    assert "touch .venv/.installed" in planned(tmp_path, target)
    expected = {
        "setup": "touch .venv/.installed",
        "demo": ".venv/bin/kernelwright tune rms_norm --budget 60s",
        "test": ".venv/bin/pytest -q -m serial",
        "lint": ".venv/bin/pre-commit run --all-files",
        "bench": ".venv/bin/kernelwright bench rms_norm softmax silu_and_mul --against eager,compile",
    }
    assert last == expected[target]


def test_ci_runs_the_tests_and_then_the_linters(tmp_path: Path) -> None:
    """With a make that notes what it was asked, and fails where it is told to."""
    fake = tmp_path / "make"
    fake.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\ntest "$1" != "$FAILS"\n')
    fake.chmod(0o755)

    def run(fails: str) -> tuple[bool, list[str]]:
        (tmp_path / "asked").unlink(missing_ok=True)
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "FAILS": fails}
        done = subprocess.run([ROOT / ".ci" / "run"], env=environment, check=False)
        return done.returncode == 0, (tmp_path / "asked").read_text().split()

    assert run("") == (True, ["test", "lint"])
    assert run("test") == (False, ["test"])
    assert run("lint") == (False, ["test", "lint"])


def test_every_hook_is_local_and_runs_what_setup_installs() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text()

    def values(key: str) -> list[str]:
        return re.findall(rf"^[ -]*{key}: *(.+)$", text, re.MULTILINE)

    assert values("repo") == ["local"]
    assert set(values("id")) >= {"ruff-check", "ruff-format", "clang-format", "mypy", "import-linter"}
    assert len(values("id")) == len(values("entry")) == len(values("language"))
    assert set(values("language")) == {"system"}
    assert all(entry.startswith(".venv/bin/") for entry in values("entry"))
    assert PROJECT["tool"]["mypy"]["strict"] is True


def test_the_package_says_what_it_needs() -> None:
    project = PROJECT["project"]
    assert project["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert project["scripts"] == {"kernelwright": "kernelwright.cli:main"}
    assert {"disassembly", "test", "lint", "dev"} <= set(project["optional-dependencies"])
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/kernelwright"]
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line[:1] != "#"]
    assert "torch==2.13.0" in pins
    assert all(re.fullmatch(r"[a-z-]+==[\d.]+", pin) for pin in pins), "a constraint is one exact release"


def test_the_readme_has_both_commands_and_every_public_name() -> None:
    text = (ROOT / "README.md").read_text()
    assert "@@" not in text
    assert "$ kernelwright tune rms_norm" in text
    for command in ("make demo", "make test"):
        assert command in text
    page = text.partition("## The public API on one page")[2].partition("\n## ")[0]
    missing = [name for name in kw.__all__ if not re.search(rf"\bkw\.{name}\b", page)]
    assert missing == []


def test_contributing_says_how_to_add_each_kind_of_thing() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for thing in ("an operator", "an implementation", "a command"):
        assert f"## Add {thing}" in text
    assert (ROOT / "CHANGELOG.md").read_text().startswith("# Changelog")
