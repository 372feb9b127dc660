"""clang builds the same kernels, and its OpenMP code runs on the one OpenMP that the process has."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import example
from hypothesis import given
from hypothesis import HealthCheck
from hypothesis import settings
from hypothesis import strategies as st

from kernelwright import machine
from kernelwright.build import build
from kernelwright.build import BuildRequest
from kernelwright.build import disassemble
from kernelwright.build import load
from kernelwright.errors import BuildError
from kernelwright.kernels.cpu import native_kernels

Kernel = Callable[..., BuildRequest]

#: Each function counts how often every iteration of [0, n) runs; a correct loop leaves ones.
LOOPS = """
#include <cstdint>
#include <omp.h>
#include "kw/abi.h"
#define LOOP(name, type, clauses)                                                                 \\
  KW_EXPORT void name(int threads, int64_t n, int32_t *count) {                                   \\
    _Pragma("omp parallel num_threads(threads)")                                                  \\
    {                                                                                             \\
      _Pragma(clauses) for (type i = 0; i < (type)n; ++i) __atomic_fetch_add(count + i, 1, 0);    \\
    }                                                                                             \\
  }
LOOP(static_i32, int32_t, "omp for schedule(static)")
LOOP(static_u32, uint32_t, "omp for schedule(static)")
LOOP(static_i64, int64_t, "omp for schedule(static)")
LOOP(static_u64, uint64_t, "omp for schedule(static)")
LOOP(chunked_i32, int32_t, "omp for schedule(static, 3)")
LOOP(chunked_u64, uint64_t, "omp for schedule(static, 3)")
LOOP(dynamic_i64, int64_t, "omp for schedule(dynamic, 4)")
LOOP(dynamic_u32, uint32_t, "omp for schedule(dynamic)")
LOOP(guided_i64, int64_t, "omp for schedule(guided)")
LOOP(runtime_i64, int64_t, "omp for schedule(runtime)")
KW_EXPORT void backwards(int threads, int64_t n, int32_t *count) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = n - 1; i >= 0; --i) __atomic_fetch_add(count + i, 1, 0);
}
KW_EXPORT void strided(int threads, int64_t n, int32_t *count) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 2)
  for (int64_t i = 0; i < n; i += 3)
    for (int64_t j = i; j < i + 3 && j < n; ++j) __atomic_fetch_add(count + j, 1, 0);
}
KW_EXPORT void nested(int threads, int64_t n, int32_t *count) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (int64_t i = 0; i < n; i += 5) {
#pragma omp parallel for num_threads(2) schedule(dynamic, 1)
    for (int64_t j = i; j < (i + 5 < n ? i + 5 : n); ++j) __atomic_fetch_add(count + j, 1, 0);
  }
}
KW_EXPORT void conditional(int threads, int64_t n, int32_t *count) {
#pragma omp parallel for num_threads(threads) if (n > 7)
  for (int64_t i = 0; i < n; ++i) __atomic_fetch_add(count + i, 1, 0);
}
KW_EXPORT int64_t words(int threads, int64_t n) {
  int64_t sum = 0, most = 0, last = -1, once = 0, alone = 0, first = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : sum) reduction(max : most) lastprivate(last)
  for (int64_t i = 0; i < n; ++i) {
    sum += i;
    most = most > i ? most : i;
    last = i;
  }
#pragma omp parallel num_threads(threads)
  {
#pragma omp single
    once += 1;
#pragma omp master
    first += 1;
#pragma omp barrier
#pragma omp critical
    alone += 1;
  }
  const bool right = sum == n * (n - 1) / 2 && most == (n ? n - 1 : 0) && last == (n ? n - 1 : -1);
  return right && once == 1 && first == 1 ? alone : -1;
}
KW_EXPORT int team(int threads) {
  int size = 0;
#pragma omp parallel num_threads(threads)
#pragma omp single
  size = omp_get_num_threads();
  return size;
}
"""
FUNCTIONS = (
    *("static_i32", "static_u32", "static_i64", "static_u64", "chunked_i32", "chunked_u64", "dynamic_i64"),
    *("dynamic_u32", "guided_i64", "runtime_i64", "backwards", "strided", "nested", "conditional"),
)


@pytest.fixture(scope="module")
def clang() -> machine.Compiler:
    found = [one for one in machine.current().compilers if one.kind == "clang"]
    if not found:
        pytest.skip("clang++ is not installed")
    return found[0]


@pytest.fixture
def loops(kernel: Kernel, clang: machine.Compiler) -> ctypes.CDLL:
    return load(build(kernel(source=LOOPS, compiler=clang)))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(threads=st.integers(1, 5), size=st.integers(0, 40))
@example(threads=3, size=0)
@example(threads=3, size=1)
@example(threads=5, size=4)
def test_every_iteration_of_every_loop_runs_once(loops: ctypes.CDLL, threads: int, size: int) -> None:
    for name in FUNCTIONS:
        count = (ctypes.c_int32 * max(size, 1))()
        getattr(loops, name)(ctypes.c_int(threads), ctypes.c_int64(size), count)
        assert list(count)[:size] == [1] * size, name
    loops.words.restype = ctypes.c_int64
    assert loops.words(ctypes.c_int(threads), ctypes.c_int64(size)) == threads


def test_a_team_has_the_size_that_was_asked_for(loops: ctypes.CDLL) -> None:
    assert [loops.team(threads) for threads in (1, 2, 3)] == [1, 2, 3]


def test_it_is_torchs_openmp_that_runs_it(kernel: Kernel, clang: machine.Compiler) -> None:
    made = build(kernel(source=LOOPS, compiler=clang))
    code = """
import ctypes, sys, torch
torch.ones(1 << 20).sum()
assert ctypes.CDLL(sys.argv[1]).team(2) == 2
names = [line.split()[-1] for line in open("/proc/self/maps") if "omp" in line.rpartition("/")[2]]
print(*sorted(set(names)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, made.library], capture_output=True, text=True, check=True, env=os.environ
    )
    (runtime,) = done.stdout.split()
    assert "/torch/lib/libgomp" in runtime


def test_what_the_translation_does_not_know_fails_the_build(kernel: Kernel, clang: machine.Compiler) -> None:
    source = """
    #include "kw/abi.h"
    KW_EXPORT int scale(int n) {
      #pragma omp parallel
      #pragma omp task shared(n)
      n += 1;
      return n;
    }
    """
    with pytest.raises(BuildError, match="undefined reference to `__kmpc_omp_task"):
        build(kernel(source=source, compiler=clang))


def test_gcc_and_clang_have_keys_of_their_own(
    kernel: Kernel, compiler: machine.Compiler, clang: machine.Compiler
) -> None:
    assert kernel(compiler=compiler).key != kernel(compiler=clang).key
    assert kernel(compiler=compiler).source_key == kernel(compiler=clang).source_key


def test_sanitizers_link_with_both(
    kernel: Kernel, compiler: machine.Compiler, clang: machine.Compiler
) -> None:
    for one in (compiler, clang):
        made = build(kernel(compiler=one, extra_flags=("-fsanitize=address",)))
        assert b"__asan_init" in made.library.read_bytes()


def test_clang_spells_native_out_as_well(kernel: Kernel, clang: machine.Compiler) -> None:
    request = kernel(compiler=clang, extra_flags=("-march=native",))
    assert "-march=native" not in request.flags
    assert any(flag.startswith("-march=") for flag in request.flags)
    assert build(request).compiler.startswith("clang ")


@pytest.mark.parametrize("tier", [tier.name for tier in machine.TIERS])
@pytest.mark.parametrize("operator", ["rms_norm", "softmax", "silu_and_mul"])
def test_the_projects_kernels_build_with_clang(operator: str, tier: str, clang: machine.Compiler) -> None:
    kernel = native_kernels()[operator]
    request = dataclasses.replace(kernel.request(kernel.default, tier), compiler=clang)
    contents = disassemble(build(request).library)
    (requires,) = [one.requires for one in machine.TIERS if one.name == tier]
    assert contents.beyond(requires) == {}
