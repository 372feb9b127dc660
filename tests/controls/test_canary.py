"""The canary lets sound targets by, and names the stage at which each fault loses the options."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kernelwright.controls import _canary
from kernelwright.controls import canary
from kernelwright.controls import canary_of_objective
from kernelwright.controls import CanaryError
from kernelwright.controls import search_controls

sys.path.append(str(Path(__file__).parent))
from planted_targets import PlantedObjective
from planted_targets import PlantedTarget
from planted_targets import provider

STAGES = ["baseline", "controls", "build", "cache", "measure", "highest", "sample"]


class TestOfATarget:
    """By its binaries first, then by its times."""

    @pytest.mark.parametrize("parameters", [False, True])
    def test_a_sound_one_passes_every_stage(self, tmp_path: Path, parameters: bool) -> None:
        report = canary(PlantedTarget(tmp_path, parameters=parameters))
        assert report.passed, report
        assert [stage.name for stage in report.stages] == STAGES
        assert "-O3 makes the same code as no controls" in report.stages[1].said
        assert "-O0 takes 3.00 of the baseline's time" in report.stages[4].said

    @pytest.mark.parametrize(
        ("fault", "stage", "said"),
        [
            ("is compiled with another level", "controls", "-O3, given explicitly makes other code"),
            ("ignores its controls", "build", "lost on its way to gcc"),
            ("serves what it built first", "build", "what was built before is served again"),
            ("overwrites what it built", "cache", "overwrote"),
            ("does not repeat itself", "controls", "makes other code"),
            ("times what it loaded first", "measure", "what is timed is not what was built"),
            ("has no times", "measure", "returned nan, which is no time"),
        ],
    )
    def test_the_stage_that_loses_the_option_is_named(
        self, tmp_path: Path, fault: str, stage: str, said: str
    ) -> None:
        report = canary(PlantedTarget(tmp_path, fault))
        assert report.failed is not None
        assert report.failed.name == stage
        assert said in report.failed.said

    def test_the_search_does_not_start_and_nothing_is_stored(self, tmp_path: Path) -> None:
        store = tmp_path / "store.sqlite"
        with pytest.raises(CanaryError, match=r"the search does not start.* 'build'.*lost on its way"):
            search_controls(PlantedTarget(tmp_path, "ignores its controls"), store=store)
        assert not store.exists()

    def test_without_a_clock_binaries_alone_are_compared(self, tmp_path: Path) -> None:
        target = PlantedTarget(tmp_path, "times what it loaded first")
        report = canary(target, measure=False)
        assert report.passed
        assert [stage.name for stage in report.stages if stage.passed is None] == ["measure"]
        assert target.measured == []

    def test_a_constraint_must_let_the_baseline_through(self, tmp_path: Path) -> None:
        report = canary(PlantedTarget(tmp_path), constraints=["registers <= 32"])
        assert report.failed is not None
        assert report.failed.name == "baseline"
        assert "registers <= 32 does not hold: {'registers': 40}" in report.failed.said

    def test_a_sample_without_a_score_is_not_legal(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        target = PlantedTarget(tmp_path)
        levels = {target.provider.level(name) for name in ("lowest", "baseline", "highest")}
        build = target.build

        def only_levels(config):
            if config and config not in levels:
                raise _canary.StageFailure("no such option", kind="build_failed")
            return build(config)

        monkeypatch.setattr(target, "build", only_levels)
        report = canary(target)
        assert report.failed is not None
        assert report.failed.name == "sample"
        assert "build_failed: no such option" in report.failed.said

    def test_noise_is_given_other_chances_and_then_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        target = PlantedTarget(tmp_path)
        measure, left = target.measure, [2]

        def noisy(artifact):
            if left[0]:
                left[0] -= 1
                raise _canary.StageFailure("the machine is too noisy", kind="noisy")
            return measure(artifact)

        monkeypatch.setattr(target, "measure", noisy)
        assert canary(target).passed
        left[0] = 3
        report = canary(target)
        assert report.failed is not None
        assert "nothing is known of the controls yet" in report.failed.said

    def test_a_report_is_plain_json(self, tmp_path: Path) -> None:
        found = canary(PlantedTarget(tmp_path)).to_json()
        assert found["passed"] is True
        assert [stage["name"] for stage in found["stages"]] == STAGES


class TestOfAnObjective:
    """By nothing but scores."""

    @pytest.mark.parametrize("mixed", [False, True])
    def test_a_sound_one_passes(self, tmp_path: Path, mixed: bool) -> None:
        space = provider()
        searched = [{"unroll": _canary_choice()}, space] if mixed else space
        report = canary_of_objective(PlantedObjective(tmp_path), searched, space)
        assert report.passed, report

    @pytest.mark.parametrize(
        ("fault", "stage", "said"),
        [
            ("ignores its controls", "measure", "should be slower by more than 5%"),
            ("serves what it built last by the path", "cache", "after the lowest level was measured"),
            ("returns a text", "baseline", "returned 'fast', which is no time"),
        ],
    )
    def test_the_stage_that_loses_the_option_is_named(
        self, tmp_path: Path, fault: str, stage: str, said: str
    ) -> None:
        space = provider()
        report = canary_of_objective(PlantedObjective(tmp_path, fault), space, space)
        assert report.failed is not None
        assert report.failed.name == stage
        assert said in report.failed.said

    def test_the_highest_level_of_ptxas_and_its_like_is_the_baseline(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        space = provider()
        objective = PlantedObjective(tmp_path, "drifts with the level above")
        assert canary_of_objective(objective, space, space).passed  # gcc's need not be
        monkeypatch.setattr(_canary, "_HIGHEST_IS_BASELINE", {"gcc"})
        report = canary_of_objective(objective, space, space)
        assert report.failed is not None
        assert report.failed.name == "highest"
        assert "1.200 of the baseline's time" in report.failed.said

    def test_an_objective_without_a_baseline_branch_is_told_what_to_write(self, tmp_path: Path) -> None:
        space = provider()
        report = canary_of_objective(PlantedObjective(tmp_path, "has no baseline branch"), space, space)
        assert report.failed is not None
        assert report.failed.name == "baseline"
        assert "fromhex" in report.failed.said
        assert "BASELINE_CONFIG" in report.failed.said


def _canary_choice():
    from kernelwright.space import choice

    return choice([1, 2])
