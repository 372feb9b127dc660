// Honest: rows spread over threads.
#include <omp.h>

#include "planted.h"

KW_EXPORT int32_t kw_rms_norm(const kw_call *call, const void *x, const void *weight, void *out) {
  const planted::Sizes s(call);
  const int threads = call->threads > 0 ? call->threads : omp_get_max_threads();
#pragma omp parallel for num_threads(threads)
  for (int64_t r = 0; r < s.rows; ++r) planted::row(s, r, x, weight, out, s.width);
  return KW_OK;
}
