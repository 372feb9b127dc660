"""Requests become artifacts, or errors that show what the compiler said."""

from __future__ import annotations

import ctypes
import dataclasses
import errno
import json
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright import machine
from kernelwright.build import Artifact
from kernelwright.build import build
from kernelwright.build import build_many
from kernelwright.build import BuildRequest
from kernelwright.build import code_key
from kernelwright.build import find
from kernelwright.build import load
from kernelwright.errors import BuildError
from kernelwright.errors import NoCompilerError
from kernelwright.kernels.cpu import native_kernels
from kernelwright.process import Limits

Kernel = Callable[..., BuildRequest]

ENDLESS = """
constexpr long spin(long n) { long s = 0; for (long i = 0; i < n; ++i) s += i; return s; }
template <long N> struct Deep { static constexpr long value = spin(200000 + N) + Deep<N - 1>::value; };
template <> struct Deep<0> { static constexpr long value = 0; };
extern "C" long endless() { return Deep<800>::value; }
"""


def call(artifact: Artifact, value: float) -> float:
    function = load(artifact).scale
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.c_double]
    return float(function(value))


def test_what_is_built_runs_and_is_found_afterwards(kernel: Kernel, store: Path) -> None:
    request = kernel()
    assert find(request) is None
    made = build(request)
    assert call(made, 3.0) == 7.0
    assert (made.section, made.tier, made.cached) == ("scale_generic", "generic", False)
    assert made.seconds > 0
    assert made.build_key == request.key
    assert made.library == store / request.key / "kernel.so"
    assert sorted(path.name for path in made.library.parent.iterdir()) == ["build.json", "kernel.so"]
    again = find(request)
    assert again == dataclasses.replace(made, cached=True)
    assert build(request) == again


def test_macros_and_extra_flags_reach_the_compiler_last(kernel: Kernel) -> None:
    assert call(build(kernel(macros={"KW_FACTOR": 5})), 1.0) == 6.0
    request = kernel(macros={"KW_FACTOR": 5}, extra_flags=("-UKW_FACTOR",))
    assert call(build(request), 1.0) == 3.0


def test_the_record_tells_how_it_was_made(kernel: Kernel, compiler: machine.Compiler) -> None:
    made = build(kernel(tier="avx2", macros={"KW_FACTOR": 3}, compiler=compiler))
    record = json.loads((made.library.parent / "build.json").read_text())
    assert record["schema"] == "kernelwright.artifact"
    assert record["macros"] == {"KW_FACTOR": 3}
    assert record["compiler"] == f"{compiler.kind} {compiler.version} {compiler.target}" == made.compiler
    assert {"-DKW_FACTOR=3", "-mavx2", "-O3", "-fopenmp"} <= set(made.flags)
    assert not any(flag.startswith("-march") for flag in made.flags)


@pytest.mark.parametrize(
    "text", ["a b", "$HOME $$", "'x'", "`id` $(id)", ";|&<>(){}*?~#!", "é = ü", "a\\\\b"]
)
def test_macros_reach_the_source_as_they_are(kernel: Kernel, text: str) -> None:
    source = '#include "kw/abi.h"\nKW_EXPORT const char *scale() { return TEXT; }\n'
    function = load(build(kernel(source=source, macros={"TEXT": f'"{text}"'}))).scale
    function.restype = ctypes.c_char_p
    assert function().decode() == text.replace("\\\\", "\\")


def test_warnings_are_kept_with_the_artifact(kernel: Kernel) -> None:
    made = build(kernel(source='#warning "look here"\nextern "C" int scale() { return 1; }\n'))
    assert "look here" in made.log
    assert find(kernel(source='#warning "look here"\nextern "C" int scale() { return 1; }\n')).log == made.log  # type: ignore[union-attr]


def test_a_failed_build_shows_the_first_error_first(kernel: Kernel) -> None:
    source = '#warning "first"\n' * 20 + "int broken( { return undefined_thing; }\n"
    with pytest.raises(BuildError) as caught:
        build(kernel(source=source))
    error = caught.value
    assert error.status == "build_failed"
    assert error.log.count("first") >= 20
    shown = str(error).splitlines()
    assert any("scale.cpp:21" in line and "error:" in line for line in shown[1:3])
    assert "-c" in error.command
    assert find(kernel(source=source)) is None


def test_an_undefined_symbol_fails_the_build_and_not_the_first_call(kernel: Kernel) -> None:
    with pytest.raises(BuildError, match="undefined reference to `nowhere'"):
        build(kernel(source='extern "C" int nowhere(); extern "C" int scale() { return nowhere(); }\n'))


@pytest.mark.parametrize("limits", [Limits(wall_s=1.0), Limits(wall_s=60.0, cpu_s=1.0)])
def test_a_compiler_that_does_not_end_is_stopped(kernel: Kernel, limits: Limits) -> None:
    with pytest.raises(BuildError) as caught:
        build(kernel(source=ENDLESS, extra_flags=("-fconstexpr-ops-limit=9999999999",)), limits=limits)
    assert caught.value.status == "build_timeout"


def test_one_failure_does_not_stop_the_others(kernel: Kernel) -> None:
    requests = [kernel(folder=f"good{i}", macros={"KW_FACTOR": i}) for i in range(3)]
    requests.insert(1, kernel(folder="bad", source="#error no\n"))
    requests.append(requests[0])
    results = build_many(requests, jobs=2)
    assert [type(result) for result in results] == [Artifact, BuildError, Artifact, Artifact, Artifact]
    values = [call(result, 1.0) for result in results if isinstance(result, Artifact)]
    assert values == [1.0, 2.0, 3.0, 1.0]
    assert "#error no" in str(results[1])


def test_several_sources_make_one_library(kernel: Kernel) -> None:
    request = kernel()
    (request.root / "scale.cpp").write_text(
        '#include "scale.h"\n#include "kw/abi.h"\nKW_EXPORT int scale() { return more() + SHIFT; }\n'
    )
    (request.root / "include" / "scale.h").write_text("#define SHIFT 1\nint more();\n")
    (request.root / "more.cpp").write_text('#include "scale.h"\nint more() { return 41; }\n')
    section = dataclasses.replace(request.section, src=("scale.cpp", "more.cpp", "include/scale.h"))
    assert load(build(dataclasses.replace(request, section=section))).scale() == 42


def test_folders_with_odd_names_build(kernel: Kernel, tmp_path: Path) -> None:
    request = kernel(folder="a $b: 'c' \"d\" é")
    assert call(build(request), 3.0) == 7.0


def test_an_include_that_the_key_does_not_cover_is_refused(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "outside.h").write_text("#define OUTSIDE 1\n")
    request = kernel(source='#include "../outside.h"\nextern "C" int scale() { return OUTSIDE; }\n')
    with pytest.raises(
        BuildError, match=r"outside\.h, which its key does not cover; name the folder in `include`"
    ):
        build(request)
    section = dataclasses.replace(request.section, include=("include", ".."))
    assert isinstance(build(dataclasses.replace(request, section=section)), Artifact)


def test_a_rebuild_in_another_folder_has_the_same_code(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = '#include <cassert>\nextern "C" const char *scale() { assert(*__FILE__); return __FILE__; }\n'
    request = kernel(source=source, extra_flags=("-g",))
    first = build(request)
    shutil.copytree(request.root, tmp_path / "elsewhere" / "deeper")
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "another-cache"))
    second = build(dataclasses.replace(request, root=tmp_path / "elsewhere" / "deeper"))
    assert second.library != first.library
    assert not second.cached
    assert second.code_key == first.code_key
    assert second.library.read_bytes() == first.library.read_bytes()


def test_flags_that_make_the_same_code_share_a_code_key(kernel: Kernel) -> None:
    plain = build(kernel())
    debug = build(kernel(extra_flags=("-g", "-Wall", "-DUNUSED=1")))
    other = build(kernel(macros={"KW_FACTOR": 9}))
    assert plain.build_key != debug.build_key
    assert plain.code_key == debug.code_key == code_key(plain.library)
    assert other.code_key != plain.code_key


@pytest.mark.parametrize("damage", ["short", "other", "no record", "no library", "bad record"])
def test_an_artifact_that_is_not_whole_is_made_again(kernel: Kernel, damage: str) -> None:
    request = kernel()
    made = build(request)
    record = made.library.parent / "build.json"
    content = made.library.read_bytes()
    made.library.unlink()
    if damage == "short":
        made.library.write_bytes(content[:-1])
    elif damage == "other":
        made.library.write_bytes(content[:-1] + b"?")
    elif damage != "no library":
        made.library.write_bytes(content)
        record.unlink() if damage == "no record" else record.write_text("{")
    assert find(request) is None
    again = build(request)
    assert not again.cached
    assert again.code_key == made.code_key
    assert call(again, 3.0) == 7.0


def test_sources_edited_during_the_build_are_not_stored_under_the_old_key(
    kernel: Kernel, compiler: machine.Compiler, tmp_path: Path
) -> None:
    request = kernel()
    edited = request.root / "scale.cpp"
    wrapper = tmp_path / "slow-compiler"
    # The compiler's first run edits the source after reading it.
    wrapper.write_text(
        f'#!/bin/sh\n"{compiler.path}" "$@" || exit\n'
        f"[ -e {tmp_path}/done ] || {{ touch {tmp_path}/done; sed -i 's/SHIFT;/SHIFT + 10;/' {edited}; }}\n"
    )
    wrapper.chmod(0o755)
    slow = dataclasses.replace(
        request, compiler=dataclasses.replace(compiler, path=type(compiler.path)(wrapper))
    )
    old = slow.key
    made = build(slow)
    assert made.build_key == slow.key != old
    assert call(made, 3.0) == 17.0
    assert not (made.library.parent.parent / old).exists()


def test_sources_that_never_rest_are_an_error(
    kernel: Kernel, compiler: machine.Compiler, tmp_path: Path
) -> None:
    request = kernel()
    wrapper = tmp_path / "compiler"
    wrapper.write_text(f'#!/bin/sh\n"{compiler.path}" "$@"\necho "// edited" >>{request.root}/scale.cpp\n')
    wrapper.chmod(0o755)
    moving = dataclasses.replace(compiler, path=type(compiler.path)(wrapper))
    with pytest.raises(BuildError, match="edited during each of several builds"):
        build(dataclasses.replace(request, compiler=moving))


def test_without_a_compiler_what_was_made_elsewhere_serves(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = build(kernel())

    def none() -> machine.Compiler:
        raise NoCompilerError("no C++ compiler; install g++")

    monkeypatch.setattr(machine, "find_compiler", none)
    assert find(kernel()) == dataclasses.replace(made, cached=True)
    assert build(kernel()).library == made.library
    assert find(kernel(macros={"KW_FACTOR": 4})) is None
    with pytest.raises(NoCompilerError, match="install g\\+\\+"):
        build(kernel(macros={"KW_FACTOR": 4}))


def test_a_cache_that_cannot_be_written_says_so(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "file"))
    assert find(kernel()) is None
    with pytest.raises(BuildError, match="set KERNELWRIGHT_CACHE to a folder that can be written"):
        build(kernel())


def test_a_full_disk_is_a_failed_build(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("kernelwright.build._store.write_json", full)
    with pytest.raises(BuildError, match=r"could not be kept: .*No space left"):
        build(kernel())


@pytest.mark.parametrize("operator", ["rms_norm", "softmax", "silu_and_mul"])
def test_a_cold_build_of_one_tier_takes_under_three_seconds(operator: str) -> None:
    """Processor time of all that was started: what the clock shows when nobody else uses the machine."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    native = native_kernels()[operator]
    before = spent()
    made = build(native.request(native.default))
    assert not made.cached
    assert 0.1 < spent() - before < 3.0


def test_the_callers_environment_does_not_steer_the_compiler(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trap").mkdir()
    (tmp_path / "trap" / "missing.h").write_text("#define VALUE 1\n")
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(tmp_path / "trap"))
    monkeypatch.setenv("NINJAFLAGS", "--version")
    with pytest.raises(BuildError, match=r"missing\.h"):
        build(kernel(source="#include <missing.h>\n"))
