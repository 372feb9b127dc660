"""A compiler configuration is a hex string of text that a person can read, and comes back from its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernelwright.controls import compiler_arguments
from kernelwright.controls import Controls
from kernelwright.controls import decode_controls
from kernelwright.controls import encode_controls
from kernelwright.controls import load_compiler_config
from kernelwright.controls import save_compiler_config
from kernelwright.errors import UnknownNameError
from kernelwright.errors import UsageError
from kernelwright.search import BASELINE_CONFIG

CONTROLS = Controls("gcc", ("-O3", "-fno-tree-vectorize", "--param=max-unroll-times=4"))


def test_the_text_has_a_schema_line_with_the_tool_and_an_option_a_line() -> None:
    config = encode_controls(CONTROLS)
    text = bytes.fromhex(config).decode()
    assert text == "kernelwright-controls 1 gcc\n-O3\n-fno-tree-vectorize\n--param=max-unroll-times=4\n"
    assert decode_controls(config) == CONTROLS
    assert compiler_arguments(config) == list(CONTROLS.options)


@pytest.mark.parametrize("controls", [CONTROLS, Controls("gcc", ()), Controls("clang", ("-O1",))])
def test_what_is_saved_is_loaded_unchanged(tmp_path: Path, controls: Controls) -> None:
    path = tmp_path / "candidate.acf"
    config = encode_controls(controls)
    save_compiler_config(path, config)
    assert load_compiler_config(path) == config
    save_compiler_config(str(path), encode_controls(CONTROLS))
    assert load_compiler_config(str(path)) == encode_controls(CONTROLS)


def test_text_that_a_person_wrote_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("kernelwright-controls 1 gcc\n-O3\n-funroll-loops\n")
    assert compiler_arguments(load_compiler_config(path)) == ["-O3", "-funroll-loops"]


def test_a_vendors_file_is_carried_and_never_parsed(tmp_path: Path) -> None:
    theirs, mine = tmp_path / "O3.acf", tmp_path / "candidate.acf"
    theirs.write_bytes(bytes(range(256)))
    config = load_compiler_config(theirs)
    assert config == bytes(range(256)).hex()
    assert decode_controls(config) is None
    save_compiler_config(mine, config)
    assert mine.read_bytes() == theirs.read_bytes()
    with pytest.raises(UsageError, match="a vendor's control file; save it"):
        compiler_arguments(config)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (BASELINE_CONFIG, "holds no options: call the compiler without any"),
        (["00"], "a hex string, not list; in a list, each entry"),
        (b"00", "a hex string, not bytes"),
        ("xyz", "a hex string, not 'xyz'"),
        (b"kernelwright-controls 2 gcc\n".hex(), "another version .*this release reads 1"),
    ],
)
def test_what_is_no_configuration_is_said(tmp_path: Path, config: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        save_compiler_config(tmp_path / "x", config)
    assert not (tmp_path / "x").exists()


def test_the_baseline_has_no_arguments() -> None:
    assert compiler_arguments(BASELINE_CONFIG) == []


def test_another_tool_and_what_is_no_option_are_said(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown compiler 'icc'"):
        encode_controls(Controls("icc", ()))
    (tmp_path / "x").write_text("kernelwright-controls 1 icc\n")
    with pytest.raises(UnknownNameError, match="unknown compiler 'icc'"):
        load_compiler_config(tmp_path / "x")
    for option in ("O3", "-D X", "-D'X'", ""):
        with pytest.raises(UsageError, match="is not an option"):
            encode_controls(Controls("gcc", (option,)))
