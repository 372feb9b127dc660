"""build.toml, edition 5: what is accepted, and what is said of the rest."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright import machine
from kernelwright.build import BuildFile
from kernelwright.build import KernelSection
from kernelwright.build import read_build_file
from kernelwright.errors import FileFormatError
from kernelwright.errors import KernelwrightError

Folder = Callable[..., BuildFile]

GENERAL = '[general]\nname = "scale"\n'
SECTION = '[kernel.scale]\nbackend = "cpu"\ndepends = []\nsrc = ["scale.cpp"]\n'


def test_a_folder_or_its_file_is_read(kernel_folder: Folder) -> None:
    file = kernel_folder()
    assert file == read_build_file(file.path)
    assert (file.name, file.version, file.backends) == ("scale", "1", ("cpu",))
    assert file.kernels["scale_avx2"] == KernelSection(
        "scale_avx2", "cpu", (), ("scale.cpp",), ("include",), ("-mavx2", "-mfma")
    )
    assert file.root == file.path.parent


def test_the_file_of_the_kernel_builder_example_is_accepted(kernel_folder: Folder) -> None:
    file = kernel_folder(
        """
        [general]
        name = "my-kernel"
        license = "Apache-2.0"
        version = 3
        edition = 5
        backends = ["cpu", "cuda"]
        python-depends = ["einops"]

        [general.hub]
        repo-id = "someone/my-kernel"

        [general.cuda]
        minver = "12.6"

        [torch]
        src = ["scale.cpp"]
        include = ["include"]
        minver = "2.9"
        stable-abi = true
        pyext = ["py"]
        cxx-flags = ["-O2"]

        [kernel.my-kernel-cpu]
        backend = "cpu"
        depends = ["torch"]
        include = ["include"]
        src = ["scale.cpp", "include/scale.h"]

        [kernel.my-kernel-cpu_avx512]
        backend = "cpu"
        depends = ["torch"]
        cxx-flags = ["-mavx512f"]
        src = ["scale.cpp"]

        [kernel."my-kernel-cuda"]
        backend = "cuda"
        cuda-capabilities = ["9.0", "10.0"]
        cuda-flags = ["-O3"]
        depends = ["torch", "cutlass_4_0"]
        src = ["scale.cpp"]
        """
    )
    assert file.framework == "torch"
    assert file.framework_options["stable-abi"] is True
    assert file.general["hub"] == {"repo-id": "someone/my-kernel"}
    assert file.kernels["my-kernel-cuda"].other["cuda-capabilities"] == ["9.0", "10.0"]
    assert list(file.tiers("my-kernel-cpu")) == ["generic", "avx512"]


@pytest.mark.parametrize("framework", ["torch", "torch-noarch", "tvm-ffi"])
def test_one_framework_is_kept(kernel_folder: Folder, framework: str) -> None:
    assert kernel_folder(f"{GENERAL}[{framework}]\n").framework == framework


def test_two_frameworks_are_refused(kernel_folder: Folder) -> None:
    with pytest.raises(FileFormatError, match=r"line 4, \[tvm-ffi\]: beside \[torch\]"):
        kernel_folder(f"{GENERAL}[torch]\n[tvm-ffi]\n")


def test_tiers_come_low_to_high_whatever_their_order_in_the_file(kernel_folder: Folder) -> None:
    names = ["avx512_bf16", "avx2", "generic", "avx512"]
    sections = "".join(SECTION.replace("kernel.scale", f"kernel.scale_{name}") for name in names)
    other = SECTION.replace("kernel.scale", "kernel.scale_grad_avx2")
    file = kernel_folder(GENERAL + sections + other)
    assert list(file.tiers("scale")) == [tier.name for tier in machine.TIERS]
    assert file.tiers("scale")["avx512"].name == "scale_avx512"
    assert list(file.tiers("scale_grad")) == ["avx2"]
    assert file.tiers("nothing") == {}


def test_a_section_named_as_the_kernel_is_its_generic_tier(kernel_folder: Folder) -> None:
    assert list(kernel_folder(GENERAL + SECTION).tiers("scale")) == ["generic"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{GENERAL}{SECTION}cxx-flag = []\n", r"7, \[kernel.scale\]: unknown key 'cxx-flag'; .* 'cxx-fl"),
        (f"{GENERAL}bakends = []\n", r"3, \[general\]: unknown key 'bakends'; did you mean 'backends'"),
        (f"{GENERAL}[kernels.scale]\n", r"3, top level: unknown key 'kernels'; did you mean 'kernel'"),
        (f"{GENERAL}[general.hub]\nrepo_id = 'x'\n", r"4, \[general.hub\]: unknown .*; .* 'repo-id'"),
        (f"{GENERAL}{SECTION}cuda-flags = []\n", r"7, \[kernel.scale\]: unknown key 'cuda-flags'"),
        (SECTION, r"no \[general\] section"),
        ("[general]\nversion = 1\n", r"1, \[general\]: name: the key 'name' is missing"),
        (f"{GENERAL}edition = 4\n", r"3, \[general\]: edition: edition 4; this release reads edition 5"),
        (GENERAL + SECTION.replace('"cpu"', '"cpuu"'), r"4, \[kernel.scale\]: backend: 'cpuu' .* 'cpu'"),
        (f'{GENERAL}backends = ["cuda"]\n{SECTION}', r"5, .*: backend 'cpu' is not in \[general\]"),
        (GENERAL + SECTION.replace("scale.cpp", "no.cpp"), r"6, .*: source 'no.cpp' is not there"),
        (f'{GENERAL}{SECTION}include = ["no"]\n', r"7, \[kernel.scale\]: folder 'no' is not there"),
        (GENERAL + SECTION.replace('["scale.cpp"]', "[]"), r"6, \[kernel.scale\]: src is empty"),
        (GENERAL + SECTION.replace('["scale.cpp"]', '"scale.cpp"'), r"6, \[kernel.scale\]: src: "),
        (f"{GENERAL}{SECTION}cxx-flags = [1]\n", r"7, \[kernel.scale\]: cxx-flags.0: "),
        (f"{GENERAL}kernel = 3\n[kernel\n", r"not valid TOML \(.*line 4"),
        (f"kernel = 3\n{GENERAL}", r"1, \[kernel\]: must be a table"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line_and_section(
    kernel_folder: Folder, text: str, message: str
) -> None:
    with pytest.raises(FileFormatError, match=message):
        kernel_folder(text)


def test_a_missing_file_is_the_usual_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_build_file(tmp_path)


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=12))
def test_no_unknown_key_passes(tmp_path_factory: pytest.TempPathFactory, key: str) -> None:
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "scale.cpp").touch()
    (folder / "build.toml").write_text(f"{GENERAL}{SECTION}{key} = []\n")
    if key in {"include", "cxx-flags"}:
        read_build_file(folder)
    else:
        known = re.compile(rf"unknown key {key!r}|Cannot overwrite a value|Invalid")
        with pytest.raises(KernelwrightError, match=known):
            read_build_file(folder)


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_bytes_are_read_or_refused_with_a_reason(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "build.toml").write_bytes(content)
    with pytest.raises(FileFormatError):
        read_build_file(folder)
