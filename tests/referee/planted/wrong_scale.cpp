// Divides by the sum of squares plus one: close to right for long rows of ordinary values only.
#include "planted.h"

KW_EXPORT int32_t kw_rms_norm(const kw_call *call, const void *x, const void *weight, void *out) {
  planted::Sizes s(call);
  s.eps += 1e-2f;
  for (int64_t r = 0; r < s.rows; ++r) planted::row(s, r, x, weight, out, s.width);
  return KW_OK;
}
