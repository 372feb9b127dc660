// Softmax over rows: y = exp(x − max(x)) / Σ exp(x − max(x)).
//
// Tensors: x (rows, hidden), y (rows, hidden).
// Three passes over a row: its maximum; exponentials into a scratch row of floats, with their sum; the
// scaled result. They run as a pipeline over rows: one loop takes the maximum of the next row, the
// exponentials of this one and the results of the one before, so that reading memory, arithmetic and
// writing memory overlap instead of taking turns.
#include <math.h>
#include <stdlib.h>

#ifndef KW_PARALLEL_BYTES
#define KW_PARALLEL_BYTES (96 << 10)
#endif

#include "kw/math.h"
#include "kw/rows.h"

// Pairs of vectors per step: independent chains of the maximum and of the sum.
#ifndef KW_UNROLL
#define KW_UNROLL 2
#endif
// Bytes ahead of the reading position to prefetch; 0: none.
#ifndef KW_PREFETCH_BYTES
#define KW_PREFETCH_BYTES 1024
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

// The maximum of a row, in as many chains as a step has pairs. NaN may be lost in it: it comes back with the
// exponentials.
struct Maximum {
  Pair best[KW_UNROLL];
  Maximum() {
    for (Pair &pair : best) pair = Pair{splat(-INFINITY), splat(-INFINITY)};
  }
  void add(int chain, Pair pair) {
    best[chain] = Pair{maximum(pair.a, best[chain].a), maximum(pair.b, best[chain].b)};
  }
  float result() const {
    vf all = splat(-INFINITY);
    for (const Pair &pair : best) all = maximum(maximum(pair.a, pair.b), all);
    return max_lanes(all);
  }
};

template <class T>
Pair load_up_to(const T *from, int64_t left) {
  return left >= kStep ? load(from) : load_part(from, (int)left, lowest<T>());
}

template <class T>
float row_maximum(const T *x, int64_t width) {
  Maximum top;
  int64_t i = 0;
  for (; i + KW_UNROLL * kStep <= width; i += KW_UNROLL * kStep) {
#pragma GCC unroll 8
    for (int k = 0; k < KW_UNROLL; ++k) top.add(k, load(x + i + k * kStep));
  }
  for (; i < width; i += kStep) top.add(0, load_up_to(x + i, width - i));
  return top.result();
}

// A finished row of exponentials, waiting to be scaled into `y`.
template <class T>
struct Pending {
  const float *exponentials;
  T *y;
  vf factor;
};

template <bool kStream, class T>
inline void scale(const Pending<T> &row, int64_t i) {
  const Pair e = load(row.exponentials + i);
  put<kStream>(row.y + i, Pair{e.a * row.factor, e.b * row.factor});
}

template <class T>
inline void scale_part(const Pending<T> &row, int64_t i, int count) {
  const Pair e = load(row.exponentials + i);
  store_part(row.y + i, Pair{e.a * row.factor, e.b * row.factor}, count);
}

template <bool kStream, class T>
void finish(const Pending<T> &row, int64_t width) {
  int64_t i = 0;
  for (; i + kStep <= width; i += kStep) scale<kStream>(row, i);
  if (i < width) scale_part(row, i, (int)(width - i));
}

// Exponentials of a row, relative to its maximum `top`, into `scratch`; their sum. With kPending, meanwhile
// writes the pending row. Leaves the maximum of the row `next` in `next_top`.
template <bool kStream, bool kPending, class T>
float exponentials(const T *x, float *scratch, int64_t width, float top, const Pending<T> &pending,
                   const T *next, float *next_top) {
  const vf shift = splat(top);
  Maximum next_maximum;
  Pair sums[KW_UNROLL] = {};
  const auto step = [&](int chain, int64_t at, Pair pair) {
    const Pair e = Pair{exp_negative<T>(pair.a - shift), exp_negative<T>(pair.b - shift)};
    store(scratch + at, e);  // the scratch row is a whole number of steps long
    sums[chain] = Pair{sums[chain].a + e.a, sums[chain].b + e.b};
  };
  int64_t i = 0;
  for (; i + KW_UNROLL * kStep <= width; i += KW_UNROLL * kStep) {
#pragma GCC unroll 8
    for (int k = 0; k < KW_UNROLL; ++k) {
      const int64_t at = i + k * kStep;
      prefetch_step<KW_PREFETCH_BYTES>(next + at);
      next_maximum.add(k, load(next + at));
      step(k, at, load(x + at));
      if constexpr (kPending) scale<kStream>(pending, at);
    }
  }
  for (; i < width; i += kStep) {
    const int64_t left = width - i;
    next_maximum.add(0, load_up_to(next + i, left));
    step(0, i, load_up_to(x + i, left));
    if constexpr (kPending) {
      if (left >= kStep)
        scale<kStream>(pending, i);
      else
        scale_part(pending, i, (int)left);
    }
  }
  *next_top = next_maximum.result();
  vf total = {};
  for (const Pair &pair : sums) total += pair.a + pair.b;
  return sum_lanes(total);
}

template <bool kStream, class T>
void softmax_rows(const T *x, int64_t x_stride, T *y, int64_t y_stride, int64_t rows, int64_t width,
                  float *scratch, int64_t padded) {
  Pending<T> pending = {};
  float top = row_maximum(x, width);
  for (int64_t row = 0; row < rows; ++row) {
    const T *from = x + row * x_stride;
    const T *next = row + 1 < rows ? from + x_stride : from;
    float *mine = scratch + (row & 1) * padded;
    float next_top;
    const float sum = row == 0
                          ? exponentials<kStream, false>(from, mine, width, top, pending, next, &next_top)
                          : exponentials<kStream, true>(from, mine, width, top, pending, next, &next_top);
    pending = Pending<T>{mine, y + row * y_stride, splat(1.0f / sum)};
    top = next_top;
  }
  finish<kStream>(pending, width);
  if (kStream) stream_fence();
}

// Scratch of a thread, kept between calls, freed with the thread.
struct Scratch {
  float *floats = nullptr;
  int64_t capacity = 0;
  ~Scratch() { free(floats); }
  float *reserve(int64_t count) {
    if (count > capacity) {
      free(floats);
      capacity = (count + 1023) / 1024 * 1024;
      floats = (float *)aligned_alloc(64, (size_t)capacity * sizeof(float));
      if (floats == nullptr) capacity = 0;
    }
    return floats;
  }
};
thread_local Scratch thread_scratch;

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
  const int threads = thread_count(call, rows, bytes);
  const int64_t padded = (width + kStep - 1) / kStep * kStep;
  // Every row of y must start where streaming stores may.
  const bool streaming = prepare_output(call, y, bytes / 2, bytes) && (uintptr_t)y % kUnitBytes<T> == 0 &&
                         (rows == 1 || y_rows.stride * (int64_t)sizeof(T) % kUnitBytes<T> == 0);
  bool out_of_memory = false;
  for_ranges(threads, rows, [&](int64_t first, int64_t last) {
    float *scratch = thread_scratch.reserve(2 * padded);
    if (scratch == nullptr) {
      __atomic_store_n(&out_of_memory, true, __ATOMIC_RELAXED);
      return;
    }
    const auto rows_from = streaming ? softmax_rows<true, T> : softmax_rows<false, T>;
    rows_from(x + first * x_rows.stride, x_rows.stride, y + first * y_rows.stride, y_rows.stride,
              last - first, width, scratch, padded);
  });
  return out_of_memory ? KW_OUT_OF_MEMORY : KW_OK;
}

}  // namespace

KW_EXPORT int32_t kw_softmax(const kw_call *call, const void *x, void *y) {
  return by_dtype(call, 2, [&](auto element) { return run<decltype(element)>(call, x, y); });
}
