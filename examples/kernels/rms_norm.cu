// y = x * w / sqrt(mean(x^2) + eps) for rows of bf16, eight values a load: one block a row.
// Grid: (rows). Block: (BLOCK). `vectors` is hidden / 8; rows and w are aligned to 16 bytes.
#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef UNROLL
#define UNROLL 2
#endif
constexpr int unroll = UNROLL;  // a pragma does not expand macros

__device__ __forceinline__ void widen(unsigned packed, float& low, float& high) {
  low = __uint_as_float(packed << 16);
  high = __uint_as_float(packed & 0xffff0000u);
}

__device__ __forceinline__ unsigned narrow(float low, float high) {
  unsigned packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ __forceinline__ float square(unsigned packed) {
  float low, high;
  widen(packed, low, high);
  return low * low + high * high;
}

__device__ __forceinline__ unsigned scaled(unsigned x, unsigned w, float scale) {
  float xl, xh, wl, wh;
  widen(x, xl, xh);
  widen(w, wl, wh);
  return narrow(xl * scale * wl, xh * scale * wh);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    rms_norm(const uint4* __restrict__ x, const uint4* __restrict__ w, uint4* __restrict__ y, int vectors,
             float eps) {
  __shared__ float partial[BLOCK / 32];
  const uint4* row = x + (size_t)blockIdx.x * vectors;
  uint4* out = y + (size_t)blockIdx.x * vectors;

  float sum = 0.0f;
#pragma unroll unroll
  for (int i = threadIdx.x; i < vectors; i += BLOCK) {
    uint4 v = row[i];
    sum += square(v.x) + square(v.y) + square(v.z) + square(v.w);
  }
  for (int distance = 16; distance; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0.0f;
#pragma unroll
  for (int warp = 0; warp < BLOCK / 32; warp++) sum += partial[warp];
  float scale = rsqrtf(sum / (8.0f * vectors) + eps);

#pragma unroll unroll
  for (int i = threadIdx.x; i < vectors; i += BLOCK) {
    uint4 v = row[i], g = w[i];
    out[i] = make_uint4(scaled(v.x, g.x, scale), scaled(v.y, g.y, scale), scaled(v.z, g.z, scale),
                        scaled(v.w, g.w, scale));
  }
}
