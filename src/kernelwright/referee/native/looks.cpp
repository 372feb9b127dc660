// What the parent sees of a batch, and what it ought to have seen.
#include <algorithm>

#include "contest.h"

#define KWR_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using kwr::contest;

// Copies a buffer with the fences around it; the offset behind it, a multiple of 64.
int64_t show(const void *buffer, int64_t nbytes, int64_t at) {
  memcpy(contest.board + at, static_cast<const unsigned char *>(buffer) - kwr::kFenceBytes,
         size_t(nbytes + 2 * kwr::kFenceBytes));
  return at + (nbytes + 2 * kwr::kFenceBytes + 63) / 64 * 64;
}

}  // namespace

// Fills in `count` looks of the last batch, copies from `copies_at` on. The calls whose outputs were kept
// are listed at `kept_at`, KWR_NONE after the last. Returns 0, or -1 for a look at what there is not.
KWR_EXPORT int32_t kwr_race_look(int64_t looks_at, int64_t count, int64_t copies_at) {
  const kwr_race &plan = *contest.plan;
  auto *looks = reinterpret_cast<kwr_look *>(contest.board + looks_at);
  int64_t at = copies_at;
  for (int64_t i = 0; i < count; ++i) {
    kwr_look &look = looks[i];
    std::fill(look.at, look.at + KW_MAX_TENSORS, int64_t(KWR_NONE));
    const kwr::Kept *kept = nullptr;
    int64_t set = look.set;
    if (plan.allocating) {
      for (const kwr::Kept &one : contest.kept)
        if (one.call == look.set) kept = &one;
      if (kept == nullptr) return -1;
      const int64_t used =
          plan.cold ? int64_t(contest.order.size()) : std::min(kwr::kWarmSets, contest.state->sets);
      set = contest.order[size_t(kept->call % used)];
    }
    if (set < 0 || set >= int64_t(contest.sets.size())) return -1;
    const unsigned char *last = contest.last.data();
    for (int b = 0; b < plan.buffers; ++b) {
      const int64_t nbytes = plan.buffer[b].nbytes;
      if (!kwr::is_output(b)) {
        if (look.kind != KWR_ALL) continue;
        look.at[b] = at;
        at = show(contest.sets[size_t(set)].buffer[b], nbytes, at);
        continue;
      }
      look.at[b] = at;
      if (look.kind == KWR_LAST) {
        memcpy(contest.board + at + kwr::kFenceBytes, last, size_t(nbytes));
        last += nbytes;
        at += (nbytes + 2 * kwr::kFenceBytes + 63) / 64 * 64;
      } else {
        at = show(kept != nullptr ? kept->buffer[b] : contest.sets[size_t(set)].buffer[b], nbytes, at);
      }
    }
  }
  return 0;
}

// The parent calls this in its own process: the contents of one input buffer of a set as they have to be.
// `fill_seed` is that of the set's last filling, `seeds` those of the batches prepared since (cold), `calls`
// how many calls of the last one have had something replaced (warm; the set is the `turn`-th of `used`).
KWR_EXPORT void kwr_race_contents(const unsigned char *store, const kwr_race *plan, int32_t b, int64_t set,
                                  uint64_t fill_seed, const uint64_t *seeds, int64_t count, int64_t calls,
                                  int64_t turn, int64_t used, unsigned char *to) {
  kwr::fill_buffer(*plan, store, b, set, fill_seed, to);
  const unsigned char *source = store + plan->buffer[b].source[kwr::group_of(*plan, fill_seed, set)];
  const auto make = [&](uint64_t seed, uint64_t place) {
    const kwr::Change change = kwr::change_of(*plan, seed, place);
    if (change.buffer == b) memcpy(to + change.to, source + change.from, size_t(plan->buffer[b].item));
  };
  for (int64_t i = 0; i < count; ++i)
    for (int change = 0; change < kwr::kChanges; ++change)
      make(kwr::set_seed(seeds[i], set), uint64_t(change));
  for (int64_t call = turn; call < calls; call += used) make(~fill_seed, uint64_t(call));
}

// And this: the order in which a batch prepared with `seed` goes through its sets, and the group of each.
KWR_EXPORT void kwr_race_order(const kwr_race *plan, uint64_t seed, uint64_t fill_seed, int64_t sets,
                               int32_t *order, int32_t *groups) {
  struct Span {
    int32_t *data;
    int64_t length;
    size_t size() const { return size_t(length); }
    int32_t &operator[](size_t i) { return data[i]; }
  } span = {order, sets};
  kwr::draw_order(span, seed);
  for (int64_t i = 0; i < sets; ++i) groups[i] = kwr::group_of(*plan, fill_seed, order[i]);
}

// And this: which calls of a batch keep their output in the allocating regime; their number.
KWR_EXPORT int32_t kwr_race_kept(uint64_t seed, int64_t calls, int64_t *kept) {
  return kwr::draw_kept(seed, calls, kept);
}
