"""From a run to a pack that others can try: validated, reduced, explained, packed, verified, judged anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from kernelwright.cli._app import app
from kernelwright.controls import Controls
from kernelwright.controls import encode_controls
from kernelwright.controls import load_compiler_config
from kernelwright.controls import read_pack
from kernelwright.search import Evaluation
from kernelwright.search import Failure
from kernelwright.search import RunInfo
from kernelwright.search import Store

TOYS = Path(__file__).parent.parent / "controls"
TARGET = """
import sys
sys.path.insert(0, {toys!r})
from toy_target import Judged
target = Judged({folder!r}, parameters={parameters})
"""


def invoke(*words: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, words)))


def options(*words: str) -> str:
    return encode_controls(Controls("gcc", words))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def target_file(folder: Path, *, parameters: bool = True, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(TARGET.format(toys=str(TOYS), folder=str(folder), parameters=parameters))
    return path


def run_of(runs: Path, settings: dict[str, Any], *configs: Any) -> str:
    """A run whose best candidate is the first of these."""
    name = f"run-{len(configs)}"
    with Store(runs / name / "journal.sqlite", create=True) as store:
        store.begin(RunInfo(id=name, settings={"num_objectives": 1, "problem_type": "min", **settings}))
        for number, config in enumerate([*configs, None], start=1):
            failed = Failure("build_failed", "no") if config is None else None
            scores = None if config is None else (float(number),)
            one = Evaluation(number, {}, config, scores, failed)
            store.asked(name, one)
            store.told(name, one)
    return name


def controls_run(tmp_path: Path, runs: Path, *configs: Any) -> str:
    return run_of(runs, {"target": {"kind": "file", "target": str(target_file(tmp_path))}}, *configs)


FAST = [{"unroll": 2}, options("-funroll-loops", "-fipa-pta", "-ftree-vectorize")]
IDLE = [{}, options("-fipa-pta")]


def test_a_run_is_validated_reduced_explained_packed_and_tried(tmp_path: Path, runs: Path) -> None:
    run = controls_run(tmp_path, runs, FAST, IDLE)
    said = invoke("search", "validate", run)
    assert said.exit_code == 0, said.output
    lines = said.output.splitlines()
    assert lines[0] == "toy: 2 finalists against no controls"
    assert lines[1].startswith("#1     faster: 1.250 × [1.238, 1.262], p = ")
    assert lines[2].startswith("#2     same: 1.000 × [1.000, 1.000], the binary of baseline")
    assert (
        lines[3]
        == "1 settings change nothing in the binary; the win is kept without unroll, -ftree-vectorize"
    )
    assert lines[4].startswith("minimal faster: 1.250 ×")
    assert lines[5] == "1 settings keep the win: -funroll-loops"
    assert "  spill_stores  4 → 3" in lines
    assert "#1 is better than no controls: 1.250 × [1.238, 1.262], of 2 finalists" in lines

    packed = invoke("controls", "pack", "boost.zip", run)
    assert packed.exit_code == 0, packed.output
    assert packed.output.splitlines()[0] == "toy: gcc, 1.250 × [1.238, 1.262]"
    (entry,) = read_pack(tmp_path / "boost.zip")
    assert (entry.config, entry.parameters) == (options("-funroll-loops"), {})
    assert entry.provenance == {
        "source": "s" * 32,
        "compiler": "gcc 12.2.0 x86_64-linux-gnu",
        "architecture": "x86_64",
    }
    assert entry.evidence["run"] == run
    assert entry.evidence["evaluation"] == 1
    assert len(entry.evidence["machine"]) == 16

    whole = invoke("controls", "verify", "boost.zip")
    assert (whole.exit_code, whole.output.splitlines()[-1]) == (0, "whole")

    tried = invoke("controls", "try", "boost.zip", target_file(tmp_path, name="yours.py"), "--keep", "kept")
    assert tried.exit_code == 0, tried.output
    assert "kept     toy    faster: 1.250 × [1.238, 1.262]" in tried.output
    assert load_compiler_config(tmp_path / "kept" / "toy.controls") == entry.config
    (again,) = read_pack(tmp_path / "kept" / "kept.zip")
    assert again.evidence["tried_from"]["run"] == run


def test_no_improvement_is_said(tmp_path: Path, runs: Path) -> None:
    run = controls_run(tmp_path, runs, IDLE)
    said = invoke("search", "validate", run, "--json")
    assert said.exit_code == 1
    document = json.loads(said.output)
    assert (document["finalists"][0]["comparison"], document["minimized"]) == ("same", None)
    plain = invoke("search", "validate", run)
    assert "no improvement: none of 1 finalist is proven better than no controls" in plain.output
    refused = invoke("controls", "pack", "boost.zip", run)
    assert refused.exit_code == 2
    assert "nothing to pack: no improvement" in refused.output
    assert not (tmp_path / "boost.zip").exists()


def test_what_was_not_validated_is_not_packed(tmp_path: Path, runs: Path) -> None:
    run = controls_run(tmp_path, runs, FAST)
    said = invoke("controls", "pack", "boost.zip", run)
    assert said.exit_code == 2
    assert f"run {run} was not validated: `kernelwright search validate {run}` first" in said.output


def test_what_won_elsewhere_and_does_not_win_here_is_not_kept(tmp_path: Path, runs: Path) -> None:
    run = controls_run(tmp_path, runs, FAST)
    assert invoke("search", "validate", run, "--no-minimize").exit_code == 0
    assert invoke("controls", "pack", "boost.zip", run).exit_code == 0
    (entry,) = read_pack(tmp_path / "boost.zip")
    assert entry.parameters == {"unroll": 2}
    slow = tmp_path / "slow.py"
    slow.write_text(
        TARGET.format(toys=str(TOYS), folder=str(tmp_path), parameters=True) + "import toy_target\n"
        "class Other(Judged):\n"
        "    def measure(self, artifact): return 1.0\n"
        "    def provenance(self): return {'source': 'x', 'compiler': 'gcc 14', 'architecture': 'x86_64'}\n"
        f"target = Other({str(tmp_path)!r}, parameters=True)\n"
    )
    said = invoke("controls", "try", "boost.zip", slow, "--keep", "kept")
    assert said.exit_code == 1, said.output
    assert "not kept toy    same: 1.000" in said.output
    assert "it won with compiler gcc 12.2.0 x86_64-linux-gnu; here it is gcc 14" in said.output
    assert "no improvement: none of 1 is proven better on toy" in said.output
    assert not (tmp_path / "kept").exists()


def test_a_damaged_pack_is_not_tried(tmp_path: Path, runs: Path) -> None:
    run = controls_run(tmp_path, runs, FAST)
    invoke("search", "validate", run, "--no-minimize")
    invoke("controls", "pack", "boost.zip", run)
    data = bytearray((tmp_path / "boost.zip").read_bytes())
    data[60] ^= 1
    (tmp_path / "boost.zip").write_bytes(data)
    verified = invoke("controls", "verify", "boost.zip", "--json")
    assert verified.exit_code == 1
    assert json.loads(verified.output)["problems"][0]["kind"] == "changed"
    tried = invoke("controls", "try", "boost.zip", target_file(tmp_path))
    assert tried.exit_code == 2
    assert "is damaged: changed" in tried.output


OBJECTIVE = """
from kernelwright import space
search_space = {"tile": space.choice([8, 16, 32], default=8), "slack": space.choice([0, 1], default=0)}
def objective(config):
    return 1.0 if config == {} else 64.0 / config["tile"] + 0.01 * config["slack"]
"""


def test_any_objective_is_validated_in_fresh_processes(tmp_path: Path, runs: Path) -> None:
    path = tmp_path / "objective.py"
    path.write_text(OBJECTIVE)
    settings = {"objective": "objective", "objective_file": str(path)}
    run = run_of(runs, settings, {"tile": 32, "slack": 0}, {"tile": 8, "slack": 1})
    said = invoke("search", "validate", run)
    assert said.exit_code == 0, said.output
    assert "objective: 2 finalists against the space's default, 12 rounds" in said.output
    assert "#1     faster: 4.000 × [4.000, 4.000]" in said.output
    assert "#1 is better than the space's default: 4.000 ×" in said.output
    assert json.loads((runs / run / "validation.json").read_text())["run"] == run
    other = invoke("search", "validate", run, "--number", "2")
    assert other.exit_code == 1
    assert "no improvement" in other.output
    packed = invoke("controls", "pack", "boost.zip", run)
    assert packed.exit_code == 2
    assert "objective is no target of compiler controls" in packed.output
