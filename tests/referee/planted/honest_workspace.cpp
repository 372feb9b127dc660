// Honest: keeps memory of its own between calls.
#include <vector>

#include "planted.h"

static std::vector<float> workspace;

KW_EXPORT int32_t kw_rms_norm(const kw_call *call, const void *x, const void *weight, void *out) {
  const planted::Sizes s(call);
  if (workspace.size() < size_t(s.width)) workspace.resize(size_t(s.width));
  for (int64_t i = 0; i < s.width; ++i) workspace[size_t(i)] = planted::load(weight, s.dtype, i);
  for (int64_t r = 0; r < s.rows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < s.width; ++i) {
      const double value = planted::load(x, s.dtype, r * s.x_stride + i);
      sum += value * value;
    }
    const float scale = float(1.0 / sqrt(sum / double(s.width) + double(s.eps)));
    for (int64_t i = 0; i < s.width; ++i)
      planted::store(out, s.dtype, r * s.out_stride + i,
                     planted::load(x, s.dtype, r * s.x_stride + i) * scale * workspace[size_t(i)]);
  }
  return KW_OK;
}
