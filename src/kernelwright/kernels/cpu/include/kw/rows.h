// What row-wise kernels share: the check of a call, the split of rows over threads, when to stream.
#ifndef KW_ROWS_H
#define KW_ROWS_H

#include <omp.h>
#include <sys/mman.h>

#include "kw/abi.h"
#include "kw/vec.h"

// Bytes of the whole call above which its output goes past the caches.
#ifndef KW_STREAM_BYTES
#define KW_STREAM_BYTES (8 << 20)
#endif
// Bytes of the whole call from which two threads work on it; each further thread needs half as much again,
// so that what it takes off the others outweighs waking it and waiting for it. A kernel that computes more
// per byte sets less before it includes this file.
#ifndef KW_PARALLEL_BYTES
#define KW_PARALLEL_BYTES (256 << 10)
#endif
// Rows a thread takes at a time; 0: one equal share each.
#ifndef KW_ROWS_PER_TASK
#define KW_ROWS_PER_TASK 0
#endif

namespace kw {

struct Rows {
  int64_t count, width, stride;
};

static inline bool as_rows(const kw_tensor &tensor, Rows *rows) {
  if (tensor.ndim != 2 || tensor.size[0] < 0 || tensor.size[1] < 0) return false;
  if (tensor.size[1] > 1 && tensor.stride[1] != 1) return false;
  *rows = Rows{tensor.size[0], tensor.size[1], tensor.stride[0]};
  return true;
}

static inline int thread_count(const kw_call *call, int64_t tasks, int64_t bytes) {
  if (tasks < 2 || bytes < (int64_t)KW_PARALLEL_BYTES) return 1;
  const int most = call->threads > 0 ? call->threads : omp_get_max_threads();
  const int64_t worthwhile =
      bytes / ((int64_t)KW_PARALLEL_BYTES / 2 > 0 ? (int64_t)KW_PARALLEL_BYTES / 2 : 1);
  const int64_t fewer = tasks < worthwhile ? tasks : worthwhile;
  return fewer < most ? (int)fewer : most;
}

// run(T{}) for the element type that all tensors of the call have in common.
template <class Run>
static inline int32_t by_dtype(const kw_call *call, int tensors, Run run) {
  if (call->abi_version != KW_ABI_VERSION || call->tensors != tensors) return KW_ABI_MISMATCH;
  const int32_t dtype = call->tensor[0].dtype;
  for (int i = 1; i < tensors; ++i)
    if (call->tensor[i].dtype != dtype) return KW_UNSUPPORTED_DTYPE;
  switch (dtype) {
    case KW_F32:
      return run(float{});
    case KW_BF16:
      return run(bf16{});
    case KW_F16:
      return run(f16{});
    default:
      return KW_UNSUPPORTED_DTYPE;
  }
}

// Whether the output goes past the caches. Pages of a fresh output do not exist yet: the kernel zeroes each
// when it is first touched, which leaves it in a cache, where plain stores find it; what costs then is the
// number of pages, so large ones are asked for. (A refusal changes nothing but the time.)
static inline bool prepare_output(const kw_call *call, void *output, int64_t output_bytes,
                                  int64_t call_bytes) {
  if (!(call->flags & KW_FRESH_OUTPUT)) return call_bytes >= (int64_t)KW_STREAM_BYTES;
#if defined(MADV_HUGEPAGE)
  const uintptr_t page = 4096, first = ((uintptr_t)output + page - 1) / page * page;
  const uintptr_t last = ((uintptr_t)output + (uintptr_t)output_bytes) / page * page;
  if (first < last) madvise((void *)first, last - first, MADV_HUGEPAGE);
#endif
  return false;
}

// body(first, last) for ranges that together are all rows: one equal share a thread, or KW_ROWS_PER_TASK at a
// time. One thread skips OpenMP altogether: entering a region costs microseconds.
template <class Body>
static inline void for_ranges(int threads, int64_t rows, Body body) {
  if (threads == 1) {
    body((int64_t)0, rows);
    return;
  }
  const int64_t share = KW_ROWS_PER_TASK > 0 ? KW_ROWS_PER_TASK : (rows + threads - 1) / threads;
  const int64_t tasks = (rows + share - 1) / share;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (int64_t task = 0; task < tasks; ++task) {
    const int64_t first = task * share;
    body(first, first + share < rows ? first + share : rows);
  }
}

}  // namespace kw

#endif  // KW_ROWS_H
