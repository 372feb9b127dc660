// What planted rms_norm kernels share: reading and writing elements, and the honest row.
#ifndef PLANTED_H
#define PLANTED_H

#include <math.h>
#include <string.h>

#include "kw/abi.h"

namespace planted {

inline float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

inline uint32_t to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}

inline float load(const void *data, int dtype, int64_t i) {
  if (dtype == KW_F32) return static_cast<const float *>(data)[i];
  if (dtype == KW_BF16) return from_bits(uint32_t(static_cast<const uint16_t *>(data)[i]) << 16);
  return float(static_cast<const _Float16 *>(data)[i]);
}

inline void store(void *data, int dtype, int64_t i, float value) {
  if (dtype == KW_F32) {
    static_cast<float *>(data)[i] = value;
  } else if (dtype == KW_BF16) {
    const uint32_t bits = to_bits(value);
    const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    static_cast<uint16_t *>(data)[i] = isnan(value) ? 0x7FC0 : uint16_t(rounded);
  } else {
    static_cast<_Float16 *>(data)[i] = _Float16(value);
  }
}

struct Sizes {
  int64_t rows, width, x_stride, out_stride;
  int dtype;
  float eps;
  explicit Sizes(const kw_call *call)
      : rows(call->tensor[0].size[0]),
        width(call->tensor[0].size[1]),
        x_stride(call->tensor[0].stride[0]),
        out_stride(call->tensor[2].stride[0]),
        dtype(call->tensor[0].dtype),
        eps(float(call->scalar[0])) {}
};

inline void row(const Sizes &s, int64_t r, const void *x, const void *weight, void *out, int64_t width) {
  double sum = 0;
  for (int64_t i = 0; i < s.width; ++i) {
    const double value = load(x, s.dtype, r * s.x_stride + i);
    sum += value * value;
  }
  const float scale = float(1.0 / sqrt(sum / double(s.width) + double(s.eps)));
  for (int64_t i = 0; i < width; ++i)
    store(out, s.dtype, r * s.out_stride + i,
          load(x, s.dtype, r * s.x_stride + i) * scale * load(weight, s.dtype, i));
}

inline void all(const kw_call *call, const void *x, const void *weight, void *out) {
  const Sizes s(call);
  for (int64_t r = 0; r < s.rows; ++r) row(s, r, x, weight, out, s.width);
}

}  // namespace planted

#endif  // PLANTED_H
