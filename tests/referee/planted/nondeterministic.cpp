// Within the budget, but never twice the same.
#include <time.h>

#include "planted.h"

KW_EXPORT int32_t kw_rms_norm(const kw_call *call, const void *x, const void *weight, void *out) {
  const planted::Sizes s(call);
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  uint64_t state = uint64_t(now.tv_nsec) * 2654435761u + 1;
  for (int64_t r = 0; r < s.rows; ++r) {
    planted::row(s, r, x, weight, out, s.width);
    for (int64_t i = 0; i < s.width; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const float value = planted::load(out, s.dtype, r * s.out_stride + i);
      if (state >> 63 && s.dtype == KW_F32 && isfinite(value))
        planted::store(out, s.dtype, r * s.out_stride + i, planted::from_bits(planted::to_bits(value) ^ 1));
    }
  }
  return KW_OK;
}
