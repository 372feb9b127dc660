// Right, but reads one element past the end of its input, as a vector loop without a tail does.
#include "planted.h"

KW_EXPORT int32_t kw_rms_norm(const kw_call *call, const void *x, const void *weight, void *out) {
  const planted::Sizes s(call);
  volatile float sink = 0;
  for (int64_t r = 0; r < s.rows; ++r) {
    planted::row(s, r, x, weight, out, s.width);
    sink = planted::load(x, s.dtype, r * s.x_stride + s.width);
  }
  (void)sink;
  return KW_OK;
}
