// Root-mean-square normalisation: y = x / sqrt(mean(x²) + eps) · weight, one row at a time.
//
// Tensors: x (rows, hidden), weight (hidden), y (rows, hidden). Scalars: eps.
// Two passes over a row: the sum of its squares, then the result. One loop takes the second pass over a row
// and the first one over the row after it, so that reading and writing memory overlap.
#include <math.h>

#include "kw/math.h"
#include "kw/rows.h"

// Pairs of vectors per step, and independent chains of the sum of squares; one would wait for each addition.
#ifndef KW_UNROLL
#define KW_UNROLL 4
#endif
// 1: the first pass over the first row asks for the weight, as a model of many layers finds each one in no
// cache.
#ifndef KW_PREFETCH_WEIGHT
#define KW_PREFETCH_WEIGHT 1
#endif
// Bytes ahead of the reading position to prefetch; 0: none.
#ifndef KW_PREFETCH_BYTES
#define KW_PREFETCH_BYTES 1024
#endif

namespace {

using namespace kw;

// Squares of one unit, added to a pair of accumulators.
template <class T>
inline void add_squares(Pair *sum, Unit<T> unit) {
  const Pair pair = split<T>(unit);
  sum->a = fma(pair.a, pair.a, sum->a);
  sum->b = fma(pair.b, pair.b, sum->b);
}
#if defined(KW_AVX512) && defined(__AVX512BF16__)
// The dot-product instruction squares and adds neighbours exactly, in single precision, without widening.
template <>
inline void add_squares<bf16>(Pair *sum, Unit<bf16> unit) {
  sum->a = _mm512_dpbf16_ps(sum->a, (__m512bh)unit.reg, (__m512bh)unit.reg);
}
#endif

// The sum of the squares of a row: element by element into the same chain, whoever walks over the row, so
// that its bits do not depend on how rows are shared out over threads.
template <class T>
struct Squares {
  Pair sums[KW_UNROLL] = {};

  __attribute__((always_inline)) void add(int chain, const T *from) {
    add_squares<T>(&sums[chain], load_unit(from));
  }

  // What is left of `x` from the element `i` on, a multiple of KW_UNROLL * kStep; `step(i)` before each pair.
  template <class Step>
  __attribute__((always_inline)) float finish(const T *x, int64_t i, int64_t width, Step step) {
    for (; i + KW_UNROLL * kStep <= width; i += KW_UNROLL * kStep) {
#pragma GCC unroll 8
      for (int k = 0; k < KW_UNROLL; ++k) {
        step(i + k * kStep);
        add(k, x + i + k * kStep);
      }
    }
    for (; i + kStep <= width; i += kStep) add(0, x + i);
    if (i < width) add_squares<T>(&sums[0], load_unit_part(x + i, (int)(width - i), T{}));
    vf all = {};
    for (const Pair &pair : sums) all += pair.a + pair.b;
    return sum_lanes(all);
  }
};

inline Pair scaled(Pair x, Pair weight, vf factor) {
  return Pair{x.a * factor * weight.a, x.b * factor * weight.b};
}

// y = x · factor · weight over a row. With kNext, also the sum of squares of the row `next`.
template <bool kStream, bool kNext, class T>
float normalise(const T *x, const T *weight, T *y, int64_t width, float rstd, const T *next) {
  const vf factor = splat(rstd);
  const auto part = [&](int64_t at, int count) {
    store_part(y + at, scaled(load_part(x + at, count, T{}), load_part(weight + at, count, T{}), factor),
               count);
  };
  const auto step = [&](int64_t at) {
    put<kStream>(y + at, scaled(load(x + at), load(weight + at), factor));
  };
  Squares<T> squares;
  const int64_t head = kStream ? stream_head(y, width) : 0;
  if (head > 0) part(0, (int)head);
  int64_t i = head;
  for (; i + KW_UNROLL * kStep <= width; i += KW_UNROLL * kStep) {
#pragma GCC unroll 8
    for (int k = 0; k < KW_UNROLL; ++k) {
      if constexpr (kNext) {
        const T *from = next + (i - head) + k * kStep;
        prefetch_step<KW_PREFETCH_BYTES>(from);
        squares.add(k, from);
      }
      step(i + k * kStep);
    }
  }
  const int64_t walked = i - head;
  for (; i + kStep <= width; i += kStep) step(i);
  if (i < width) part(i, (int)(width - i));
  return kNext ? squares.finish(next, walked, width, [](int64_t) {}) : 0.0f;
}

template <bool kStream, class T>
void rms_norm_rows(const T *x, int64_t x_stride, const T *weight, T *y, int64_t y_stride, int64_t rows,
                   int64_t width, float eps) {
  const float inverse_width = 1.0f / (float)width;
  float squares = Squares<T>().finish(x, 0, width, [&](int64_t at) {
    if (KW_PREFETCH_WEIGHT) prefetch_step<1>(weight + at);
  });
  for (int64_t row = 0; row < rows; ++row, x += x_stride, y += y_stride) {
    const float rstd = 1.0f / sqrtf(squares * inverse_width + eps);
    if (row + 1 < rows)
      squares = normalise<kStream, true>(x, weight, y, width, rstd, x + x_stride);
    else
      normalise<kStream, false>(x, weight, y, width, rstd, x);
  }
  if (kStream) stream_fence();
}

template <class T>
int32_t run(const kw_call *call, const void *x_buffer, const void *weight_buffer, void *y_buffer) {
  Rows x_rows, y_rows;
  const kw_tensor &weight_tensor = call->tensor[1];
  if (!as_rows(call->tensor[0], &x_rows) || !as_rows(call->tensor[2], &y_rows)) return KW_UNSUPPORTED_LAYOUT;
  if (y_rows.count != x_rows.count || y_rows.width != x_rows.width || weight_tensor.ndim != 1 ||
      weight_tensor.size[0] != x_rows.width || (x_rows.width > 1 && weight_tensor.stride[0] != 1))
    return KW_UNSUPPORTED_LAYOUT;
  const int64_t rows = x_rows.count, width = x_rows.width;
  if (rows == 0 || width == 0) return KW_OK;

  const T *x = (const T *)x_buffer;
  const T *weight = (const T *)weight_buffer;
  T *y = (T *)y_buffer;
  const float eps = (float)call->scalar[0];
  const int64_t bytes = 2 * rows * width * (int64_t)sizeof(T);
  const bool streaming = prepare_output(call, y, bytes / 2, bytes);
  const auto rows_from = streaming ? rms_norm_rows<true, T> : rms_norm_rows<false, T>;
  for_ranges(thread_count(call, rows, bytes), rows, [&](int64_t first, int64_t last) {
    rows_from(x + first * x_rows.stride, x_rows.stride, weight, y + first * y_rows.stride, y_rows.stride,
              last - first, width, eps);
  });
  return KW_OK;
}

}  // namespace

KW_EXPORT int32_t kw_rms_norm(const kw_call *call, const void *x, const void *weight, void *y) {
  return by_dtype(call, 3, [&](auto element) { return run<decltype(element)>(call, x, weight, y); });
}
