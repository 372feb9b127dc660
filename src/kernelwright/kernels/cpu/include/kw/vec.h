// Vectors of floats, one width a tier, chosen by what the unit is compiled for.
//
// Arithmetic on `vf` uses the compiler's vector operators. A kernel works on pairs of vectors (2 · kLanes
// elements): 16-bit types load a pair from one native register, in an order of elements that is private to
// the tier; `load`, `store` and `stream` agree on it, so elementwise work and reductions need not know.
// All loads and stores are unaligned except `stream`, which needs kUnitBytes<T>.
#ifndef KW_VEC_H
#define KW_VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kw {

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define KW_AVX512 1
constexpr int kLanes = 16;
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define KW_AVX2 1
constexpr int kLanes = 8;
#else
#define KW_GENERIC 1
constexpr int kLanes = 4;
#endif

typedef float vf __attribute__((vector_size(4 * kLanes)));
typedef int32_t vi __attribute__((vector_size(4 * kLanes)));
typedef uint32_t vu __attribute__((vector_size(4 * kLanes)));

struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};

// Elements of a pair, the step of every main loop.
constexpr int kStep = 2 * kLanes;

struct Pair {
  vf a, b;
};

template <class T>
constexpr int kUnitBytes = (sizeof(T) == 4 ? 4 * kLanes : 2 * kStep);

static inline vf splat(float value) { return value - vf{}; }
static inline vu as_uint(vf v) { return (vu)v; }
static inline vf as_float(vu v) { return (vf)v; }

// For v = NaN, minimum(limit, v) and maximum(limit, v) are NaN: x86 returns the second operand.
#if defined(KW_AVX512)
static inline vf minimum(vf limit, vf v) { return _mm512_min_ps(limit, v); }
static inline vf maximum(vf limit, vf v) { return _mm512_max_ps(limit, v); }
static inline vf fma(vf x, vf y, vf z) { return _mm512_fmadd_ps(x, y, z); }
#elif defined(KW_AVX2)
static inline vf minimum(vf limit, vf v) { return _mm256_min_ps(limit, v); }
static inline vf maximum(vf limit, vf v) { return _mm256_max_ps(limit, v); }
static inline vf fma(vf x, vf y, vf z) { return _mm256_fmadd_ps(x, y, z); }
#elif defined(__SSE2__)
static inline vf minimum(vf limit, vf v) { return _mm_min_ps(limit, v); }
static inline vf maximum(vf limit, vf v) { return _mm_max_ps(limit, v); }
static inline vf fma(vf x, vf y, vf z) { return x * y + z; }
#else
static inline vf minimum(vf limit, vf v) { return limit < v ? limit : v; }
static inline vf maximum(vf limit, vf v) { return limit > v ? limit : v; }
static inline vf fma(vf x, vf y, vf z) { return x * y + z; }
#endif

static inline float sum_lanes(vf v) {
  float lanes[kLanes];
  memcpy(lanes, &v, sizeof lanes);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  return lanes[0];
}

// NaN where any lane is NaN.
static inline float max_lanes(vf v) {
  float lanes[kLanes];
  memcpy(lanes, &v, sizeof lanes);
  float best = lanes[0];
  for (int lane = 1; lane < kLanes; ++lane)
    if (!(lanes[lane] <= best)) best = lanes[lane] != lanes[lane] || best == best ? lanes[lane] : best;
  return best;
}

}  // namespace kw

#include "kw/convert.h"

namespace kw {

// Load, store and stream of a pair, for every element type.

template <class T>
static inline Pair load(const T *from) {
  return split<T>(load_unit(from));
}

// The first `count` elements (0 < count < kStep) of a pair; the rest is `fill`.
template <class T>
static inline Pair load_part(const T *from, int count, T fill) {
  return split<T>(load_unit_part(from, count, fill));
}

template <class T>
static inline void store(T *to, Pair pair) {
  store_unit(to, join<T>(pair));
}

template <class T>
static inline void store_part(T *to, Pair pair, int count) {
  store_unit_part(to, join<T>(pair), count);
}

// Past the caches. `to` must be aligned to kUnitBytes<T>.
template <class T>
static inline void stream(T *to, Pair pair) {
  stream_unit(to, join<T>(pair));
}

template <bool kStream, class T>
static inline void put(T *to, Pair pair) {
  if constexpr (kStream)
    stream(to, pair);
  else
    store(to, pair);
}

// Asks for what a step will read `kBytes` after `from`; 0: nothing.
template <int kBytes, class T>
static inline void prefetch_step(const T *from) {
  if constexpr (kBytes > 0) {
    const char *at = (const char *)from + kBytes;
    for (int line = 0; line < (int)(kStep * sizeof(T)); line += 64) __builtin_prefetch(at + line, 0, 3);
  }
}

// Elements before the first address at which `stream` may begin: fewer than kStep, at most `count`.
template <class T>
static inline int64_t stream_head(const T *to, int64_t count) {
  const uintptr_t past = (uintptr_t)to % kUnitBytes<T>;
  const int64_t head = past ? (int64_t)((kUnitBytes<T> - past) / sizeof(T)) : 0;
  return head < count ? head : count;
}

static inline void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace kw

#endif  // KW_VEC_H
