// c = a @ b^T in bf16 with fp32 sums: a is m x k, b is n x k, c is m x n, all row-major.
// Tensor cores through mma.sync (sm_80 and up), tiles in shared memory filled by cp.async, STAGES deep.
// Grid: (n / BN, m / BM). Block: (256). m, n and k are multiples of BM, BN and BK.
#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 128
#endif
#ifndef BK
#define BK 32
#endif
#ifndef STAGES
#define STAGES 2
#endif

constexpr int THREADS = 256;
constexpr int PITCH = BK + 8;  // eight rows of a matrix lie in eight different groups of banks
constexpr int WARP_M = BM / 2, WARP_N = BN / 4;
constexpr int TILES_M = WARP_M / 16, TILES_N = WARP_N / 8;
static_assert(BM % 32 == 0 && BN % 64 == 0 && BK % 16 == 0, "a warp has whole pairs of mma tiles");
static_assert(STAGES * (BM + BN) * PITCH * 2 <= 48 * 1024, "static shared memory holds 48 KiB");

typedef unsigned short half_word;  // the bits of a bf16

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}

template <int ROWS>
__device__ __forceinline__ void fetch(half_word (*tile)[PITCH], const half_word* source, int k) {
  constexpr int WORDS = BK / 8;  // of 16 bytes in a row
#pragma unroll
  for (int word = threadIdx.x; word < ROWS * WORDS; word += THREADS) {
    int row = word / WORDS, column = word % WORDS * 8;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(&tile[row][column])),
                 "l"(source + (size_t)row * k + column));
  }
}

__device__ __forceinline__ void load_four(unsigned (&to)[4], const half_word* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row)));
}

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matmul(const half_word* __restrict__ a, const half_word* __restrict__ b, unsigned* __restrict__ c, int m,
           int n, int k) {
  __shared__ __align__(16) half_word tiles_a[STAGES][BM][PITCH];
  __shared__ __align__(16) half_word tiles_b[STAGES][BN][PITCH];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int first_m = warp / 4 * WARP_M, first_n = warp % 4 * WARP_N;
  a += (size_t)blockIdx.y * BM * k;
  b += (size_t)blockIdx.x * BN * k;

  float sums[TILES_M][TILES_N][4] = {};
  int steps = k / BK;
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; stage++) {
    if (stage < steps) {
      fetch<BM>(tiles_a[stage], a + stage * BK, k);
      fetch<BN>(tiles_b[stage], b + stage * BK, k);
    }
    asm volatile("cp.async.commit_group;");
  }

  for (int step = 0; step < steps; step++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    int next = step + STAGES - 1;
    if (next < steps) {
      fetch<BM>(tiles_a[next % STAGES], a + next * BK, k);
      fetch<BN>(tiles_b[next % STAGES], b + next * BK, k);
    }
    asm volatile("cp.async.commit_group;");

    const half_word(*tile_a)[PITCH] = tiles_a[step % STAGES];
    const half_word(*tile_b)[PITCH] = tiles_b[step % STAGES];
#pragma unroll
    for (int inner = 0; inner < BK; inner += 16) {
      unsigned parts_a[TILES_M][4], parts_b[TILES_N / 2][4];
#pragma unroll
      for (int i = 0; i < TILES_M; i++)
        load_four(parts_a[i], &tile_a[first_m + i * 16 + lane % 16][inner + lane / 16 * 8]);
#pragma unroll
      for (int j = 0; j < TILES_N / 2; j++)
        load_four(parts_b[j],
                  &tile_b[first_n + j * 16 + lane / 16 * 8 + lane % 8][inner + lane / 8 % 2 * 8]);
#pragma unroll
      for (int i = 0; i < TILES_M; i++)
#pragma unroll
        for (int j = 0; j < TILES_N; j++)
          multiply(sums[i][j], parts_a[i], parts_b[j / 2][j % 2 * 2], parts_b[j / 2][j % 2 * 2 + 1]);
    }
  }

#pragma unroll
  for (int i = 0; i < TILES_M; i++)
#pragma unroll
    for (int j = 0; j < TILES_N; j++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        size_t row = (size_t)blockIdx.y * BM + first_m + i * 16 + half * 8 + lane / 4;
        size_t column = (size_t)blockIdx.x * BN + first_n + j * 8 + lane % 4 * 2;
        unsigned packed;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
            : "=r"(packed)
            : "f"(sums[i][j][half * 2 + 1]), "f"(sums[i][j][half * 2]));
        c[(row * n + column) / 2] = packed;
      }
}
