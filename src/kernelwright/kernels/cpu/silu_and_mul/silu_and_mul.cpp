// The gate of SwiGLU: y = silu(x[:, :I]) · x[:, I:].
//
// Tensors: x (rows, 2 I), y (rows, I). Two streams in, one out, elementwise.
// A long row is cut into pieces, so that threads share the work when rows are few.
#ifndef KW_PARALLEL_BYTES
#define KW_PARALLEL_BYTES (144 << 10)
#endif

#include "kw/math.h"
#include "kw/rows.h"

// Pairs of vectors per step.
#ifndef KW_UNROLL
#define KW_UNROLL 2
#endif
// Bytes ahead of the reading position to prefetch, in each of the two streams; 0: none.
#ifndef KW_PREFETCH_BYTES
#define KW_PREFETCH_BYTES 1024
#endif
// Elements of a row that one task takes.
#ifndef KW_PIECE
#define KW_PIECE 4096
#endif

namespace {

using namespace kw;

template <class T>
inline Pair gated(Pair gate, Pair value) {
  return Pair{gate.a * sigmoid<T>(gate.a) * value.a, gate.b * sigmoid<T>(gate.b) * value.b};
}

template <bool kStream, class T>
void piece(const T *gate, const T *value, T *y, int64_t count) {
  int64_t i = 0;
  if constexpr (kStream) {
    i = stream_head(y, count);
    const int head = (int)i;
    if (head > 0) store_part(y, gated<T>(load_part(gate, head, T{}), load_part(value, head, T{})), head);
  }
  for (; i + KW_UNROLL * kStep <= count; i += KW_UNROLL * kStep) {
#pragma GCC unroll 8
    for (int k = 0; k < KW_UNROLL; ++k) {
      const int64_t at = i + k * kStep;
      prefetch_step<KW_PREFETCH_BYTES>(gate + at);
      prefetch_step<KW_PREFETCH_BYTES>(value + at);
      put<kStream>(y + at, gated<T>(load(gate + at), load(value + at)));
    }
  }
  for (; i + kStep <= count; i += kStep) put<kStream>(y + i, gated<T>(load(gate + i), load(value + i)));
  if (i < count) {
    const int part = (int)(count - i);
    store_part(y + i, gated<T>(load_part(gate + i, part, T{}), load_part(value + i, part, T{})), part);
  }
}

template <class T>
int32_t run(const kw_call *call, const void *x_buffer, void *y_buffer) {
  Rows x_rows, y_rows;
  if (!as_rows(call->tensor[0], &x_rows) || !as_rows(call->tensor[1], &y_rows)) return KW_UNSUPPORTED_LAYOUT;
  if (y_rows.count != x_rows.count || 2 * y_rows.width != x_rows.width) return KW_UNSUPPORTED_LAYOUT;
  const int64_t rows = y_rows.count, width = y_rows.width;
  if (rows == 0 || width == 0) return KW_OK;

  const T *x = (const T *)x_buffer;
  T *y = (T *)y_buffer;
  const int64_t bytes = 3 * rows * width * (int64_t)sizeof(T);
  const bool streaming = prepare_output(call, y, bytes / 3, bytes);
  const int64_t pieces = (width + KW_PIECE - 1) / KW_PIECE;
  const int threads = thread_count(call, rows * pieces, bytes);
  for_ranges(threads, rows * pieces, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t row = task / pieces, start = task % pieces * KW_PIECE;
      const int64_t count = width - start < KW_PIECE ? width - start : KW_PIECE;
      const T *gate = x + row * x_rows.stride + start;
      T *to = y + row * y_rows.stride + start;
      if (streaming)
        piece<true>(gate, gate + width, to, count);
      else
        piece<false>(gate, gate + width, to, count);
    }
    if (streaming) stream_fence();
  });
  return KW_OK;
}

}  // namespace

KW_EXPORT int32_t kw_silu_and_mul(const kw_call *call, const void *x, void *y) {
  return by_dtype(call, 2, [&](auto element) { return run<decltype(element)>(call, x, y); });
}
