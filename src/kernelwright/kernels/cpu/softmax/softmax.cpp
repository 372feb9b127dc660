// Softmax over rows: y = exp(x − max(x)) / Σ exp(x − max(x)).
//
// Tensors: x (rows, hidden), y (rows, hidden).
// Three passes over a row: its maximum; exponentials into a scratch row of floats, with their sum; the
// scaled result. x comes from memory once and y goes there once; the scratch row stays in a near cache.
#include <math.h>
#include <stdlib.h>

#include "kw/math.h"
#include "kw/rows.h"

// Independent chains of the maximum and of the sum.
#ifndef KW_ACCUMULATORS
#define KW_ACCUMULATORS 2
#endif
// Pairs of vectors per step of the exponential and of the scaling.
#ifndef KW_UNROLL
#define KW_UNROLL 2
#endif
// How many rows ahead the second pass prefetches; 0: none.
#ifndef KW_PREFETCH_ROWS
#define KW_PREFETCH_ROWS 1
#endif

namespace {

using namespace kw;

template <class T>
T lowest();
template <>
inline float lowest<float>() {
  return -INFINITY;
}
template <>
inline bf16 lowest<bf16>() {
  return bf16{0xff80};
}
template <>
inline f16 lowest<f16>() {
  return f16{0xfc00};
}

// NaN may be lost here; it comes back with the exponentials.
template <class T>
float row_maximum(const T *x, int64_t width) {
  Pair best[KW_ACCUMULATORS];
  for (Pair &pair : best) pair = Pair{splat(-INFINITY), splat(-INFINITY)};
  int64_t i = 0;
  for (; i + KW_ACCUMULATORS * kStep <= width; i += KW_ACCUMULATORS * kStep) {
#pragma GCC unroll 8
    for (int k = 0; k < KW_ACCUMULATORS; ++k) {
      const Pair pair = load(x + i + k * kStep);
      best[k] = Pair{maximum(pair.a, best[k].a), maximum(pair.b, best[k].b)};
    }
  }
  for (; i < width; i += kStep) {
    const Pair pair = i + kStep <= width ? load(x + i) : load_part(x + i, (int)(width - i), lowest<T>());
    best[0] = Pair{maximum(pair.a, best[0].a), maximum(pair.b, best[0].b)};
  }
  vf all = splat(-INFINITY);
  for (const Pair &pair : best) all = maximum(maximum(pair.a, pair.b), all);
  return max_lanes(all);
}

template <class T>
float exponentials(const T *x, float *scratch, int64_t width, float top, const T *ahead) {
  const vf shift = splat(top);
  Pair sums[KW_UNROLL] = {};
  int64_t i = 0;
  for (; i + KW_UNROLL * kStep <= width; i += KW_UNROLL * kStep) {
#pragma GCC unroll 8
    for (int k = 0; k < KW_UNROLL; ++k) {
      const int64_t at = i + k * kStep;
      if (KW_PREFETCH_ROWS > 0) {
        __builtin_prefetch(ahead + at, 0, 3);
        if (sizeof(T) * kStep > 64) __builtin_prefetch(ahead + at + kLanes, 0, 3);
      }
      const Pair pair = load(x + at);
      const Pair e = Pair{exp(pair.a - shift), exp(pair.b - shift)};
      store(scratch + at, e);
      sums[k] = Pair{sums[k].a + e.a, sums[k].b + e.b};
    }
  }
  for (; i < width; i += kStep) {
    const Pair pair = i + kStep <= width ? load(x + i) : load_part(x + i, (int)(width - i), lowest<T>());
    const Pair e = Pair{exp(pair.a - shift), exp(pair.b - shift)};
    store(scratch + i, e);  // the scratch row is a whole number of steps long
    sums[0] = Pair{sums[0].a + e.a, sums[0].b + e.b};
  }
  vf total = {};
  for (const Pair &pair : sums) total += pair.a + pair.b;
  return sum_lanes(total);
}

template <bool kStream, class T>
void scale(const float *scratch, T *y, int64_t width, float factor) {
  const vf by = splat(factor);
  // Scratch is laid out in the element order of T's pairs, so a head can only be skipped whole: rows whose
  // start is not aligned for streaming take plain stores (see run).
  int64_t i = 0;
  for (; i + KW_UNROLL * kStep <= width; i += KW_UNROLL * kStep) {
#pragma GCC unroll 8
    for (int k = 0; k < KW_UNROLL; ++k) {
      const Pair e = load(scratch + i + k * kStep);
      put<kStream>(y + i + k * kStep, Pair{e.a * by, e.b * by});
    }
  }
  for (; i < width; i += kStep) {
    const Pair e = load(scratch + i);
    const Pair result = Pair{e.a * by, e.b * by};
    if (i + kStep <= width)
      put<kStream>(y + i, result);
    else
      store_part(y + i, result, (int)(width - i));
  }
}

// A row of floats per thread, kept between calls, freed with the thread.
struct Scratch {
  float *row = nullptr;
  int64_t capacity = 0;
  ~Scratch() { free(row); }
  float *reserve(int64_t count) {
    if (count > capacity) {
      free(row);
      capacity = (count + 1023) / 1024 * 1024;
      row = (float *)aligned_alloc(64, (size_t)capacity * sizeof(float));
      if (row == nullptr) capacity = 0;
    }
    return row;
  }
};
thread_local Scratch scratch_row;

template <class T>
int32_t run(const kw_call *call, const void *x_buffer, void *y_buffer) {
  Rows x_rows, y_rows;
  if (!as_rows(call->tensor[0], &x_rows) || !as_rows(call->tensor[1], &y_rows)) return KW_UNSUPPORTED_LAYOUT;
  if (y_rows.count != x_rows.count || y_rows.width != x_rows.width) return KW_UNSUPPORTED_LAYOUT;
  const int64_t rows = x_rows.count, width = x_rows.width;
  if (rows == 0 || width == 0) return KW_OK;

  const T *x = (const T *)x_buffer;
  T *y = (T *)y_buffer;
  const int64_t bytes = 2 * rows * width * (int64_t)sizeof(T);
  const bool large = bytes >= (int64_t)KW_STREAM_BYTES;
  const int threads = thread_count(call, rows, bytes);
  const int64_t padded = (width + kStep - 1) / kStep * kStep;
  bool out_of_memory = false;
  for_rows(threads, rows, [&](int64_t row) {
    float *scratch = scratch_row.reserve(padded);
    if (scratch == nullptr) {
      __atomic_store_n(&out_of_memory, true, __ATOMIC_RELAXED);
      return;
    }
    const T *from = x + row * x_rows.stride;
    T *to = y + row * y_rows.stride;
    const int64_t next = row + KW_PREFETCH_ROWS < rows ? KW_PREFETCH_ROWS : 0;
    const float top = row_maximum(from, width);
    const float sum = exponentials(from, scratch, width, top, from + next * x_rows.stride);
    if (large && (uintptr_t)to % kUnitBytes<T> == 0)
      scale<true>(scratch, to, width, 1.0f / sum);
    else
      scale<false>(scratch, to, width, 1.0f / sum);
  });
  if (large) stream_fence();
  return out_of_memory ? KW_OUT_OF_MEMORY : KW_OK;
}

}  // namespace

KW_EXPORT int32_t kw_softmax(const kw_call *call, const void *x, void *y) {
  if (call->abi_version != KW_ABI_VERSION || call->tensors != 2) return KW_ABI_MISMATCH;
  const int32_t dtype = call->tensor[0].dtype;
  if (call->tensor[1].dtype != dtype) return KW_UNSUPPORTED_DTYPE;
  switch (dtype) {
    case KW_F32:
      return run<float>(call, x, y);
    case KW_BF16:
      return run<bf16>(call, x, y);
    case KW_F16:
      return run<f16>(call, x, y);
    default:
      return KW_UNSUPPORTED_DTYPE;
  }
}
