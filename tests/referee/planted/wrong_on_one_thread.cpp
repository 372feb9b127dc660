// Gives each thread every other row, whether there are two of them or not.
#include <omp.h>

#include "planted.h"

KW_EXPORT int32_t kw_rms_norm(const kw_call *call, const void *x, const void *weight, void *out) {
  const planted::Sizes s(call);
  const int threads = call->threads > 0 ? call->threads : omp_get_max_threads();
#pragma omp parallel num_threads(threads)
  for (int64_t r = omp_get_thread_num(); r < s.rows; r += 2) planted::row(s, r, x, weight, out, s.width);
  return KW_OK;
}
