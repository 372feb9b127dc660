// Empties memory from all caches. The memory is shared with the process that reads it next: clflush works on
// physical lines, whichever core holds them.
#include <immintrin.h>
#include <stdint.h>

extern "C" __attribute__((visibility("default"))) void kwr_flush(const char *from, int64_t bytes) {
  const char *const end = from + bytes;
  // The first line may begin before the memory does.
  const char *line = reinterpret_cast<const char *>(reinterpret_cast<uintptr_t>(from) & ~uintptr_t(63));
  for (; line < end; line += 64) _mm_clflush(line);
  _mm_mfence();
}
