"""The mistakes with which an objective of compiler options begins are each met with what to do."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelwright import space
from kernelwright.controls import canary_of_objective
from kernelwright.controls import compiler_arguments
from kernelwright.controls import ControlsError
from kernelwright.controls import GccSearchSpace
from kernelwright.controls import save_compiler_config
from kernelwright.search import BASELINE_CONFIG
from kernelwright.search import Failure
from kernelwright.search import Finding
from kernelwright.search import INVALID_SCORE
from kernelwright.search import ObjectiveError
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration
from kernelwright.search import SerialWorker

Objective = Callable[[Any], Any]


@pytest.fixture(scope="module")
def gcc() -> GccSearchSpace:
    return GccSearchSpace(options=["-funroll-loops", "-ftree-vectorize"], params=False, knockout_prob=0.3)


def _searched(objective: Objective, template: Any, folder: Path, *, normalize: bool = False) -> Any:
    """What a short search found."""
    search = Search(
        objective,
        template,
        SearchConfiguration(generations=1, pool_size=16, seed=0, normalize=normalize),
        worker_type=SerialWorker,
        disable_progress_bar=True,
        store=folder / "journal.sqlite",
    )
    return search.start()


def _findings(objective: Objective, template: Any, folder: Path) -> dict[str, Finding]:
    return {one.name: one for one in _searched(objective, template, folder).diagnose()}


def _mixed(gcc: GccSearchSpace) -> list[Any]:
    return [{"tile": space.choice([8, 16, 32])}, gcc]


def test_bytes_fromhex_on_a_configuration_of_a_list(gcc: GccSearchSpace, tmp_path: Path) -> None:
    def objective(mixed: Any) -> float:
        return float(len(bytes.fromhex(mixed)))

    found = _findings(objective, _mixed(gcc), tmp_path)["failures"]
    assert "fromhex() argument must be str, not list" in found.text
    assert "do not decode a configuration: `save_compiler_config(path, config)`" in found.remedy
    assert "`part_0, config = mixed`" in found.remedy


def test_bytes_fromhex_on_a_text_gives_the_compiler_a_file_it_refuses(
    gcc: GccSearchSpace, tmp_path: Path
) -> None:
    """The raw bytes begin with the schema line, so that no tool takes them for options in silence."""

    def objective(config: Any) -> float:
        import subprocess

        if config == BASELINE_CONFIG:
            return 1.0
        (tmp_path / "candidate").write_bytes(bytes.fromhex(config))
        command = ["g++", f"@{tmp_path}/candidate", "-x", "c++", "-c", "/dev/null", "-o", "/dev/null"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return 1.0

    found = _findings(objective, gcc, tmp_path)["failures"]
    assert "save_compiler_config(path, config)" in found.remedy
    assert "one text: `def objective(config)`" in found.remedy


@pytest.mark.parametrize("reads", [compiler_arguments, lambda config: config.split(), open])
def test_a_list_objective_that_takes_a_string(reads: Objective, gcc: GccSearchSpace, tmp_path: Path) -> None:
    found = _findings(lambda config: len(reads(config)), _mixed(gcc), tmp_path)["failures"]
    assert (
        "gives the objective a list of the same length (dict, str): `part_0, config = mixed`" in found.remedy
    )


def test_a_string_objective_that_takes_a_list(gcc: GccSearchSpace, tmp_path: Path) -> None:
    def objective(mixed: Any) -> float:
        if mixed == BASELINE_CONFIG:
            return 1.0
        user_space, config = mixed
        return float(user_space["tile"]) + len(config)

    found = _findings(objective, gcc, tmp_path)["failures"]
    assert "too many values to unpack" in found.text
    assert "one provider gives the objective one text" in found.remedy
    assert "give `search_space=[{…}, provider]`" in found.remedy


def _module(folder: Path, invalid: str) -> Objective:
    """The objective of a module that says itself what INVALID_SCORE is."""
    (folder / "mine.py").write_text(f"INVALID_SCORE = {invalid}\ndef objective(config):\n    return 1.0\n")
    spec = importlib.util.spec_from_file_location("mine", folder / "mine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Objective = module.objective
    return made


def test_a_redefined_invalid_score_is_refused(gcc: GccSearchSpace, tmp_path: Path) -> None:
    with pytest.raises(
        ObjectiveError, match=r"INVALID_SCORE of its own, 1000000000\.0, .* write `from kernelw"
    ):
        _searched(_module(tmp_path, "1e9"), gcc, tmp_path)
    assert _module(tmp_path, "float('inf')")({}) == 1.0
    assert _searched(_module(tmp_path, "float('inf')"), gcc, tmp_path / "same").candidates


@pytest.mark.parametrize(("own", "severity"), [(1e9, "warning"), (-1.0, "error"), (0, "error")])
def test_a_score_that_stands_for_failures_is_found(
    own: float, severity: str, gcc: GccSearchSpace, tmp_path: Path
) -> None:
    def objective(mixed: Any) -> float:
        if mixed == {} or mixed[0]["tile"] == 8:
            return own
        return mixed[0]["tile"] * 1e-3 + len(mixed[1]) * 1e-6

    found = _findings(objective, _mixed(gcc), tmp_path)["stand_in"]
    assert found.severity == severity
    assert f"have the score {own:g}" in found.text
    assert "return `INVALID_SCORE` as kernelwright.search has it" in found.remedy


def test_the_real_invalid_score_is_no_score(gcc: GccSearchSpace, tmp_path: Path) -> None:
    def objective(mixed: Any) -> float:
        return INVALID_SCORE if mixed == {} or mixed[0]["tile"] == 8 else mixed[0]["tile"] * 1e-3

    assert "stand_in" not in _findings(objective, _mixed(gcc), tmp_path)


@pytest.mark.parametrize(
    "scores",
    [
        {8: -5.0, 16: -1.6, 32: -3.2},  # below zero
        {8: 0.0, 16: 0.5, 32: 40.0},  # near the optimum
        {8: 0.0, 16: 0.0, 32: 1.0},  # right or wrong
    ],
)
def test_scores_around_zero_are_scores(scores: dict[int, float], gcc: GccSearchSpace, tmp_path: Path) -> None:
    def objective(mixed: Any) -> float:
        return scores[8 if mixed == {} else mixed[0]["tile"]]

    assert "stand_in" not in _findings(objective, _mixed(gcc), tmp_path)


@pytest.mark.parametrize("mixed", [False, True])
def test_a_baseline_that_is_not_handled(mixed: bool, gcc: GccSearchSpace, tmp_path: Path) -> None:
    def one(config: Any) -> float:
        save_compiler_config(tmp_path / "candidate", config)
        return float(len(config))

    def two(parts: Any) -> float:
        user_space, config = parts
        return float(user_space["tile"] + len(config))

    result = _baseline(two if mixed else one, _mixed(gcc) if mixed else gcc, tmp_path)
    found = {finding.name: finding for finding in result.diagnose()}["failed_baseline"]
    assert "{}, failed: raised" in found.text
    assert "begin the objective with `if config == BASELINE_CONFIG:`" in found.remedy
    assert "in place of a text or a list too" in found.remedy


def test_the_canary_of_an_objective_meets_them_before_a_search(gcc: GccSearchSpace, tmp_path: Path) -> None:
    def no_baseline(mixed: Any) -> float:
        user_space, config = mixed
        return float(user_space["tile"] + len(config))

    def of_a_text(config: Any) -> float:
        return 1.0 if config == BASELINE_CONFIG else float(len(bytes.fromhex(config)))

    report = canary_of_objective(no_baseline, _mixed(gcc), gcc)
    assert not report.passed
    assert "begin the objective with `if config == BASELINE_CONFIG:`" in report.stages[-1].said
    report = canary_of_objective(of_a_text, _mixed(gcc), gcc)
    assert not report.passed
    assert "`part_0, config = mixed`" in report.stages[-1].said


def _baseline(objective: Objective, template: Any, folder: Path) -> Any:
    """A search that was asked for the baseline, and for others."""
    with Search(
        objective, template, SearchConfiguration(seed=0), worker_type=SerialWorker, store=folder / "j.sqlite"
    ) as search:
        drawn = {str(one): one for one in search.sample(8) if one != {}}
        for config in ({}, *drawn.values()):
            try:
                search.tell(config, objective(config))
            except (ValueError, ControlsError) as error:
                search.tell(config, Failure("raised", f"{type(error).__name__}: {error}"))
        return search.result


def test_all_scores_equal(gcc: GccSearchSpace, tmp_path: Path) -> None:
    found = _findings(lambda config: 1.0, gcc, tmp_path)["all_equal"]
    assert found.severity == "error"
    assert "the configuration does not reach what is measured" in found.remedy
    assert "a setting known to be slow is slower" in found.remedy
