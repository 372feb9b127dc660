"""Honest kernels pass, however strange they look."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kernelwright.process import Template
from kernelwright.referee import Mode
from kernelwright.referee import Status

from . import corpus

HONEST = corpus.specimens("honest")


@pytest.mark.parametrize("kernel", corpus.parameters(HONEST))
def test_an_honest_kernel_passes(kernel: corpus.Specimen, tmp_path: Path, template: Template) -> None:
    if kernel.needs and shutil.which(kernel.needs) is None:
        pytest.skip(f"{kernel.needs} is not installed here")
    verdict = corpus.judge(kernel, tmp_path, template=template)
    assert verdict.status is Status.PASSED, f"{verdict.status}: {verdict.reason}"
    assert [contest.mode for contest in verdict.contests] == [kernel.mode] * kernel.race
    if kernel.comparison:
        assert verdict.contests[0].comparison == kernel.comparison


def test_there_are_enough_of_them() -> None:
    assert len(HONEST) >= 16
    assert {kernel.verdict for kernel in HONEST} == {frozenset({Status.PASSED})}
    assert {kernel.mode for kernel in HONEST if kernel.race} == set(Mode)
