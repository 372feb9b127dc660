"""A compiler configuration is a hex string of text that a person can read, and comes back from its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernelwright.controls import compiler_arguments
from kernelwright.controls import Controls
from kernelwright.controls import ControlsError
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


def _config(text: str | bytes) -> str:
    return (text if isinstance(text, bytes) else text.encode()).hex()


HEAD = "kernelwright-controls 1 gcc\n"


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        (HEAD + "-O3\n# why\n", 3, 1, "there are no comments, the tool takes # for a file's name"),
        (HEAD + "-O 0\n", 2, 3, "write '-O0'"),
        (HEAD + "--param max-unroll-times=4\n", 2, 8, "write '--param=max-unroll-times=4'"),
        (HEAD + "-O3 -funroll-loops\n", 2, 4, "or each option in a line of its own"),
        (HEAD + "-DX='1'\n", 2, 5, "no blanks and no quotes"),
        (HEAD + "-DX=\\\n", 2, 5, "no blanks and no quotes"),
        (HEAD + "-DX=#\n", 2, 5, "no blanks and no quotes"),
        (HEAD + "kernel.cpp\n", 2, 1, "it begins with -"),
        (HEAD + "--param\n-O3\n", 2, 1, "it takes the next word"),
        (HEAD + "-O3\n\n-fpic\n", 3, 1, "an empty line"),
        (HEAD + "-O3\r\n", 2, 4, "no blanks"),
        (HEAD + "-O3\n-funroll-loops\n-O2\n", 4, 1, r"-O was given before \(line 2: '-O3'\)"),
        (HEAD + "-fno-unroll-loops\n-funroll-loops\n", 3, 1, r"-funroll-loops was given before \(line 2"),
        (HEAD + "--param=a=1\n--param=b=1\n--param=a=2\n", 4, 1, "--param=a was given before"),
        (HEAD + "-O3", 2, None, "must end with one line feed"),
        (HEAD + "-O3\n\n", 3, 1, "an empty line"),
        (HEAD.rstrip(), 1, None, "must end with one line feed"),
        ("kernelwright-controls 1 gcx\n", 1, 25, "unknown compiler 'gcx'.*did you mean 'gcc'"),
        ("kernelwright-controls 2 gcc\n", 1, 23, "of another version"),
        ("kernelwright-controls  1 gcc\n", 1, 1, "the first line must be"),
        ("Kernelwright-Control 1 gcc\n", 1, 1, "the first line must be"),
        ("-O3\n-funroll-loops\n", 1, 1, "the first line must be"),
        (HEAD.encode() + b"-O3\n-\xff\n", 3, 2, "byte 0xff is not UTF-8"),
    ],
)
def test_what_is_malformed_is_refused_and_shown(
    text: str | bytes, line: int, column: int | None, said: str
) -> None:
    with pytest.raises(ControlsError, match=said) as raised:
        decode_controls(_config(text))
    assert (raised.value.line, raised.value.column) == (line, column)
    assert f"line {line}" in str(raised.value)


@pytest.mark.parametrize(
    ("config", "offset", "said"),
    [
        ("6b65726g", 7, "'g' is no digit of it"),
        ("6B65", 1, "'B' is no digit of it; it is lower case"),
        ("6b 65", 2, "' ' is no digit of it"),
        ("6b6", 3, "it is cut short"),
        ("", 0, "it is empty"),
    ],
)
def test_a_hex_string_that_is_none_is_shown_where_it_breaks(config: str, offset: int, said: str) -> None:
    with pytest.raises(ControlsError, match=said) as raised:
        decode_controls(config)
    assert raised.value.offset == offset


def test_every_string_that_is_decoded_is_encoded_to_itself() -> None:
    for options in ((), ("-O3",), ("-O3", "--param=max-unroll-times=4", "-DNAME=a,b")):
        for tool in ("gcc", "clang"):
            config = encode_controls(Controls(tool, options))
            decoded = decode_controls(config)
            assert decoded == Controls(tool, options)
            assert encode_controls(decoded) == config


def test_a_file_may_be_as_editors_leave_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(b"kernelwright-controls 1 gcc\r\n-O3 \r\n\r\n-funroll-loops")
    assert load_compiler_config(path) == encode_controls(Controls("gcc", ("-O3", "-funroll-loops")))
    path.write_bytes(b"kernelwright-controls 1 gcc\n\n-O 3\n")
    with pytest.raises(ControlsError, match=r"line 3, column 3.*write '-O3'"):
        load_compiler_config(path)
    path.write_bytes(b"")
    with pytest.raises(ControlsError, match="is empty; write the line 'kernelwright-controls 1 TOOL' first"):
        load_compiler_config(path)
