// Scales its input in place and restores nothing.
#include "planted.h"

KW_EXPORT int32_t kw_rms_norm(const kw_call *call, void *x, const void *weight, void *out) {
  const planted::Sizes s(call);
  for (int64_t r = 0; r < s.rows; ++r) planted::row(s, r, x, weight, out, s.width);
  if (s.rows > 0 && s.width > 0) planted::store(x, s.dtype, 0, 2.0f + planted::load(x, s.dtype, 0));
  return KW_OK;
}
