// The race of this process's one contestant: its buffer sets and where they lie.
#ifndef KWR_CONTEST_H
#define KWR_CONTEST_H

#include <vector>

#include "arena.h"
#include "contents.h"

namespace kwr {

constexpr int64_t kFenceBytes = KWR_FENCE_BYTES;
constexpr unsigned char kFence = 0xA5;
constexpr unsigned char kPoison = 0xFF;
constexpr int64_t kWarmSets = 2;  // that a warm batch goes back and forth between

struct Set {
  void *buffer[KW_MAX_TENSORS];  // null: an output that every call allocates
};

// A change ready to be made: `bytes` of `value` go to `to`.
struct Write {
  unsigned char *to;
  uint64_t value;
  int64_t bytes;
};

// An output that a call of the allocating regime left behind.
struct Kept {
  int64_t call = KWR_NONE;
  void *buffer[KW_MAX_TENSORS] = {};
};

struct Contest {
  const unsigned char *store = nullptr;
  unsigned char *board = nullptr;
  const kwr_race *plan = nullptr;
  kwr_race_state *state = nullptr;
  kw_call call;
  void *kernel = nullptr;
  std::vector<Set> sets;  // one more than are timed: the last is for calls that nobody clocks
  std::vector<int32_t> order;
  std::vector<Write> writes;  // warm: one before each call
  std::vector<Kept> kept;
  std::vector<unsigned char> last;  // the outputs of the last call, as they were when it returned
  int64_t windows = 0;
};

inline Contest contest;
inline Arena arena;

inline volatile kwr_progress *progress() { return reinterpret_cast<volatile kwr_progress *>(contest.board); }

inline void tick() { progress()->ticks = progress()->ticks + 1; }

inline bool is_output(int b) { return contest.plan->buffer[b].output != 0; }

inline unsigned char *fenced_from(void *buffer) { return static_cast<unsigned char *>(buffer) - kFenceBytes; }

inline void fence(void *buffer, int64_t nbytes) {
  memset(fenced_from(buffer), kFence, size_t(kFenceBytes));
  memset(static_cast<unsigned char *>(buffer) + nbytes, kFence, size_t(kFenceBytes));
}

inline void poison(Set &set) {
  for (int b = 0; b < contest.plan->buffers; ++b)
    if (is_output(b) && set.buffer[b] != nullptr)
      memset(set.buffer[b], kPoison, size_t(contest.plan->buffer[b].nbytes));
}

// Gives set `index` the contents that belong to `seed`; in cold mode all of it is flushed before it is used.
inline void fill(int64_t index, uint64_t seed) {
  Set &set = contest.sets[size_t(index)];
  for (int b = 0; b < contest.plan->buffers; ++b) {
    if (set.buffer[b] == nullptr) continue;
    if (!is_output(b))
      fill_buffer(*contest.plan, contest.store, b, index, seed, static_cast<unsigned char *>(set.buffer[b]),
                  contest.plan->cold != 0);
    fence(set.buffer[b], contest.plan->buffer[b].nbytes);
  }
}

inline void flush(const Set &set) {
  for (int b = 0; b < contest.plan->buffers; ++b)
    if (set.buffer[b] != nullptr)
      flush(fenced_from(set.buffer[b]), contest.plan->buffer[b].nbytes + 2 * kFenceBytes);
}

// The same with outputs that nobody has written: poisoned past the caches, which need not be flushed for
// them.
inline void poison_and_flush(Set &set) {
  for (int b = 0; b < contest.plan->buffers; ++b) {
    auto *buffer = static_cast<unsigned char *>(set.buffer[b]);
    const int64_t nbytes = contest.plan->buffer[b].nbytes;
    if (buffer == nullptr) continue;
    if (!is_output(b)) {
      flush(fenced_from(buffer), nbytes + 2 * kFenceBytes);
      continue;
    }
    fill_past_caches(buffer, nbytes, kPoison);
    flush(fenced_from(buffer), kFenceBytes);
    flush(buffer + nbytes, kFenceBytes);
  }
}

// Places `count` sets. Buffers start at a multiple of 64 bytes, at places within a page that are drawn from
// the plan's seed: contestants with the same seed have the same places.
inline bool place(int64_t count) {
  const kwr_race &plan = *contest.plan;
  Random random(plan.seed ^ 0x5EED);
  std::vector<int64_t> at;
  int64_t top = 0;
  for (int64_t s = 0; s < count; ++s)
    for (int b = 0; b < plan.buffers; ++b) {
      if (is_output(b) && plan.allocating) {
        at.push_back(KWR_NONE);
        continue;
      }
      top += int64_t(random.below(64)) * 64 + kFenceBytes;
      at.push_back(top);
      top += (plan.buffer[b].nbytes + 63) / 64 * 64 + kFenceBytes;
    }
  top = (top + 4095) / 4096 * 4096;
  if (!arena.reserve(top, tick)) return false;
  contest.sets.assign(size_t(count), Set{});
  for (int64_t s = 0; s < count; ++s)
    for (int b = 0; b < plan.buffers; ++b) {
      const int64_t where = at[size_t(s * plan.buffers + b)];
      contest.sets[size_t(s)].buffer[b] = where == KWR_NONE ? nullptr : arena.base() + where;
    }
  contest.state->arena_bytes = top;
  contest.state->set_bytes = top / count;
  return true;
}

}  // namespace kwr

#endif  // KWR_CONTEST_H
