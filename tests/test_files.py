"""Folders that a stranger wrote, and how they are removed."""

from __future__ import annotations

import os
from pathlib import Path

from kernelwright.files import remove_tree


def test_a_tree_deeper_than_any_stack_is_removed_and_links_are_not_followed(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "kept").write_text("kept")
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "link").symlink_to(mine)
    (folder / "0-1").write_text("a file named as a number")
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("deeper", dir_fd=handle)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=handle)
        os.symlink(mine, "link", dir_fd=inner)
        os.close(handle)
        handle = inner
    os.close(handle)
    remove_tree(folder)
    assert not folder.exists()
    assert (mine / "kept").read_text() == "kept"


def test_folders_that_their_owner_closed_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    (folder / "in" / "it").mkdir(parents=True)
    (folder / "in" / "it").chmod(0)
    (folder / "in").chmod(0)
    remove_tree(folder)
    assert not folder.exists()


def test_what_is_not_there_need_not_be_removed(tmp_path: Path) -> None:
    remove_tree(tmp_path / "nothing")
