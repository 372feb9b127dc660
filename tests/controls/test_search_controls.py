"""A search over controls: canary first, builds ahead of the one lane, counts, and a run that stands alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kernelwright.controls import ahead_of
from kernelwright.controls import ControlsObjective
from kernelwright.controls import Counts
from kernelwright.controls import load_target
from kernelwright.controls import precompiling_worker
from kernelwright.controls import search_controls
from kernelwright.controls import target_from
from kernelwright.errors import UsageError
from kernelwright.search import read_run
from kernelwright.search import SearchConfiguration
from kernelwright.search import SearchResult
from kernelwright.search import SerialWorker
from kernelwright.search import Task

sys.path.append(str(Path(__file__).parent))
from planted_targets import PlantedTarget
from planted_targets import SPILLS
from planted_targets import WRONG

SETUP = SearchConfiguration(normalize=True, max_evaluations=30, seed=1, optimizer="random")


def test_the_canary_comes_first_and_the_run_says_what_was_searched(tmp_path: Path) -> None:
    heard = []
    target = PlantedTarget(tmp_path, parameters=True)
    outcome = search_controls(
        target,
        constraints=["spill_stores == 0"],
        search_config=SETUP,
        worker_type=SerialWorker,
        task_timeout=None,
        on_canary=heard.append,
        store=tmp_path / "store.sqlite",
        disable_progress_bar=True,
    )
    assert heard == [outcome.canary]
    counts = outcome.counts
    assert counts.evaluations == 30
    assert counts.distinct < counts.built <= 30
    assert counts.reused > 0
    assert set(counts.failures) <= {"wrong", "pruned", "compiler_crashed"}
    best = outcome.result.ranked[0]
    assert best.normalised[0] == pytest.approx(1.0), "what is fast here is wrong or spills: no improvement"
    for text in (WRONG, SPILLS):
        assert text not in str(bytes.fromhex(best.params[1] or ""))

    run = read_run(tmp_path / "store.sqlite")
    kept = run.info.settings["target"]
    assert kept == {"kind": "planted", "target": "", "constraints": ["spill_stores == 0"]}
    assert run.info.space["fingerprint"]
    again = SearchResult.from_journal(tmp_path / "store.sqlite")
    assert Counts.of([*again.baselines, *again.evaluations]) == counts, "the journal alone is enough"


@pytest.mark.serial
def test_several_are_built_at_once_and_one_is_measured_alone(tmp_path: Path) -> None:
    target = PlantedTarget(tmp_path, wait_s=0.1)
    objective = ControlsObjective(target)
    levels = [{}, *(target.provider.level(name) for name in ("lowest", "highest"))]
    with precompiling_worker(target)(objective, num_workers=3) as worker:
        for number, config in enumerate(levels):
            worker.submit(Task(number, config))
        found = []
        while worker.pending:
            found += worker.results(60.0)
    assert all(one.failure is None for one in found)
    spans = [line.split() for line in (tmp_path / "stages.txt").read_text().splitlines()]
    rows = sorted((float(begin), float(end), stage) for stage, begin, end, _ in spans)
    together = {
        tuple(sorted((one[2], other[2])))
        for place, one in enumerate(rows)
        for other in rows[place + 1 :]
        if other[0] < one[1]
    }
    assert together == {("build", "build")}
    assert sum(row[2] == "measure" for row in rows) == 2, "two of the three are the same code"


def test_how_many_are_built_ahead(tmp_path: Path) -> None:
    target = PlantedTarget(tmp_path)
    assert 2 <= ahead_of(target) <= 4
    target.ahead = 7
    assert ahead_of(target) == 7


TARGET_FILE = f"""
import sys
sys.path.append({str(Path(__file__).parent)!r})
from pathlib import Path
from planted_targets import PlantedTarget

def make_target():
    return PlantedTarget(Path(__file__).parent, "FAULT")
"""


def test_a_file_may_define_the_target(tmp_path: Path) -> None:
    path = tmp_path / "my_target.py"
    path.write_text(TARGET_FILE.replace("FAULT", ""))
    assert load_target(path).name == "planted sound"
    assert target_from({"kind": "file", "target": str(path)}).name == "planted sound"
    for text, said in (
        ("x = 1", "module-level `target`"),
        ("target = 3", "defines 3"),
        ("raise ValueError('no compiler')", "ValueError: no compiler"),
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match=said):
            load_target(path)
    with pytest.raises(UsageError, match="there is no file"):
        load_target(tmp_path / "absent.py")
