"""The build key: changes with everything that matters and with nothing else."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright import machine
from kernelwright.build import BuildRequest
from kernelwright.build import KernelSection
from kernelwright.build import requests_of
from kernelwright.errors import BuildError
from kernelwright.errors import UsageError

Kernel = Callable[..., BuildRequest]
names = st.text(alphabet="ABCXYZ_", min_size=1, max_size=4)
values = st.integers(0, 9) | st.sampled_from(["a", "b"])
macros = st.dictionaries(names, values, max_size=3)
flags = st.lists(st.sampled_from(["-O2", "-funroll-loops", "-fno-math-errno"]), max_size=3).map(tuple)


@pytest.fixture(scope="module")
def section_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "scale.cpp").write_text("int scale;\n")
    return folder


def request_of(
    folder: Path, section_flags: tuple[str, ...], extra: tuple[str, ...], **macros: object
) -> BuildRequest:
    section = KernelSection("scale_generic", "cpu", (), ("scale.cpp",), (), section_flags)
    return BuildRequest(section, folder, macros, extra)  # type: ignore[arg-type]


@given(first=st.tuples(flags, flags, macros), second=st.tuples(flags, flags, macros))
def test_two_keys_are_equal_exactly_when_what_the_compiler_is_told_is(
    section_folder: Path,
    first: tuple[tuple[str, ...], tuple[str, ...], dict[str, int | str]],
    second: tuple[tuple[str, ...], tuple[str, ...], dict[str, int | str]],
) -> None:
    def told(inputs: tuple[tuple[str, ...], tuple[str, ...], dict[str, int | str]]) -> object:
        own, extra, defined = inputs
        return (*own, *extra), {name: str(value) for name, value in defined.items()}

    keys = [request_of(section_folder, own, extra, **defined).key for own, extra, defined in (first, second)]
    assert (keys[0] == keys[1]) == (told(first) == told(second))


@given(macros)
def test_the_order_of_macros_does_not_matter(section_folder: Path, defined: dict[str, int | str]) -> None:
    backwards = dict(reversed(defined.items()))
    assert (
        request_of(section_folder, (), (), **defined).key
        == request_of(section_folder, (), (), **backwards).key
    )


@given(contents=st.lists(st.binary(max_size=8), min_size=2, max_size=2))
def test_the_key_follows_the_content_of_every_file_at_once(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]
) -> None:
    """Also when size and time stamp stay the same, as they do when a file is written twice in a moment."""
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "inner").mkdir()
    (folder / "scale.cpp").touch()
    for name in ("scale.cpp", "inner/deep.hpp"):
        keys = []
        for content in contents:
            (folder / name).write_bytes(content)
            keys.append(request_of(folder, (), ()).key)
        assert (keys[0] == keys[1]) == (contents[0] == contents[1])


def test_a_header_in_an_include_folder_counts_and_a_document_does_not(kernel: Kernel) -> None:
    request = kernel()
    before = request.key
    (request.root / "README.md").write_text("words")
    (request.root / ".hidden.h").write_text("words")
    (request.root / "include" / "dangling.h").symlink_to("nowhere")
    assert request.key == before
    (request.root / "include" / "new.inl").write_text("#define NEW\n")
    assert request.key != before


def test_the_key_does_not_tell_where_the_sources_lie(kernel: Kernel, tmp_path: Path) -> None:
    request = kernel()
    shutil.copytree(request.root, tmp_path / "elsewhere" / "deeper")
    assert dataclasses.replace(request, root=tmp_path / "elsewhere" / "deeper").key == request.key


def test_the_key_names_the_compiler_but_not_its_path(kernel: Kernel, compiler: machine.Compiler) -> None:
    request = kernel(compiler=compiler)
    moved = dataclasses.replace(compiler, path=type(compiler.path)("/somewhere/else/c++"))
    newer = dataclasses.replace(compiler, version="99.9")
    foreign = dataclasses.replace(compiler, target="aarch64-linux-gnu")
    keys = [dataclasses.replace(request, compiler=one).key for one in (compiler, moved, newer, foreign)]
    assert keys[0] == keys[1] == request.key
    assert len(set(keys)) == 3


def test_the_tier_is_part_of_the_key(kernel: Kernel) -> None:
    request = kernel()
    renamed = dataclasses.replace(request.section, name="scale_avx512")
    assert dataclasses.replace(request, section=renamed).key != request.key


@pytest.mark.parametrize(
    ("section", "tier"),
    [
        ("scale_avx512", "avx512"),
        ("scale_avx512_bf16", "avx512_bf16"),
        ("scale_avx512-bf16", "avx512_bf16"),
        ("scale-avx2", "avx2"),
        ("avx2", "avx2"),
        ("scale", None),
        ("scaleavx2", None),
    ],
)
def test_the_tier_is_read_from_the_end_of_the_name(kernel: Kernel, section: str, tier: str | None) -> None:
    request = kernel()
    assert (
        dataclasses.replace(request, section=dataclasses.replace(request.section, name=section)).tier == tier
    )


@pytest.mark.parametrize("flag", ["-march=native", "-mtune=native"])
def test_native_is_spelled_out_by_the_compiler(kernel: Kernel, flag: str) -> None:
    spelled = kernel(extra_flags=(flag,)).flags
    assert not any("native" in word for word in spelled)
    prefix = flag.partition("=")[0] + "="
    assert any(word.startswith(prefix) for word in spelled)


def test_tuning_for_this_machine_does_not_choose_instructions(kernel: Kernel) -> None:
    spelled = kernel(extra_flags=("-mavx2", "-mtune=native")).flags
    assert not any(word.startswith(("-march", "-mno-")) for word in spelled)


def test_a_section_without_anything_to_compile_is_refused(kernel: Kernel) -> None:
    request = kernel()
    only_header = dataclasses.replace(request.section, src=("include/scale.h",))
    with pytest.raises(UsageError, match="names no C\\+\\+ source"):
        dataclasses.replace(request, section=only_header).key  # noqa: B018
    with pytest.raises(UsageError, match="only cpu sections are built"):
        dataclasses.replace(request, section=dataclasses.replace(request.section, backend="cuda")).key  # noqa: B018


@pytest.mark.parametrize(
    "fields", [{"macros": {"a b": 1}}, {"extra_flags": ("-O2\n-O3",)}, {"extra_flags": ("",)}]
)
def test_flags_that_could_break_the_command_are_refused(kernel: Kernel, fields: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        kernel(**fields).key  # noqa: B018


def test_a_source_that_is_gone_is_a_failed_build(kernel: Kernel) -> None:
    request = kernel()
    (request.root / "scale.cpp").unlink()
    with pytest.raises(BuildError, match=r"scale\.cpp is not there") as caught:
        request.key  # noqa: B018
    assert caught.value.status == "build_failed"


def test_every_cpu_section_of_a_file_makes_a_request(kernel_folder: Callable[..., object]) -> None:
    file = kernel_folder()
    assert [request.section.name for request in requests_of(file)] == ["scale_generic", "scale_avx2"]  # type: ignore[arg-type]
