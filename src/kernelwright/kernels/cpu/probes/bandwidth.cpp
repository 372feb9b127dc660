// Probes of memory bandwidth: how fast this machine copies and reads, whatever the kernel.
//
//     int32_t kw_read(const kw_call *call, void *area)              reads the area
//     int32_t kw_copy_1_plain, kw_copy_1_nontemporal                writes one half from the other
//     int32_t kw_copy_2_plain, kw_copy_2_nontemporal                writes one third from the other two
//
// tensor[0].size[0] is the size of the area in bytes, scalar[0] how often to pass over it, `threads` how many
// threads share it; each has a part of its own, so that a part can stay in a cache of its core. A part is cut
// into streams of whole blocks with a gap between them: kernelwright.cli._probes counts the same bytes.
#include <immintrin.h>
#include <omp.h>
#include <stddef.h>
#include <stdint.h>

#include "kw/abi.h"

namespace {

#if defined(__AVX512F__)
using vec = __m512i;
static inline void stream(vec *to, vec value) { _mm512_stream_si512(to, value); }
static inline vec combine(vec a, vec b) { return _mm512_xor_si512(a, b); }
#elif defined(__AVX2__)
using vec = __m256i;
static inline void stream(vec *to, vec value) { _mm256_stream_si256(to, value); }
static inline vec combine(vec a, vec b) { return _mm256_xor_si256(a, b); }
#else
using vec = __m128i;
static inline void stream(vec *to, vec value) { _mm_stream_si128(to, value); }
static inline vec combine(vec a, vec b) { return _mm_xor_si128(a, b); }
#endif

constexpr int kUnroll = 8;
constexpr int64_t kBlock = 512;  // a multiple of kUnroll * sizeof(vec) in every tier
// Source and destination at the same offset in a page make each load wait for a store that it does not need.
constexpr int64_t kSkew = 1024;
// Hardware prefetchers leave some of the memory's bandwidth unused, the more so at the edges of pages.
constexpr int64_t kAhead = 2048;
static_assert(kBlock % (kUnroll * sizeof(vec)) == 0, "a block is whole vectors");

struct Part {
  char *begin;
  int64_t stream_bytes;  // of each stream; streams lie `stream_bytes + kSkew` apart
};

// The part of one thread, for `streams` streams of equal size.
static inline Part part_of(char *area, int64_t bytes, int thread, int threads, int streams) {
  const int64_t share = bytes / threads / 4096 * 4096;
  const int64_t each = (share - (streams - 1) * kSkew) / streams / kBlock * kBlock;
  return Part{area + thread * share, each};
}

template <int kReads, bool kNonTemporal>
static inline void pass(const Part &part) {
  const char *a = part.begin;
  const char *b = a + part.stream_bytes + kSkew;
  char *out = part.begin + kReads * (part.stream_bytes + kSkew);
  for (int64_t at = 0; at < part.stream_bytes; at += kUnroll * (int64_t)sizeof(vec)) {
    vec value[kUnroll];
    for (int line = 0; line < kUnroll * (int)sizeof(vec); line += 64) {
      __builtin_prefetch(a + at + kAhead + line, 0, 3);
      if constexpr (kReads == 2) __builtin_prefetch(b + at + kAhead + line, 0, 3);
    }
    for (int i = 0; i < kUnroll; ++i) value[i] = ((const vec *)(a + at))[i];
    if constexpr (kReads == 2) {
      for (int i = 0; i < kUnroll; ++i) value[i] = combine(value[i], ((const vec *)(b + at))[i]);
    }
    for (int i = 0; i < kUnroll; ++i) {
      if constexpr (kNonTemporal) {
        stream((vec *)(out + at) + i, value[i]);
      } else {
        ((vec *)(out + at))[i] = value[i];
      }
    }
  }
  if constexpr (kNonTemporal) _mm_sfence();
}

static inline void read_pass(const Part &part, vec (&sum)[kUnroll]) {
  for (int64_t at = 0; at < part.stream_bytes; at += kUnroll * (int64_t)sizeof(vec)) {
    for (int i = 0; i < kUnroll; ++i) sum[i] = combine(sum[i], ((const vec *)(part.begin + at))[i]);
  }
}

template <class Body>
static int32_t run(const kw_call *call, void *buffer, int streams, Body body) {
  if (call->abi_version != KW_ABI_VERSION) return KW_ABI_MISMATCH;
  const int threads = call->threads > 0 ? call->threads : omp_get_max_threads();
  const int64_t passes = (int64_t)call->scalar[0];
  const int64_t bytes = call->tensor[0].size[0];
  if (passes < 1 || (uintptr_t)buffer % 64 != 0) return KW_BAD_ARGUMENT;
  if (part_of((char *)buffer, bytes, 0, threads, streams).stream_bytes < kBlock) return KW_BAD_ARGUMENT;
#pragma omp parallel num_threads(threads)
  {
    const Part part = part_of((char *)buffer, bytes, omp_get_thread_num(), threads, streams);
    for (int64_t i = 0; i < passes; ++i) {
      body(part);
      asm volatile("" ::: "memory");  // no pass may be merged with the next
    }
  }
  return KW_OK;
}

}  // namespace

KW_EXPORT int32_t kw_read(const kw_call *call, void *area) {
  return run(call, area, 1, [](const Part &part) {
    vec sum[kUnroll] = {};
    read_pass(part, sum);
    for (int i = 1; i < kUnroll; ++i) sum[0] = combine(sum[0], sum[i]);
    asm volatile("" : : "x"(sum[0]));  // the reads are needed
  });
}

KW_EXPORT int32_t kw_copy_1_plain(const kw_call *call, void *area) {
  return run(call, area, 2, [](const Part &part) { pass<1, false>(part); });
}

KW_EXPORT int32_t kw_copy_1_nontemporal(const kw_call *call, void *area) {
  return run(call, area, 2, [](const Part &part) { pass<1, true>(part); });
}

KW_EXPORT int32_t kw_copy_2_plain(const kw_call *call, void *area) {
  return run(call, area, 3, [](const Part &part) { pass<2, false>(part); });
}

KW_EXPORT int32_t kw_copy_2_nontemporal(const kw_call *call, void *area) {
  return run(call, area, 3, [](const Part &part) { pass<2, true>(part); });
}
