"""The search spaces of ptxas and nvcc are made of what those found here list and take."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kernelwright.controls import Controls
from kernelwright.controls import encode_controls
from kernelwright.controls import NvccSearchSpace
from kernelwright.controls import PtxasSearchSpace
from kernelwright.controls._cuda_help import read_help
from kernelwright.controls._cuda_probe import takes
from kernelwright.errors import NoCompilerError
from kernelwright.errors import SpaceError
from kernelwright.errors import UnknownNameError
from kernelwright.machine import find_cuda_tool
from kernelwright.machine import find_cuda_tools
from kernelwright.space import SearchSpace

#: Options that are no matter of tuning: what is built, debugging, diagnostics, hardening.
NEVER = {
    "--compile-only",
    "--device-debug",
    "--sanitize",
    "--output-file",
    "--gpu-name",
    "--verbose",
    "--sp-bounds-check",
    "--device-stack-protector",
    "--position-independent-code",
    "--warning-as-error",
    "--maxntid",
}


@pytest.fixture(scope="module")
def ptxas() -> PtxasSearchSpace:
    return PtxasSearchSpace()


@pytest.fixture(scope="module")
def nvcc() -> NvccSearchSpace:
    return NvccSearchSpace()


@pytest.fixture(scope="module")
def wide_nvcc() -> NvccSearchSpace:
    return NvccSearchSpace(variant="wide", unsafe_math=True)


def test_ptxas_has_levels_caps_and_cache_policies(ptxas: PtxasSearchSpace) -> None:
    names = ptxas.space().parameters
    assert [*names] == [
        "--opt-level",
        "--maxrregcount",
        "--register-usage-level",
        "--allow-expensive-optimizations",
        "--def-load-cache",
        "--def-store-cache",
    ]
    listed = read_help(find_cuda_tool("ptxas"))
    assert names.keys() <= listed.keys()
    # What the help does not say was asked of the tool.
    assert names["--def-load-cache"].inner.values() == ("ca", "cg", "cs", "lu", "cv")  # type: ignore[attr-defined]
    assert names["--def-store-cache"].inner.values() == ("wb", "cg", "cs", "wt")  # type: ignore[attr-defined]


def test_every_ptxas_here_has_a_space_of_what_it_takes() -> None:
    versions = {tool.version: tool for tool in find_cuda_tools("ptxas")}
    for tool in versions.values():
        provider = PtxasSearchSpace(tool.path, variant="wide", unsafe_math=True)
        names = provider.space().parameters
        assert str(tool) in provider.version
        assert names.keys() <= read_help(tool).keys()
        assert not names.keys() & NEVER
        assert {
            "--opt-level",
            "--maxrregcount",
            "--def-load-cache",
            "--fmad",
            "--return-at-end",
        } <= names.keys()
        rng = random.Random(1)
        for _ in range(3):
            configuration = {name: one.inner.sample(rng) for name, one in names.items()}  # type: ignore[attr-defined]
            apart = ("--minnctapersm", "--Ofast-compile", "--force-load-cache", "--def-store-cache")
            configuration |= dict.fromkeys(apart)
            words = bytes.fromhex(provider.render(configuration)).decode().splitlines()[1:]
            assert takes(tool, "sm_90", words), (tool, words)


def test_options_that_change_results_are_offered_on_request_alone(wide_nvcc: NvccSearchSpace) -> None:
    safe = PtxasSearchSpace(variant="wide").space().parameters
    assert not {"--fmad", "--optimize-float-atomics", "--force-load-cache"} & safe.keys()
    assert {
        "--fmad",
        "--ftz",
        "--use_fast_math",
        "--prec-div",
        "--restrict",
    } <= wide_nvcc.space().parameters.keys()
    assert not {"--fmad", "--ftz"} & NvccSearchSpace().space().parameters.keys()


def test_variants_differ_by_what_the_kernel_is_about() -> None:
    named = {
        name: PtxasSearchSpace(variant=name).space().parameters.keys()
        for name in ("attention", "memory_bound")
    }
    assert "--def-load-cache" in named["memory_bound"]
    assert "--def-load-cache" not in named["attention"]
    assert "--dont-merge-basicblocks" in named["attention"]
    wide = PtxasSearchSpace(variant="wide").space().parameters.keys()
    assert named["attention"] | named["memory_bound"] < wide
    with pytest.raises(UnknownNameError, match="unknown variant"):
        PtxasSearchSpace(variant="narrow")  # type: ignore[arg-type]


def test_nvcc_has_its_own_options_and_those_of_its_ptxas(
    nvcc: NvccSearchSpace, wide_nvcc: NvccSearchSpace
) -> None:
    assert {
        "--maxrregcount",
        "--extra-device-vectorization",
        "-Xptxas=--opt-level",
        "-Xptxas=--def-load-cache",
        "-Xptxas=--allow-expensive-optimizations",
    } <= nvcc.space().parameters.keys()
    wide = wide_nvcc.space().parameters.keys()
    assert {"--dlink-time-opt", "--Ofast-compile", "--jump-table-density"} <= wide
    # Those that nvcc hands on itself are there once.
    assert not {"-Xptxas=--maxrregcount", "-Xptxas=--fmad"} & wide


def test_options_that_a_tool_takes_and_does_not_heed_are_left_out() -> None:
    tool = find_cuda_tool("ptxas")
    assert takes(tool, "sm_90", ["--opt-level=1"])
    assert not takes(tool, "sm_90", ["--register-usage-level=11"])  # "option will be ignored"
    assert not takes(tool, "sm_90", ["--def-load-cache=wb"])
    assert not takes(tool, "sm_90", ["--no-such-option"])


@pytest.mark.parametrize("which", ["ptxas", "wide_nvcc"])
def test_what_is_rendered_is_parsed(which: str, request: pytest.FixtureRequest) -> None:
    provider = request.getfixturevalue(which)
    rng = random.Random(2)
    for _ in range(40):
        configuration = provider.space().sample(rng)
        text = provider.render(configuration)
        assert provider.parse(text) == configuration
        assert bytes.fromhex(text).startswith(f"kernelwright-controls 1 {provider.tool}\n".encode())


def test_a_cap_comes_with_what_makes_it_count(ptxas: PtxasSearchSpace, nvcc: NvccSearchSpace) -> None:
    """`__launch_bounds__` beats a cap without a word, unless ptxas is told otherwise."""
    for provider, override in ((ptxas, "--override"), (nvcc, "-Xptxas=--override")):
        nothing = dict.fromkeys(provider.space().parameters)
        text = provider.render({**nothing, "--maxrregcount": 64})
        words = bytes.fromhex(text).decode().splitlines()[1:]
        assert words == ["--maxrregcount=64", f"{override}-directive-values"]
        assert provider.parse(text)["--maxrregcount"] == 64
        assert SearchSpace(provider).config(nothing) == {}


def test_options_that_ptxas_takes_one_of_are_never_chosen_together() -> None:
    space = PtxasSearchSpace(variant="memory_bound", knockout_prob=0.1).space()
    nothing = dict.fromkeys(space.parameters)
    assert space.contains({**nothing, "--minnctapersm": 2})
    assert not space.contains({**nothing, "--minnctapersm": 2, "--maxrregcount": 64})
    wide = PtxasSearchSpace(variant="wide").space()
    nothing = dict.fromkeys(wide.parameters)
    assert not wide.contains({**nothing, "--opt-level": 2, "--Ofast-compile": "max"})


def test_levels_are_explicit(ptxas: PtxasSearchSpace, nvcc: NvccSearchSpace) -> None:
    assert ptxas.level("lowest") == encode_controls(Controls("ptxas", ("--opt-level=0",)))
    assert ptxas.level("baseline") == ptxas.level("highest")
    assert nvcc.level("lowest") == encode_controls(Controls("nvcc", ("-Xptxas=--opt-level=0",)))


def test_the_version_is_pinned(ptxas: PtxasSearchSpace) -> None:
    found = find_cuda_tool("ptxas")
    assert ptxas.version == f"ptxas {found.version} (sm_90)"
    assert ptxas.version in str(SearchSpace(ptxas).describe())
    other = PtxasSearchSpace(architecture="sm_100")
    assert SearchSpace(other).fingerprint != SearchSpace(ptxas).fingerprint


def test_named_options_are_searched_alone() -> None:
    chosen = PtxasSearchSpace(options=["--maxrregcount", "--return-at-end"])
    assert [*chosen.space().parameters] == ["--maxrregcount", "--return-at-end"]
    with pytest.raises(UnknownNameError, match=r"unknown option of ptxas .* did you mean '--maxrregcount'"):
        PtxasSearchSpace(options=["--maxregcount"])


def test_options_of_another_tool_are_no_configuration(ptxas: PtxasSearchSpace, nvcc: NvccSearchSpace) -> None:
    with pytest.raises(SpaceError, match="options of nvcc cannot be a configuration of ptxas's"):
        ptxas.parse(nvcc.level("lowest"))
    with pytest.raises(SpaceError, match="'--return-at-end' is not among the options"):
        ptxas.parse(encode_controls(Controls("ptxas", ("--return-at-end",))))


def test_without_the_tool_it_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(NoCompilerError, match="there is no program"):
        PtxasSearchSpace(tmp_path / "ptxas")
    with pytest.raises(NoCompilerError, match="there is no program"):
        NvccSearchSpace(tmp_path / "nvcc")
