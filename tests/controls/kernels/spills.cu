// Keeps 64 values alive across a loop: fits without a cap on registers, spills with a low one.
extern "C" __global__ void spills(const float* __restrict__ x, float* __restrict__ y, int n) {
  float kept[64];
#pragma unroll
  for (int i = 0; i < 64; i++) kept[i] = x[i * 32 + threadIdx.x];
  for (int step = 0; step < n; step++) {
#pragma unroll
    for (int i = 0; i < 64; i++) kept[i] = kept[i] * kept[(i + 1) % 64] + x[step];
  }
#pragma unroll
  for (int i = 0; i < 64; i++) y[i * 32 + threadIdx.x] = kept[i];
}
