"""`kernelwright build`: kernels compiled ahead of their first use, and what is said of those that do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner
from typer.testing import Result

from kernelwright import machine
from kernelwright.cli._app import app
from kernelwright.kernels.cpu import native_kernels

SECTION = """
[kernel.mine_{tier}]
backend = "cpu"
depends = []
src = ["mine.cpp"]
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's kernel with two tiers."""
    made = tmp_path / "mine"
    made.mkdir()
    general = '[general]\nname = "mine"\nbackends = ["cpu"]\n'
    (made / "build.toml").write_text(general + "".join(SECTION.format(tier=t) for t in ("generic", "avx2")))
    (made / "mine.cpp").write_text('extern "C" int mine() { return 1; }\n')
    return made


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["build", *words])


def test_the_artifact_that_serves_calls_is_built_and_then_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = native_kernels()["silu_and_mul"]
    first = run("silu_and_mul", "--json")
    assert first.exit_code == 0, first.output
    assert first.stderr == "building 1 of 1 artifacts\n"
    (made,) = json.loads(first.stdout)
    assert (made["section"], made["tier"]) == (f"silu_and_mul_{kernel.tier()}", kernel.tier())
    assert (made["status"], made["cached"]) == ("built", False)
    assert Path(made["library"]).exists()
    assert made["build_key"] == kernel.request(kernel.default).key
    monkeypatch.setenv("KERNELWRIGHT_BUILD", "never")
    assert kernel.available() is None, "dispatch does not find what the command built"

    second = run("silu_and_mul")
    assert second.exit_code == 0
    assert second.stderr == ""
    (row,) = [line for line in second.stdout.splitlines() if "silu_and_mul" in line]
    assert row.split()[-2:] == ["yes", made["build_key"][:12]]


def test_every_operator_is_built_when_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def build_many(requests: list[object], *, jobs: int | None) -> list[object]:
        asked.extend(requests)
        return []

    monkeypatch.setattr("kernelwright.build.build_many", build_many)
    monkeypatch.setattr("kernelwright.build.find", lambda request: None)
    monkeypatch.setattr("kernelwright.cli._build._print", lambda *_: None)
    assert run().exit_code == 0
    assert [one.section.name for one in asked] == [  # type: ignore[attr-defined]
        f"{name}_{kernel.tier()}" for name, kernel in native_kernels().items()
    ]
    asked.clear()
    assert run("softmax", "--all-tiers").exit_code == 0
    assert [one.tier for one in asked] == [tier.name for tier in machine.TIERS]  # type: ignore[attr-defined]
    asked.clear()
    assert run("softmax", "--tier", "generic").exit_code == 0
    assert [one.tier for one in asked] == ["generic"]  # type: ignore[attr-defined]


def test_a_users_folder_is_built_section_by_section(folder: Path) -> None:
    result = run(str(folder), "--json")
    assert result.exit_code == 0, result.output
    assert [made["tier"] for made in json.loads(result.stdout)] == ["generic", "avx2"]
    result = run(str(folder / "build.toml"), "--tier", "avx2", "--json")
    (made,) = json.loads(result.stdout)
    assert (made["section"], made["cached"]) == ("mine_avx2", True)


def test_what_does_not_build_is_said_and_the_rest_is_built(folder: Path) -> None:
    (folder / "broken.cpp").write_text("#error on purpose\n")
    text = (folder / "build.toml").read_text()
    (folder / "build.toml").write_text(text + SECTION.format(tier="avx512").replace("mine.cpp", "broken.cpp"))
    result = run(str(folder))
    assert result.exit_code == 1
    rows = {line.split()[0]: line for line in result.stdout.splitlines() if line.startswith("mine")}
    assert rows["mine_generic"].split()[-2] == rows["mine_avx2"].split()[-2] == "no"
    assert "build failed" in rows["mine_avx512"]
    assert "#error on purpose" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sofmax"], "unknown operator 'sofmax'; did you mean 'softmax'?"),
        (["--tier", "avx3"], "unknown ISA tier 'avx3'; did you mean 'avx2'"),
        (["--tier", "avx2", "--all-tiers"], "leave one out"),
        (["./nowhere"], "nowhere: no build.toml is there"),
    ],
)
def test_bad_words_get_the_nearest_good_ones(words: list[str], said: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_a_tier_that_the_folder_has_not_is_said(folder: Path) -> None:
    result = run(str(folder), "--tier", "avx512")
    assert result.exit_code == 2
    assert "no cpu section of tier avx512; its sections: mine_generic, mine_avx2" in result.stderr


def test_without_a_compiler_it_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    result = run(str(folder))
    assert result.exit_code == 2
    assert "apt install g++" in result.stderr
