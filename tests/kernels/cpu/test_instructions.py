"""No kernel of a tier uses an instruction that the check for the tier does not cover; each earns its tier.

A wrong flag, a header's attribute or a library's inline function is enough to put an AVX512 instruction into
code for every processor; only the binary tells.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernelwright.kernels.cpu
from kernelwright import machine
from kernelwright.build import Artifact
from kernelwright.build import build
from kernelwright.build import build_many
from kernelwright.build import BuildRequest
from kernelwright.build import Contents
from kernelwright.build import disassemble
from kernelwright.build import KernelSection
from kernelwright.build import read_build_file
from kernelwright.build import requests_of
from kernelwright.kernels.cpu import native_kernels

REQUIRES = {tier.name: tier.requires for tier in machine.TIERS}
#: Sections that are no tier: what whoever runs them checks first.
CHECKED_APART = {"probes/arithmetic_vnni": REQUIRES["avx512"] | {"avx512_vnni"}}
FOLDER = Path(kernelwright.kernels.cpu.__file__).parent


def default_requests() -> dict[str, BuildRequest]:
    """Every section of every build.toml of the CPU kernels, operators in their default configuration."""
    found = {}
    kernels = native_kernels()
    for path in sorted(FOLDER.glob("*/build.toml")):
        file = read_build_file(path)
        kernel = kernels.get(path.parent.name)
        for request in requests_of(file):
            tiers = kernel.build_file.tiers(kernel.operator) if kernel is not None else {}
            if kernel is not None and tiers.get(request.tier) == request.section:
                request = kernel.request(kernel.default, request.tier)
            found[f"{path.parent.name}/{request.section.name}"] = request
    return found


REQUESTS = default_requests()


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Contents]]:
    """What each section's library contains."""
    session = tmp_path_factory.getbasetemp()
    # Workers that share the tests share the builds as well.
    shared = session.parent if "PYTEST_XDIST_WORKER" in os.environ else session
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELWRIGHT_CACHE", str(shared / "kernels"))
        results = build_many(list(REQUESTS.values()))
        for result in results:
            assert isinstance(result, Artifact), str(result)
        yield {
            name: disassemble(result.library)
            for name, result in zip(REQUESTS, results, strict=True)
            if isinstance(result, Artifact)
        }


def allowed(name: str) -> frozenset[str]:
    """The features that are checked before this section's library runs."""
    if name in CHECKED_APART:
        return CHECKED_APART[name]
    tier = REQUESTS[name].tier
    assert tier is not None, f"section {name} names no tier, and nothing says what is checked for it"
    return REQUIRES[tier]


def test_every_operator_is_there_in_every_tier() -> None:
    wanted = {(name, tier.name) for name in native_kernels() for tier in machine.TIERS}
    assert wanted <= {(name.partition("/")[0], request.tier) for name, request in REQUESTS.items()}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_tier_uses_no_instruction_beyond_its_check(contents: dict[str, Contents], name: str) -> None:
    assert contents[name].undecoded == ()
    assert contents[name].beyond(allowed(name)) == {}


@pytest.mark.parametrize("name", [name for name, request in REQUESTS.items() if request.tier != "generic"])
def test_a_tier_uses_the_registers_that_it_is_for(contents: dict[str, Contents], name: str) -> None:
    widths = contents[name].widths
    wide, narrow = ("ymm", "xmm") if REQUESTS[name].tier == "avx2" else ("zmm", "ymm")
    assert widths[wide] > 0
    assert widths[wide] > widths[narrow]


@pytest.mark.parametrize("name", REQUESTS)
def test_no_kernel_calls_a_scalar_function_for_each_element(contents: dict[str, Contents], name: str) -> None:
    assert set(contents[name].libm) <= {"sqrtf"}, "sqrtf is called once a row, for negative input only"


@pytest.mark.parametrize(
    ("statement", "feature"),
    [
        ('asm volatile("vaddps %zmm0, %zmm1, %zmm2")', "avx512f"),
        ('asm volatile("vpdpbusd %ymm0, %ymm1, %ymm2")', "avx512_vnni"),
        ('asm volatile("lzcnt %eax, %eax")', "abm"),
    ],
)
def test_a_planted_instruction_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, feature: str
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "planted.cpp").write_text(f"void planted() {{ {statement}; }}\n")
    section = KernelSection("planted_avx2", "cpu", (), ("planted.cpp",), (), ("-mavx2",))
    beyond = disassemble(build(BuildRequest(section, tmp_path)).library).beyond(REQUIRES["avx2"])
    assert feature in beyond


def test_a_planted_flag_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole tier compiled with one flag too many, as a slip in build.toml would do."""
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    kernel = native_kernels()["rms_norm"]
    sound = kernel.request(kernel.default, "avx2")
    slipped = BuildRequest(sound.section, sound.root, sound.macros, (*sound.extra_flags, "-mavx512vl"))
    beyond = disassemble(build(slipped).library).beyond(REQUIRES["avx2"])
    assert {"avx512f", "avx512vl"} & set(beyond)
