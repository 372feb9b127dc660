// Memory that contests run in: huge pages where there are some, kept between contests, emptied from caches.
#ifndef KWR_ARENA_H
#define KWR_ARENA_H

#include <cpuid.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>

#include "kernel.h"
#include "spread.h"

namespace kwr {

class Arena {
 public:
  // At least `bytes`, all pages present; `tick` is called now and then. False when there is no such memory.
  template <class Tick>
  bool reserve(int64_t bytes, Tick tick) {
    if (bytes <= size_) return true;
    release();
    const int64_t rounded = (bytes + kHuge - 1) / kHuge * kHuge;
    void *at = mmap(nullptr, size_t(rounded + kHuge), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return false;
    mapping_ = at;
    mapped_ = rounded + kHuge;
    base_ = reinterpret_cast<unsigned char *>((reinterpret_cast<uintptr_t>(at) + kHuge - 1) / kHuge * kHuge);
    size_ = rounded;
    huge_ = madvise(base_, size_t(rounded), MADV_HUGEPAGE) == 0;
    spread(rounded / kHuge, kHuge, [&](int64_t part) {
      for (int64_t page = 0; page < kHuge; page += kSmall) base_[part * kHuge + page] = 0;
      tick();
    });
    return true;
  }

  void release() {
    if (mapping_ != nullptr) munmap(mapping_, size_t(mapped_));
    mapping_ = nullptr;
    base_ = nullptr;
    size_ = mapped_ = 0;
  }

  unsigned char *base() const { return base_; }
  int64_t size() const { return size_; }
  bool huge() const { return huge_; }

 private:
  static constexpr int64_t kHuge = 2 << 20, kSmall = 4096;
  void *mapping_ = nullptr;
  unsigned char *base_ = nullptr;
  int64_t size_ = 0, mapped_ = 0;
  bool huge_ = false;
};

__attribute__((target("clflushopt"))) inline void flush_lines_weakly(const char *from, const char *to) {
  for (; from < to; from += 64) _mm_clflushopt(const_cast<char *>(from));
}

inline void flush_lines_strongly(const char *from, const char *to) {
  for (; from < to; from += 64) _mm_clflush(from);
}

// Writes [from, from + bytes) back to memory and drops it from every cache, whatever their sizes.
inline void flush(const void *from, int64_t bytes) {
  static const bool weakly = [] {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 23 & 1);
  }();
  const char *begin = static_cast<const char *>(from);
  weakly ? flush_lines_weakly(begin, begin + bytes) : flush_lines_strongly(begin, begin + bytes);
}

// Fills [to, to + bytes) past the caches; `to` is a multiple of 64. No line of it is in a cache afterwards.
inline void fill_past_caches(unsigned char *to, int64_t bytes, unsigned char value) {
  const __m128i words = _mm_set1_epi8(static_cast<char>(value));
  const int64_t whole = bytes / 64 * 64;
  for (int64_t at = 0; at < whole; at += 16) _mm_stream_si128(reinterpret_cast<__m128i *>(to + at), words);
  memset(to + whole, value, size_t(bytes - whole));
  if (whole < bytes) flush(to + whole, bytes - whole);
}

}  // namespace kwr

#endif  // KWR_ARENA_H
