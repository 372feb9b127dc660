"""Our C++ kernels under controls: an artifact is what its configuration makes; wrong ones never win."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelwright.controls import BuildFailure
from kernelwright.controls import ClangSearchSpace
from kernelwright.controls import Controls
from kernelwright.controls import ControlsObjective
from kernelwright.controls import Counts
from kernelwright.controls import encode_controls
from kernelwright.controls import GccSearchSpace
from kernelwright.controls import NativeTarget
from kernelwright.controls import target_from
from kernelwright.errors import UnknownNameError
from kernelwright.process import Limits
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration
from kernelwright.search import SerialWorker
from kernelwright.search import Skip

UNSAFE = "-funsafe-math-optimizations"


def gcc(*options: str) -> str:
    return encode_controls(Controls("gcc", options))


@pytest.fixture(scope="module")
def target() -> NativeTarget:
    return NativeTarget("silu_and_mul", "32x256", GccSearchSpace(), tier="generic")


def test_the_controls_are_part_of_the_key_and_change_the_code(target: NativeTarget) -> None:
    names = ({}, gcc("-O3"), gcc("-O0"), gcc("-O3", "-fno-ipa-sra"))
    keys = {target.request(config).key for config in names}
    made = [target.build(config) for config in names]
    assert len(keys) == 4, "no artifact can be taken for another"
    assert made[0].code_key == made[1].code_key == made[3].code_key != made[2].code_key
    again = target.build({})
    assert again.code_key == made[0].code_key
    assert again.path.read_bytes() == made[0].path.read_bytes()


def test_controls_come_last_and_parameters_are_macros(target: NativeTarget) -> None:
    request = target.request([{"unroll": 4}, gcc("-O1")])
    assert request.macros["KW_UNROLL"] == "4"
    assert request.flags[-1] == "-O1"
    assert target.parameters is not None
    assert not [name for name in target.parameters.parameters if name.startswith("cxx_")], "the provider's"


def test_what_does_not_build_says_why(target: NativeTarget) -> None:
    with pytest.raises(BuildFailure, match="unrecognized command-line option") as failed:
        target.build(gcc("-fno-such-option"))
    assert failed.value.status == "build_failed"
    hasty = NativeTarget(
        "silu_and_mul", "32x256", target.provider, tier="generic", build_limits=Limits(wall_s=0.05)
    )
    with pytest.raises(BuildFailure) as late:
        hasty.build(gcc("-O2", "-fno-ivopts"))
    assert late.value.status == "build_timeout"


class Unraced(NativeTarget):
    """Checked by the referee; in races, whatever unsafe mathematics made is nine times as fast."""

    def calibrate(self):
        return 1e-6

    def _race(self, baseline, artifact):
        return SimpleNamespace(ratio=9.0 if artifact.code_key == self.build(gcc(UNSAFE)).code_key else 1.0)


def test_a_flag_that_breaks_the_result_is_caught_and_never_wins(tmp_path: Path) -> None:
    """It folds away the rounding of the exponential's argument, and is fast."""
    provider = GccSearchSpace(options=[UNSAFE], params=False, levels=(), unsafe_math=True, knockout_prob=0.5)
    target = Unraced("silu_and_mul", "32x256", provider, tier="generic", parameters=False)
    objective = ControlsObjective(target)
    search = Search(
        objective,
        objective.search_space,
        SearchConfiguration(normalize=True, max_evaluations=3),
        worker_type=SerialWorker,
        store=tmp_path / "store.sqlite",
        disable_progress_bar=True,
    )
    try:
        result = search.start()
    finally:
        target.close()
    wrong = [one for one in result.evaluations if one.failure is not None]
    assert [one.failure.kind for one in wrong] == ["wrong"]
    assert bytes.fromhex(wrong[0].params).decode().splitlines()[1:] == [UNSAFE]
    assert "exceeds" in wrong[0].failure.reason
    assert all(UNSAFE not in bytes.fromhex(one.params).decode() for one in result.ranked if one.params)
    assert Counts.of(result.evaluations).failures == {"wrong": 1}


def test_what_the_binary_tells_can_be_asked_for_before_a_run(target: NativeTarget) -> None:
    objective = ControlsObjective(target, constraints=["xmm > scalar"])
    assert objective.features(objective.build({}))["instructions"] > 500
    with pytest.raises(Skip, match="xmm > scalar does not hold") as pruned:
        objective.features(objective.build(gcc("-O0")))
    assert pruned.value.failure_kind == "pruned"


def test_options_that_change_results_are_not_offered_unasked(target: NativeTarget) -> None:
    assert UNSAFE not in target.provider.space().parameters


def test_it_is_made_again_from_what_a_journal_keeps(target: NativeTarget) -> None:
    description = target.describe()
    again = target_from(description)
    assert again.describe() == description
    assert again.build({}).code_key == target.build({}).code_key
    copy = pickle.loads(pickle.dumps(target))
    assert copy.describe() == description


@pytest.mark.parametrize("operator", ["silu_and_mul", "softmax"])
def test_clang_likewise(operator: str) -> None:
    target = NativeTarget(operator, None, ClangSearchSpace(), tier="generic")
    lowest, baseline = (target.provider.level(name) for name in ("lowest", "baseline"))
    assert target.build(baseline).code_key == target.build({}).code_key
    assert target.build(lowest).code_key != target.build({}).code_key


def test_unknown_names_are_refused(target: NativeTarget) -> None:
    with pytest.raises(UnknownNameError, match="softmax"):
        NativeTarget("softmacks", None, target.provider)
    with pytest.raises(UnknownNameError, match="tier"):
        NativeTarget("softmax", None, target.provider, tier="avx9")
