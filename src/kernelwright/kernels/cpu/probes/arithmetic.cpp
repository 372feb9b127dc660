// Probes of arithmetic: how many operations a second this machine's vector units do on registers alone.
//
//     int32_t kw_fp32(const kw_call *call, void *out)   multiply and add, fused where the tier has it
//     int32_t kw_bf16(const kw_call *call, void *out)   vdpbf16ps; only where the tier has it
//     int32_t kw_int8(const kw_call *call, void *out)   vpdpbusd, or vpmaddubsw + vpmaddwd + vpaddd
//
// scalar[0] is the number of operations wanted of all threads together; a multiplication and an addition
// count one each. It is rounded up to whole rounds, which is nothing beside the millions that a probe asks
// for. `out` has 64 bytes for each thread and takes the results, so that they are needed.
#include <immintrin.h>
#include <omp.h>
#include <stdint.h>
#include <string.h>
#include <utility>

#include "kw/abi.h"

namespace {

// Independent chains: enough to keep two units busy through the latency of an operation (4 cycles for an FMA,
// 8 for a multiplication and an addition, more for vdpbf16ps), few enough to stay in registers.
#if defined(__AVX512F__)
constexpr int kChains = 24;
using vf = __m512;
static inline vf multiply_add(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
#elif defined(__AVX2__)
constexpr int kChains = 12;
using vf = __m256;
static inline vf multiply_add(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
#else
constexpr int kChains = 12;
using vf = __m128;
static inline vf multiply_add(vf a, vf b, vf c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
#endif

constexpr int64_t kLanes = sizeof(vf) / sizeof(float);

template <class V>
static inline void opaque(V &value) {
#if defined(__AVX512F__)
  asm("" : "+v"(value));  // any of the 32 registers
#else
  asm("" : "+x"(value));
#endif
}

// Run body(0) to body(kChains - 1) with the loop written out: left to a loop, the chains end up in memory.
template <class Body, int... kIndex>
static inline void written_out(Body body, std::integer_sequence<int, kIndex...>) {
  (body(kIndex), ...);
}
template <class Body>
static inline void for_each_chain(Body body) {
  written_out(body, std::make_integer_sequence<int, kChains>());
}

template <class V>
static inline void keep(void *out, int thread, const V (&chain)[kChains]) {
  V sum = {};
  for_each_chain([&](int i) { sum += chain[i]; });
  memcpy((char *)out + 64 * thread, &sum, sizeof sum);
}

// Rounds for each thread, where a round does `each` operations.
static inline int64_t rounds_of(const kw_call *call, int threads, int64_t each) {
  return (int64_t)(call->scalar[0] / (double)threads / (double)each) + 1;
}

template <class Body>
static int32_t run(const kw_call *call, int64_t each, Body body) {
  if (call->abi_version != KW_ABI_VERSION) return KW_ABI_MISMATCH;
  const int threads = call->threads > 0 ? call->threads : omp_get_max_threads();
  if (call->tensor[0].size[0] < 64 * (int64_t)threads) return KW_BAD_ARGUMENT;
  const int64_t rounds = rounds_of(call, threads, each);
#pragma omp parallel num_threads(threads)
  body(omp_get_thread_num(), rounds);
  return KW_OK;
}

}  // namespace

KW_EXPORT int32_t kw_fp32(const kw_call *call, void *out) {
  return run(call, kChains * kLanes * 2, [out](int thread, int64_t rounds) {
    vf chain[kChains] = {};
    vf factor = vf{} + 0.999f, term = vf{} + 0.001f;  // converges to 1: no overflow, nothing subnormal
    opaque(factor);
    opaque(term);
    for_each_chain([&](int i) { chain[i] = vf{} + (float)i; });
    for (int64_t r = 0; r < rounds; ++r) {
      for_each_chain([&](int i) { chain[i] = multiply_add(chain[i], factor, term); });
    }
    keep(out, thread, chain);
  });
}

#if defined(__AVX512BF16__)
KW_EXPORT int32_t kw_bf16(const kw_call *call, void *out) {
  return run(call, kChains * kLanes * 4, [out](int thread, int64_t rounds) {
    vf chain[kChains] = {};
    // Different from each other, or the compiler would make one chain of equal ones.
    for_each_chain([&](int i) { chain[i] = vf{} + (float)i; });
    vf small = vf{} + 1e-9f;
    __m512bh a = _mm512_cvtne2ps_pbh(small, small), b = a;
    opaque(a);
    opaque(b);
    for (int64_t r = 0; r < rounds; ++r) {
      for_each_chain([&](int i) { chain[i] = _mm512_dpbf16_ps(chain[i], a, b); });
    }
    keep(out, thread, chain);
  });
}
#endif

#if defined(__AVX2__)
namespace {
using vi = int32_t __attribute__((vector_size(sizeof(vf))));
static inline vi splat(int32_t value) { return value - vi{}; }
#if defined(__AVX512VNNI__)
static inline vi dot(vi sum, vi a, vi b, vi) {
  return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
}
#elif defined(__AVX512BW__)
static inline vi dot(vi sum, vi a, vi b, vi ones) {
  const __m512i pairs = _mm512_maddubs_epi16((__m512i)a, (__m512i)b);
  return sum + (vi)_mm512_madd_epi16(pairs, (__m512i)ones);
}
#else
static inline vi dot(vi sum, vi a, vi b, vi ones) {
  const __m256i pairs = _mm256_maddubs_epi16((__m256i)a, (__m256i)b);
  return sum + (vi)_mm256_madd_epi16(pairs, (__m256i)ones);
}
#endif
}  // namespace

KW_EXPORT int32_t kw_int8(const kw_call *call, void *out) {
  return run(call, kChains * (int64_t)sizeof(vi) * 2, [out](int thread, int64_t rounds) {
    vi chain[kChains] = {};
    for_each_chain([&](int i) { chain[i] = splat(i); });
    vi a = splat(0x01010101), b = a, ones = splat(0x00010001);
    opaque(b);
    opaque(ones);
    for (int64_t r = 0; r < rounds; ++r) {
      for_each_chain([&](int i) {
        opaque(a);  // without this, the products of the longer sequence would be made once
        chain[i] = dot(chain[i], a, b, ones);
      });
    }
    keep(out, thread, chain);
  });
}
#endif
