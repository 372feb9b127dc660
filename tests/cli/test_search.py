"""The command `search`, end to end on objective files: run, kill, resume, look, minimize, export, plot."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner
from typer.testing import Result

from kernelwright.cli import _app
from kernelwright.search import SearchResult

COMMAND = [sys.executable, "-m", "kernelwright", "search"]

ONE = """
from kernelwright import space
from kernelwright.search import SearchConfiguration

search_space = {
    "tile": space.choice([16, 32, 64, 128, 256]),
    "unroll": space.range(1, 8),
    "mode": space.choice(["a", "b", "c"]),
    "fast": space.flag(),
}
search_config = SearchConfiguration(max_evaluations=40, seed=1, optimizer="random")

def objective(config):
    if config["tile"] == 256 and config["unroll"] > 4:
        raise RuntimeError("too many registers")
    return abs(config["tile"] - 64) / 16 + abs(config["unroll"] - 4) + (0 if config["fast"] else 2) + 5
"""

TWO = """
from kernelwright import space

search_space = {"x": space.range(0, 30), "y": space.range(0, 30)}
search_config = {"num_objectives": 2, "max_evaluations": 30, "seed": 2}
worker_type = "pool"

def objective_function(config):
    return config["x"] + 0.1 * config["y"], (config["x"] - 20) ** 2 + config["y"]
"""

SLOW = """
import os, pathlib, time
from kernelwright import space

search_space = {"x": space.range(0, 60)}
search_config = {"max_evaluations": 12, "seed": 3, "optimizer": "random"}

def objective(config):
    file = pathlib.Path(__file__)
    with open(file.with_suffix(".log"), "a+") as log:
        log.write(f"{config['x']}\\n")
        log.seek(0)
        begun = len(log.readlines())
    while begun >= 4 and not file.with_name("go").exists():
        time.sleep(0.01)
    return float(config["x"])
"""


@pytest.fixture(autouse=True, scope="module")
def _import_path() -> Iterator[None]:
    """Objective files put their folder on the path, in this process as in the command's."""
    before = list(sys.path)
    yield
    sys.path[:] = before


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(_app.app, ["search", *map(str, arguments)], env={"COLUMNS": "200"})


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Result]]:
    """A folder with a finished run in it, and what the command said."""
    folder = tmp_path_factory.mktemp("one")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELWRIGHT_RUNS", str(folder / "runs"))
        file = written(folder, "one_objective", ONE)
        yield folder, invoke("run", file)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The store of a finished run with two objectives."""
    folder = tmp_path_factory.mktemp("two")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELWRIGHT_RUNS", str(folder / "runs"))
        ended = invoke("run", written(folder, "two_objective", TWO), "--store", folder / "store.sqlite")
        assert ended.exit_code == 0, ended.output
        yield folder / "store.sqlite"


def test_run_prints_the_best_the_failures_and_where_it_is_kept(done: tuple[Path, Result]) -> None:
    folder, said = done
    assert said.exit_code == 0, said.output
    result = SearchResult.from_journal(next((folder / "runs").glob("*/journal.sqlite")))
    assert len(result) == 40
    best = result.best()
    assert re.search(rf"^ *{best.number} +{best.scores[0]:g} ", said.stdout, re.MULTILINE)  # type: ignore[index]
    assert f"tile={best.configuration['tile']}" in said.stdout
    assert f"{len(result.failed)} raised" in said.stdout
    assert f"stored in {folder}" in said.stdout
    assert "finished" in said.stdout
    assert "\x1b" not in said.output


def test_options_go_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(tmp_path / "runs"))
    file = written(tmp_path, "options_objective", ONE)
    words = "--max-evaluations 8 --seed 9 --problem-type max --worker-type pool -j 2 --json"
    said = invoke("run", file, *words.split(), "--dump-results", tmp_path / "out.csv")
    assert said.exit_code == 0, said.output
    told = json.loads(said.stdout)
    assert told["evaluations"] == 8
    assert told["settings"]["seed"] == 9
    assert told["settings"]["problem_type"] == "max"
    scores = [one["score"] for one in told["top"]]
    assert scores == sorted(scores, reverse=True)
    assert told["best"]["score"] == scores[0]
    assert told["finished"] is True
    assert len(list(csv.DictReader((tmp_path / "out.csv").open()))) == 8


def test_show_finds_the_run_by_its_id_its_folder_and_as_the_latest(done: tuple[Path, Result]) -> None:
    folder, _ = done
    (run,) = (folder / "runs").iterdir()
    texts = {invoke("show", *which).stdout for which in ((), ("latest",), (run.name,), (run,))}
    assert len(texts) == 1
    assert run.name in texts.pop()
    told = json.loads(invoke("show", run.name, "--top", "3", "--json").stdout)
    assert len(told["top"]) == 3
    assert told["run"] == run.name
    assert run.name in invoke("show", "--runs").stdout
    assert json.loads(invoke("show", "--runs", "--json").stdout)[0]["id"] == run.name


def test_show_has_all_of_one_evaluation_and_the_failures(done: tuple[Path, Result]) -> None:
    told = json.loads(invoke("show", "--failures", "--json").stdout)
    assert told
    number = told[0]["metadata"]["evaluation"]["number"]
    text = invoke("show", "--number", str(number)).stdout
    assert "raised: " in text
    assert "too many registers" in text
    text = invoke("show", "--failures", "--top", "1").stdout
    assert f"#{number} raised: tile=256" in text
    assert f"and {len(told) - 1} more" in text
    missing = invoke("show", "--number", "999")
    assert missing.exit_code == 2
    assert "unknown evaluation '999'" in missing.output


def test_hundreds_of_settings_are_not_all_printed(tmp_path: Path) -> None:
    params = ", ".join(f'""s{n}"": {n}' for n in range(200))
    (tmp_path / "wide.csv").write_text(f'generation,score_1,params\n0,1.0,"{{{params}}}"\n')
    text = invoke("show", tmp_path / "wide.csv").stdout
    assert "… and 188 more" in text
    assert len(text.splitlines()) < 8
    assert "s199=199" in invoke("show", tmp_path / "wide.csv", "--number", "1").stdout


def test_what_is_not_there_is_named_with_what_is(done: tuple[Path, Result], tmp_path: Path) -> None:
    (run,) = (done[0] / "runs").iterdir()
    for said in (invoke("show", "nothing"), invoke("resume", "nothing"), invoke("plot", "nothing")):
        assert said.exit_code == 2
        assert "unknown search run" in said.output
        assert run.name in said.output
    assert "there is no store" in invoke("show", "--store", tmp_path / "none").output


def test_diagnose_says_what_and_what_to_do(done: tuple[Path, Result]) -> None:
    said = invoke("diagnose")
    assert said.exit_code == 0
    assert re.search(r"\d+ of 40 evaluations \(\d+%\) failed: raised", said.stdout)
    assert "→ " in said.stdout
    names = {one["name"] for one in json.loads(invoke("diagnose", "--json").stdout)}
    assert "failures" in names
    assert "failing_value" in names


def test_diagnose_of_a_search_that_says_nothing_is_no(tmp_path: Path) -> None:
    rows = "".join(f'0,1.0,"{{""x"": {n}}}"\n' for n in range(9))
    (tmp_path / "same.csv").write_text("generation,score_1,params\n" + rows)
    said = invoke("diagnose", tmp_path / "same.csv")
    assert said.exit_code == 1
    assert "all 9 scored candidates have the same score" in said.stdout


def test_importance_ranks_what_mattered(done: tuple[Path, Result]) -> None:
    said = invoke("importance")
    assert said.exit_code == 0, said.output
    rows = [
        line.split()[0] for line in said.stdout.splitlines() if re.match(r"(tile|unroll|mode|fast) ", line)
    ]
    assert sorted(rows) == ["fast", "mode", "tile", "unroll"]
    assert rows[0] == "tile"
    told = json.loads(invoke("importance", "--json").stdout)
    assert told["parameters"][0]["p"] <= 0.05


def test_minimize_leaves_what_is_needed(done: tuple[Path, Result]) -> None:
    said = invoke("minimize", "--worker-type", "pool", "--json")
    assert said.exit_code == 0, said.output
    told = json.loads(said.stdout)
    assert told["won"]
    assert "mode" not in told["settings"]
    assert told["share"] >= 0.95
    text = invoke("minimize", "--worker-type", "pool", "--task-timeout", "20s").stdout
    assert "settings keep 100.0%" in text or "settings keep 9" in text
    assert "not needed: " in text


def test_export_gives_the_columns_of_the_contract(done: tuple[Path, Result], tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(invoke("export").stdout)))
    assert list(rows[0]) == ["generation", "score_1", "params", "norm_score_1", "metadata"]
    assert len(rows) == 40
    assert invoke("export", "--out", tmp_path / "all.jsonl").exit_code == 0
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert [line["score_1"] for line in lines] == [
        float(r["score_1"]) if r["score_1"] else None for r in rows
    ]
    assert "csv or jsonl" in invoke("export", "--format", "xml").output
    # What was exported can be looked at as a run can.
    invoke("export", "--out", tmp_path / "all.csv")
    assert json.loads(invoke("show", tmp_path / "all.csv", "--json").stdout)["evaluations"] == 40


def test_plots_are_a_page_or_pictures(done: tuple[Path, Result], tmp_path: Path) -> None:
    assert invoke("plot", "--out", tmp_path / "page.html").exit_code == 0
    page = (tmp_path / "page.html").read_text()
    assert "Plotly" in page
    assert 'data-plot="plot-convergence"' in page
    assert 'data-plot="plot-parallel"' in page
    said = invoke("plot", "--out", tmp_path / "shot.png")
    assert said.stdout.splitlines() == [
        f"written: {tmp_path / 'shot-convergence.png'}",
        f"written: {tmp_path / 'shot-parallel.png'}",
    ]
    assert (tmp_path / "shot-parallel.png").read_bytes().startswith(b"\x89PNG")
    assert "needs two objectives" in invoke("plot", "--kind", "pareto", "--out", tmp_path / "x.html").output
    assert ".html or .png" in invoke("plot", "--out", tmp_path / "x.pdf").output


def test_pareto_shows_the_front_and_the_volume(pair: Path, tmp_path: Path) -> None:
    result = SearchResult.from_journal(pair)
    told = json.loads(invoke("pareto", pair, "--reference", "40,500", "--json").stdout)
    assert told["hypervolume"] == pytest.approx(result.hypervolume((40.0, 500.0)))
    assert [tuple(one["score"]) for one in told["front"]] == [one["score"] for one in result.pareto_front()]
    text = invoke("pareto", "--store", pair).stdout
    assert f"{len(result.front)} of 30 candidates are on the front" in text
    assert invoke("pareto", pair, "--reference", "a,b").exit_code == 2
    assert invoke("plot", pair, "--kind", "pareto", "--out", tmp_path / "front.png").exit_code == 0
    assert invoke("plot", pair, "--out", tmp_path / "front.html").exit_code == 0


def test_resume_with_a_larger_budget_goes_on(pair: Path) -> None:
    before = SearchResult.from_journal(pair)
    said = invoke("resume", "--store", pair, "--max-evaluations", "36", "--json")
    assert said.exit_code == 0, said.output
    told = json.loads(said.stdout)
    assert told["evaluations"] == 36
    assert told["run"] == before.info.id
    after = SearchResult.from_journal(pair)
    assert after.evaluations[:30] == before.evaluations
    assert len({str(one.configuration) for one in after}) == 36


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "does not define objective and search_space"),
        ("search_space = {}\nobjetive = 3\n", "does not define objective .*it has: objetive, search_space"),
        ("import nothing_like_this\n", "cannot be imported: line 1: ModuleNotFoundError"),
        ("def objective(:\n", "cannot be imported: line 1: SyntaxError"),
        (ONE.replace("seed=1", "seed=-1"), "cannot be imported: line 11: UsageError: seed is a whole number"),
        (TWO.replace('"pool"', '"pol"'), "unknown worker type 'pol'; did you mean 'pool'"),
        (TWO.replace('"seed"', '"sed"'), "search_config has no sed; known: "),
    ],
)
def test_a_file_that_will_not_do_is_named_with_what_is_missing(tmp_path: Path, text: str, said: str) -> None:
    ended = invoke("run", written(tmp_path, f"bad_{abs(hash(text))}", text))
    assert ended.exit_code == 2, ended.output
    assert re.search(said, ended.output)
    assert "Traceback" not in ended.output


def test_a_search_in_which_everything_fails_is_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(tmp_path / "runs"))
    text = ONE.replace("    if config", "    raise ValueError('never')\n    if config")
    said = invoke("run", written(tmp_path, "fails_objective", text), "--max-evaluations", "4")
    assert said.exit_code == 1
    assert "none of 4 candidates has a score" in said.stdout


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "KERNELWRIGHT_RUNS": str(folder / "runs"), "NO_COLOR": "1"}


def _started(folder: Path, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=folder,
        env=_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _wait_for(log: Path, lines: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if log.exists() and len(log.read_text().splitlines()) >= lines:
            return
        time.sleep(0.02)
    raise AssertionError(f"{log} has not {lines} lines")


def _ended(session: int) -> bool:
    """Whether no process of the session is left, within a while."""
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        left = []
        for process in psutil.process_iter(["pid", "status"]):
            try:
                if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                    left.append(process.pid)
            except (ProcessLookupError, PermissionError, psutil.Error):
                continue
        if not left:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_was_stopped_is_resumed_from_its_file(tmp_path: Path, how: signal.Signals) -> None:
    file = written(tmp_path, "slow_objective", SLOW)
    log = file.with_suffix(".log")
    process = _started(tmp_path, "run", file.name)
    _wait_for(log, 4)
    process.send_signal(how)
    out, said = process.communicate(timeout=120)
    assert _ended(process.pid)
    (run,) = (tmp_path / "runs").iterdir()
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert f"interrupted; go on with `kernelwright search resume {run.name}`" in said
        assert run.name in out
    before = SearchResult.from_journal(run / "journal.sqlite")
    assert 2 <= len(before) < 12
    assert not before.info.finished

    (tmp_path / "go").touch()
    again = _started(tmp_path, "resume", "--json")
    out, said = again.communicate(timeout=120)
    assert again.returncode == 0, said
    told = json.loads(out)
    assert (told["run"], told["evaluations"], told["finished"]) == (run.name, 12, True)
    after = SearchResult.from_journal(run / "journal.sqlite")
    assert after.evaluations[: len(before)] == before.evaluations
    assert len({one.configuration["x"] for one in after}) == 12
    # What finished was not evaluated again; what was in flight was, at most.
    tried = log.read_text().splitlines()
    finished = [str(one.configuration["x"]) for one in before]
    assert all(tried.count(one) == 1 for one in finished)
    assert len(tried) <= 13


def test_the_objectives_folder_and_the_python_path_are_there_to_import_from(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    written(tmp_path / "here", "beside_it", "OFFSET = 1\n")
    written(tmp_path / "there", "on_the_path", "FACTOR = 2\n")
    text = TWO.replace("def objective_function", "import beside_it, on_the_path\n\ndef objective_function")
    written(tmp_path / "here", "imports_objective", text)
    done = subprocess.run(
        [*COMMAND, "run", "here/imports_objective.py", "--max-evaluations", "3"],
        cwd=tmp_path,
        env={**_environment(tmp_path), "PYTHONPATH": str(tmp_path / "there")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "3 evaluations" in done.stdout
    assert done.stderr == ""


def test_a_staged_or_imported_objective_is_resumed_from_the_file_that_was_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_RUNS", str(tmp_path / "runs"))
    body, _, rest = TWO.partition("def objective_function")
    written(tmp_path, "elsewhere_function", "def objective_function" + rest)
    file = written(
        tmp_path, "imported_objective", "from elsewhere_function import objective_function\n" + body
    )
    assert invoke("run", file, "--max-evaluations", "4").exit_code == 0
    told: dict[str, Any] = json.loads(invoke("resume", "--max-evaluations", "6", "--json").stdout)
    assert told["evaluations"] == 6
    assert told["settings"]["objective_file"] == str(file)
