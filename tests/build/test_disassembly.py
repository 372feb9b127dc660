"""What is found in a binary is what was put there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright import machine
from kernelwright.build import build
from kernelwright.build import BuildRequest
from kernelwright.build import disassemble
from kernelwright.build import features_used
from kernelwright.build import with_implied
from kernelwright.errors import FileFormatError
from kernelwright.errors import MissingExtraError

Kernel = Callable[..., BuildRequest]


def assembly(*instructions: str) -> str:
    return 'extern "C" __attribute__((visibility("default"))) void scale() {\n' + "".join(
        f'  asm volatile("{instruction}");\n' for instruction in instructions
    ) + "}\n"  # fmt: skip


@pytest.mark.parametrize(
    ("instruction", "feature"),
    [
        ("addsubps %xmm1, %xmm0", "pni"),
        ("pshufb %xmm1, %xmm0", "ssse3"),
        ("pmulld %xmm1, %xmm0", "sse4_1"),
        ("pcmpgtq %xmm1, %xmm0", "sse4_2"),
        ("popcnt %eax, %eax", "popcnt"),
        ("lzcnt %eax, %eax", "abm"),
        ("andn %eax, %eax, %eax", "bmi1"),
        ("pdep %eax, %eax, %eax", "bmi2"),
        ("movbe (%rsp), %eax", "movbe"),
        ("vaddps %ymm0, %ymm1, %ymm2", "avx"),
        ("vpaddd %ymm0, %ymm1, %ymm2", "avx2"),
        ("vfmadd231ps %ymm0, %ymm1, %ymm2", "fma"),
        ("vcvtph2ps %xmm0, %ymm0", "f16c"),
        ("vaddps %zmm0, %zmm1, %zmm2", "avx512f"),
        ("vpaddw %zmm0, %zmm1, %zmm2", "avx512bw"),
        ("vandps %zmm0, %zmm1, %zmm2", "avx512dq"),
        ("vaddps %ymm17, %ymm1, %ymm2", "avx512vl"),
        ("vdpbf16ps %zmm0, %zmm1, %zmm2", "avx512_bf16"),
        ("vpdpbusd %zmm0, %zmm1, %zmm2", "avx512_vnni"),
        ("vpermb %zmm0, %zmm1, %zmm2", "avx512vbmi"),
        ("vaddph %zmm0, %zmm1, %zmm2", "avx512_fp16"),
        ("tdpbf16ps %tmm0, %tmm1, %tmm2", "amx_bf16"),
    ],
)
def test_each_instruction_is_found_by_its_feature(kernel: Kernel, instruction: str, feature: str) -> None:
    contents = disassemble(build(kernel(source=assembly(instruction))).library)
    assert contents.features[feature] == 1
    mnemonic = instruction.split()[0]
    assert mnemonic.removesuffix("l") in contents.example[feature]
    assert feature in contents.beyond(())
    assert feature not in contents.beyond({feature})


def test_plain_code_needs_no_more_than_x86_64(kernel: Kernel) -> None:
    contents = disassemble(build(kernel()).library)
    assert contents.beyond(()) == {}
    assert contents.undecoded == ()
    assert contents.instructions > 10
    assert {"lm", "sse2"} <= features_used(build(kernel()).library)


def test_what_older_processors_run_as_something_harmless_is_not_counted(kernel: Kernel) -> None:
    source = assembly("pause", "endbr64", "rep bsf %eax, %eax", "nopw 0x0(%rax,%rax,1)")
    assert disassemble(build(kernel(source=source)).library).beyond(()) == {}


def test_widths_are_counted(kernel: Kernel) -> None:
    source = assembly(
        *["vaddps %ymm0, %ymm1, %ymm2"] * 3, *["vaddps %zmm0, %zmm1, %zmm2"] * 2, "vmovups %zmm0, (%rsp)"
    )
    widths = disassemble(build(kernel(source=source)).library).widths
    assert (widths["ymm"], widths["zmm"]) == (3, 3)
    assert widths["scalar"] > 0


@pytest.mark.parametrize("flags", [(), ("-fno-plt",), ("-fcf-protection=full",), ("-Wl,-z,lazy",)])
def test_calls_into_libm_are_named_and_counted(kernel: Kernel, flags: tuple[str, ...]) -> None:
    source = """
    #include <math.h>
    #include <stdlib.h>
    extern "C" __attribute__((visibility("default"))) double scale(double x) {
      return exp(x) + exp(x + 1) * expf(x) + abs((int)strtol("1", 0, 10));
    }
    """
    contents = disassemble(build(kernel(source=source, extra_flags=flags)).library)
    assert contents.libm == {"exp": 2, "expf": 1}


def test_a_vectorised_loop_calls_no_scalar_exp(kernel: Kernel) -> None:
    assert disassemble(build(kernel()).library).libm == {}


def test_implied_features_follow_from_the_higher_ones() -> None:
    assert {"avx2", "avx", "sse4_2", "pni", "fma"} <= with_implied({"avx512f"})
    assert "avx512f" not in with_implied({"avx2"})
    for low, high in zip(machine.TIERS, machine.TIERS[1:], strict=False):
        assert with_implied(low.requires) < with_implied(high.requires)


def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_text("not a library")
    with pytest.raises(FileFormatError, match="not an ELF library"):
        disassemble(path)


def test_without_the_extra_it_says_what_to_install(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build(kernel())
    monkeypatch.setitem(sys.modules, "iced_x86", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'kernelwright\[disassembly\]'"):
        features_used(made.library)
