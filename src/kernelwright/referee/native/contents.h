// What lies in a buffer set: drawn from seeds, so that the parent can tell without asking the child.
//
// A set is filled with the contents of its group, bits flipped as allowed. Before every batch, and in warm
// mode before every call, single elements are replaced by other elements of the same input: no call meets
// contents that an earlier one has met. Which and by what is a function of (seed, place), never of a state.
#ifndef KWR_CONTENTS_H
#define KWR_CONTENTS_H

#include <string.h>

#include <algorithm>

#include "kernel.h"

namespace kwr {

constexpr int kChanges = 4;  // elements of a set that are replaced before a batch

inline uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

inline uint64_t scaled(uint64_t random, uint64_t bound) {
  return uint64_t((unsigned __int128)(random)*bound >> 64);
}

// Element `to` of input `buffer` gets what the group's contents have at `from`; bytes, not elements.
struct Change {
  int buffer = KWR_NONE;
  int64_t to = 0, from = 0;
};

inline Change change_of(const kwr_race &plan, uint64_t seed, uint64_t place) {
  int able[KW_MAX_TENSORS], count = 0;
  for (int b = 0; b < plan.buffers; ++b)
    if (!plan.buffer[b].output && plan.buffer[b].item > 0 && plan.buffer[b].nbytes > 0) able[count++] = b;
  Change change;
  if (count == 0) return change;
  const uint64_t first = mix(seed + 0x9E3779B97F4A7C15u * (place + 1));
  const uint64_t second = mix(first + 0x9E3779B97F4A7C15u), third = mix(second + 0x9E3779B97F4A7C15u);
  change.buffer = able[scaled(first, uint64_t(count))];
  const kwr_race_buffer &buffer = plan.buffer[change.buffer];
  const uint64_t elements = uint64_t(buffer.nbytes / buffer.item);
  change.to = int64_t(scaled(second, elements)) * buffer.item;
  change.from = int64_t(scaled(third, elements)) * buffer.item;
  return change;
}

inline uint64_t set_seed(uint64_t seed, int64_t set) { return mix(seed ^ (uint64_t(set) << 20)); }

// Writes 64 bytes to a multiple of 64, past the caches.
inline void stream_line(unsigned char *to, const uint64_t *words) {
  for (int i = 0; i < 8; i += 2)
    _mm_stream_si128(reinterpret_cast<__m128i *>(to + 8 * i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i *>(words + i)));
}

// Copies `bytes`, flipping at random only the bits that `vary` allows; the same seed gives the same copy.
// Past the caches, `to` is a multiple of 64: memory that is not read soon need not be fetched to be
// overwritten.
inline void copy_varied(unsigned char *to, const unsigned char *from, int64_t bytes, uint64_t vary,
                        uint64_t seed, bool past_caches = false) {
  if (vary == 0 && !past_caches) {
    memcpy(to, from, size_t(bytes));
    return;
  }
  // One draw for eight words, shifted: the bits that may be flipped are few, and drawing is what takes time.
  Random random(seed);
  int64_t at = 0;
  for (; at + 64 <= bytes; at += 64) {
    const uint64_t drawn = random.next();
    uint64_t words[8];
    memcpy(words, from + at, 64);
    for (int i = 0; i < 8; ++i) words[i] ^= (drawn << i | drawn >> (63 - i)) & vary;
    if (past_caches)
      stream_line(to + at, words);
    else
      memcpy(to + at, words, 64);
  }
  for (; at < bytes; at += 8) {
    const int64_t left = std::min<int64_t>(8, bytes - at);
    uint64_t word = 0;
    memcpy(&word, from + at, size_t(left));
    word ^= random.next() & vary;
    memcpy(to + at, &word, size_t(left));
  }
  if (past_caches) _mm_sfence();
}

// The first contents of a buffer of a set.
inline void fill_buffer(const kwr_race &plan, const unsigned char *store, int b, int64_t set, uint64_t seed,
                        unsigned char *to, bool past_caches = false) {
  const kwr_race_buffer &buffer = plan.buffer[b];
  const int group = int(scaled(set_seed(seed, set), uint64_t(plan.groups)));
  copy_varied(to, store + buffer.source[group], buffer.nbytes, buffer.vary,
              set_seed(seed, set) * KW_MAX_TENSORS + uint64_t(b), past_caches);
}

inline int group_of(const kwr_race &plan, uint64_t seed, int64_t set) {
  return int(scaled(set_seed(seed, set), uint64_t(plan.groups)));
}

// The order of sets in a batch: a permutation of all of them.
template <class Vector>
void draw_order(Vector &order, uint64_t seed) {
  Random random(seed ^ 0x0DDE5);
  for (size_t i = 0; i < order.size(); ++i) order[i] = int32_t(i);
  for (size_t i = order.size(); i > 1; --i) {
    const size_t j = size_t(random.below(i));
    const auto kept = order[i - 1];
    order[i - 1] = order[j];
    order[j] = kept;
  }
}

// Which calls of a batch keep their output, ascending: the last, and others that a kernel cannot foresee.
inline int draw_kept(uint64_t seed, int64_t calls, int64_t *kept) {
  Random random(seed ^ 0xCE97);
  kept[0] = calls - 1;
  for (int i = 1; i < KWR_KEPT; ++i) kept[i] = int64_t(random.below(uint64_t(calls)));
  std::sort(kept, kept + KWR_KEPT);
  return int(std::unique(kept, kept + KWR_KEPT) - kept);
}

}  // namespace kwr

#endif  // KWR_CONTENTS_H
