"""A vendor's control files are candidates: chosen by name and content, carried, never read or made."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kernelwright import space
from kernelwright.controls import adapter
from kernelwright.controls import ControlsError
from kernelwright.controls import save_compiler_config
from kernelwright.controls import VendorFiles
from kernelwright.errors import SpaceError
from kernelwright.space import SearchSpace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of a vendor's, and what is none of its files."""
    made = tmp_path / "pack"
    (made / "inner").mkdir(parents=True)
    (made / "a.acf").write_bytes(b"\x00\x01vendor")
    (made / "b.acf").write_bytes(bytes(range(256)))
    (made / ".hidden").write_bytes(b"x")
    return made


# `gcc` stands for the tool here, as its name alone is used; the real ones are ptxas and tileiras.
def test_a_folder_is_a_choice_of_its_files(folder: Path, tmp_path: Path) -> None:
    files = VendorFiles(folder, tool="gcc")
    assert [name.partition("@")[0] for name in files.names] == ["a.acf", "b.acf"]
    search_space = SearchSpace(files)
    config = search_space.config({"file": files.names[1]})
    assert config == bytes(range(256)).hex()
    assert search_space.flat(config) == {"file": files.names[1]}
    save_compiler_config(tmp_path / "candidate", config)
    assert (tmp_path / "candidate").read_bytes() == (folder / "b.acf").read_bytes()


def test_one_file_is_a_choice_too_and_none_is_the_baseline(folder: Path) -> None:
    search_space = SearchSpace(VendorFiles(folder / "a.acf", tool="gcc", knockout_prob=0.5))
    drawn = [search_space.config(search_space.space.sample(random.Random(seed))) for seed in range(20)]
    assert {str(config) for config in drawn} == {"{}", b"\x00\x01vendor".hex()}


def test_beside_parameters_no_file_is_the_text_of_no_options(folder: Path) -> None:
    files = VendorFiles(folder, tool="gcc")
    mixed = SearchSpace([{"tile": space.choice([8, 16])}, files])
    config = mixed.config({"0.tile": 8, "1.file": None})
    assert config == [{"tile": 8}, b"kernelwright-controls 1 gcc\n".hex()]
    assert mixed.flat(config) == {"0.tile": 8, "1.file": None}
    assert adapter("gcc").inject(config[1], folder).arguments != ()


def test_a_file_that_was_replaced_is_another_candidate_and_another_space(folder: Path) -> None:
    before = VendorFiles(folder, tool="gcc")
    fingerprint = SearchSpace(before).fingerprint
    assert SearchSpace(VendorFiles(folder, tool="gcc")).fingerprint == fingerprint
    (folder / "a.acf").write_bytes(b"\x00\x02vendor")
    after = VendorFiles(folder, tool="gcc")
    assert after.names[0] != before.names[0]
    assert SearchSpace(after).fingerprint != fingerprint
    with pytest.raises(SpaceError, match="the bytes of none of the control files"):
        after.parse(before.render({"file": before.names[0]}))


def test_what_is_no_candidate_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ControlsError, match="there is no file or folder"):
        VendorFiles(tmp_path / "nowhere")
    with pytest.raises(ControlsError, match="has no control files in it"):
        VendorFiles(folder / "inner")
    (folder / "c.acf").write_text("kernelwright-controls 1 gcc\n-O3\n")
    with pytest.raises(ControlsError, match=r"c\.acf holds options as text and is no vendor's file"):
        VendorFiles(folder)
    (folder / "c.acf").write_bytes(b"")
    with pytest.raises(ControlsError, match=r"c\.acf is empty"):
        VendorFiles(folder)
    with pytest.raises(ControlsError, match="gcc has no option that takes a vendor's control file"):
        adapter("gcc").inject("00ff", tmp_path)
