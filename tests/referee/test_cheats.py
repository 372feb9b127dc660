"""Every cheat gets the right status, and a reason that names the act."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from kernelwright.process import Template
from kernelwright.referee import Status

from . import corpus

CHEATS = corpus.specimens("cheats")


@pytest.mark.parametrize("cheat", corpus.parameters(CHEATS))
def test_a_cheat_is_caught_by_name(cheat: corpus.Specimen, tmp_path: Path, template: Template) -> None:
    verdict = corpus.judge(cheat, tmp_path, template=template)
    assert verdict.status in cheat.verdict, f"{verdict.status}: {verdict.reason}"
    assert re.search(cheat.says, verdict.reason), verdict.reason
    assert verdict.contests == ()


def test_every_row_of_the_catalogue_has_two_forms_and_there_is_more() -> None:
    count = Counter(cheat.catalogue for cheat in CHEATS)
    assert set(count) == {*corpus.CATALOGUE, "beyond"}
    assert {row: count[row] for row in corpus.CATALOGUE if count[row] < 2} == {}
    assert count["beyond"] >= 12
    assert len(CHEATS) >= 100


def test_every_cheat_says_what_it_does_and_none_may_pass() -> None:
    for cheat in CHEATS:
        assert cheat.words.endswith("."), cheat.name
        assert cheat.says, cheat.name
        assert Status.PASSED not in cheat.verdict, cheat.name


def test_expectations_are_exact() -> None:
    """One status each, but where the machine decides between two; and words that say more than "wrong"."""
    assert {cheat.name for cheat in CHEATS if len(cheat.verdict) > 1} == {"skip_when_warm"}
    assert {cheat.name: cheat.says for cheat in CHEATS if len(cheat.says) < 20} == {}
