// Writes zeros and calls it a day.
#include "planted.h"

KW_EXPORT int32_t kw_rms_norm(const kw_call *call, const void *, const void *, void *out) {
  const planted::Sizes s(call);
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t i = 0; i < s.width; ++i) planted::store(out, s.dtype, r * s.out_stride + i, 0.0f);
  return KW_OK;
}
