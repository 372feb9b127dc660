// How the driver calls a kernel and reads the clock and the float controls.
#ifndef KWR_KERNEL_H
#define KWR_KERNEL_H

#include <immintrin.h>
#include <time.h>

#include "layout.h"

namespace kwr {

using Kernel = void *;

inline int32_t invoke(Kernel kernel, const kw_call *call, int buffers, void *const *b) {
  using P = void *;
  using C = const kw_call *;
  switch (buffers) {
    case 1:
      return reinterpret_cast<int32_t (*)(C, P)>(kernel)(call, b[0]);
    case 2:
      return reinterpret_cast<int32_t (*)(C, P, P)>(kernel)(call, b[0], b[1]);
    case 3:
      return reinterpret_cast<int32_t (*)(C, P, P, P)>(kernel)(call, b[0], b[1], b[2]);
    case 4:
      return reinterpret_cast<int32_t (*)(C, P, P, P, P)>(kernel)(call, b[0], b[1], b[2], b[3]);
    case 5:
      return reinterpret_cast<int32_t (*)(C, P, P, P, P, P)>(kernel)(call, b[0], b[1], b[2], b[3], b[4]);
    case 6:
      return reinterpret_cast<int32_t (*)(C, P, P, P, P, P, P)>(kernel)(call, b[0], b[1], b[2], b[3], b[4],
                                                                        b[5]);
    default:
      return KW_BAD_ARGUMENT;
  }
}

inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

// Rounding, flush-to-zero, denormals-are-zero and exception masks: what a kernel must leave as it found it.
constexpr uint32_t kFloatControls = 0xFFC0;

inline uint32_t float_control() { return _mm_getcsr() & kFloatControls; }

// xorshift64* (Vigna, arXiv:1402.6246), seeded through splitmix64.
struct Random {
  uint64_t state;
  explicit Random(uint64_t seed) {
    uint64_t z = seed + 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    state = (z ^ (z >> 31)) | 1;
  }
  uint64_t next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Du;
  }
  uint64_t below(uint64_t bound) { return uint64_t((unsigned __int128)(next()) * bound >> 64); }
};

}  // namespace kwr

#endif  // KWR_KERNEL_H
