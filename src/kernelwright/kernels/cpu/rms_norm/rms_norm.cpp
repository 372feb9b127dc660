// Root-mean-square normalisation: y = x / sqrt(mean(x²) + eps) · weight, one row at a time.
//
// Tensors: x (rows, hidden), weight (hidden), y (rows, hidden). Scalars: eps.
// Two passes over a row: the second finds x in the first-level cache, and meanwhile asks memory for the row
// to come, so that the memory pipe never rests.
#include <math.h>

#include "kw/math.h"
#include "kw/rows.h"

// Independent chains of the sum of squares; one would wait for the latency of each addition.
#ifndef KW_ACCUMULATORS
#define KW_ACCUMULATORS 4
#endif
// Pairs of vectors written per step of the second pass.
#ifndef KW_UNROLL
#define KW_UNROLL 2
#endif
// How many rows ahead the second pass prefetches; 0: none.
#ifndef KW_PREFETCH_ROWS
#define KW_PREFETCH_ROWS 1
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

template <class T>
float sum_of_squares(const T *x, int64_t width) {
  Pair sums[KW_ACCUMULATORS] = {};
  int64_t i = 0;
  for (; i + KW_ACCUMULATORS * kStep <= width; i += KW_ACCUMULATORS * kStep) {
#pragma GCC unroll 8
    for (int k = 0; k < KW_ACCUMULATORS; ++k) add_squares<T>(&sums[k], load_unit(x + i + k * kStep));
  }
  for (; i + kStep <= width; i += kStep) add_squares<T>(&sums[0], load_unit(x + i));
  if (i < width) add_squares<T>(&sums[0], load_unit_part(x + i, (int)(width - i), T{}));
  vf total = {};
#pragma GCC unroll 8
  for (int k = 0; k < KW_ACCUMULATORS; ++k) total += sums[k].a + sums[k].b;
  return sum_lanes(total);
}

inline Pair scaled(Pair x, Pair weight, vf factor) {
  return Pair{x.a * factor * weight.a, x.b * factor * weight.b};
}

template <bool kStream, class T>
void normalise(const T *x, const T *weight, T *y, int64_t width, float rstd, const T *ahead) {
  const vf factor = splat(rstd);
  int64_t i = 0;
  if constexpr (kStream) {
    i = stream_head(y, width);
    const int head = (int)i;
    if (head > 0)
      store_part(y, scaled(load_part(x, head, T{}), load_part(weight, head, T{}), factor), head);
  }
  for (; i + KW_UNROLL * kStep <= width; i += KW_UNROLL * kStep) {
#pragma GCC unroll 8
    for (int k = 0; k < KW_UNROLL; ++k) {
      const int64_t at = i + k * kStep;
      if (KW_PREFETCH_ROWS > 0) {
        __builtin_prefetch(ahead + at, 0, 3);
        if (sizeof(T) * kStep > 64) __builtin_prefetch(ahead + at + kLanes, 0, 3);
      }
      put<kStream>(y + at, scaled(load(x + at), load(weight + at), factor));
    }
  }
  for (; i + kStep <= width; i += kStep) {
    put<kStream>(y + i, scaled(load(x + i), load(weight + i), factor));
  }
  if (i < width) {
    const int part = (int)(width - i);
    store_part(y + i, scaled(load_part(x + i, part, T{}), load_part(weight + i, part, T{}), factor), part);
  }
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
  const float eps = (float)call->scalar[0], inverse_width = 1.0f / (float)width;
  const int64_t bytes = 2 * rows * width * (int64_t)sizeof(T);
  const bool streaming = bytes >= (int64_t)KW_STREAM_BYTES;
  const int threads = thread_count(call, rows, bytes);
  for_rows(threads, rows, [&](int64_t row) {
    const T *from = x + row * x_rows.stride;
    T *to = y + row * y_rows.stride;
    const float rstd = 1.0f / sqrtf(sum_of_squares(from, width) * inverse_width + eps);
    const int64_t next = row + KW_PREFETCH_ROWS < rows ? KW_PREFETCH_ROWS : 0;
    const T *ahead = from + next * x_rows.stride;
    if (streaming)
      normalise<true>(from, weight, to, width, rstd, ahead);
    else
      normalise<false>(from, weight, to, width, rstd, ahead);
  });
  if (streaming) stream_fence();
  return KW_OK;
}

}  // namespace

KW_EXPORT int32_t kw_rms_norm(const kw_call *call, const void *x, const void *weight, void *y) {
  if (call->abi_version != KW_ABI_VERSION || call->tensors != 3) return KW_ABI_MISMATCH;
  const int32_t dtype = call->tensor[0].dtype;
  if (call->tensor[1].dtype != dtype || call->tensor[2].dtype != dtype) return KW_UNSUPPORTED_DTYPE;
  switch (dtype) {
    case KW_F32:
      return run<float>(call, x, weight, y);
    case KW_BF16:
      return run<bf16>(call, x, weight, y);
    case KW_F16:
      return run<f16>(call, x, weight, y);
    default:
      return KW_UNSUPPORTED_DTYPE;
  }
}
