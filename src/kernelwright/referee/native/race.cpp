// A race: one contestant, called and clocked on rotating buffer sets, a batch at a time.
//
// The other contestants are in processes of their own; the parent lets them take turns. kwr_race_open
// calibrates and fills the sets, as far as kwr_race_ready did not before there was a kernel; kwr_race_prepare
// renews contents and empties the caches (cold); kwr_race_batch does nothing but call and clock;
// kwr_race_look, in looks.cpp, shows the parent what it asks for afterwards.
#include <errno.h>
#include <malloc.h>
#include <omp.h>
#include <stdlib.h>

#include <algorithm>

#include "caller.h"
#include "contest.h"
#include "spread.h"

namespace {

using kwr::contest;
using kwr::kWarmSets;
using kwr::Set;

constexpr int64_t kWindowNs = 40000;  // a window this long makes the clock's own cost a tenth of a percent
constexpr int64_t kMostCalls = 1000;  // in a window
constexpr int64_t kMostWindows = 2048;
constexpr int64_t kMostSets = 1 << 16;
constexpr int64_t kFewWindows = 12;
constexpr int64_t kWarmPool = 12;  // sets to draw from, so that no place in memory decides
constexpr int64_t kWarmPoolBytes = 32 << 20;
constexpr int64_t kCalibrated = 2;  // sets that are called on to find out how long a call takes

unsigned char *allocate(int64_t bytes) {
  void *at = nullptr;
  const int64_t whole = (bytes + 63) / 64 * 64 + 2 * kwr::kFenceBytes;
  return posix_memalign(&at, 64, size_t(whole)) == 0 ? static_cast<unsigned char *>(at) + kwr::kFenceBytes
                                                     : nullptr;
}

// One call on a set; in the allocating regime its outputs are made within it, and given back or kept.
inline int32_t call_once(Set &set, kwr::Kept *kept) {
  const kwr_race &plan = *contest.plan;
  if (!plan.allocating) return kwr::invoke(contest.kernel, &contest.call, plan.buffers, set.buffer);
  void *buffers[KW_MAX_TENSORS];
  for (int b = 0; b < plan.buffers; ++b) {
    buffers[b] = set.buffer[b];
    if (buffers[b] != nullptr) continue;
    buffers[b] = allocate(plan.buffer[b].nbytes);
    if (buffers[b] == nullptr) return KW_OUT_OF_MEMORY;
    if (kept != nullptr) kwr::fence(kept->buffer[b] = buffers[b], plan.buffer[b].nbytes);
  }
  const int32_t status = kwr::invoke(contest.kernel, &contest.call, plan.buffers, buffers);
  if (kept == nullptr)
    for (int b = 0; b < plan.buffers; ++b)
      if (set.buffer[b] == nullptr) free(kwr::fenced_from(buffers[b]));
  return status;
}

void drop_kept() {
  for (kwr::Kept &kept : contest.kept)
    for (void *buffer : kept.buffer)
      if (buffer != nullptr) free(kwr::fenced_from(buffer));
  contest.kept.clear();
}

// Kernels are called from this thread only: one that had called from here would have left a team behind.
kwr::Caller caller;

bool failed(int32_t status) {
  contest.state->status = status;
  return status != KW_OK;
}

void restore_environment() {
  if (contest.plan->threads > 0) omp_set_num_threads(contest.plan->threads);
  const uint32_t found = kwr::float_control();
  if (found != contest.state->float_control) _mm_setcsr(contest.state->float_control);
}

// Estimates the time of a call on two sets; the first calls pay for what is made once.
bool calibrate() {
  int64_t best = INT64_MAX, spent = 0;
  for (int i = 0; i < 24 && (i < 3 || spent < 8000000 || (i < 8 && spent < 60000000)); ++i) {
    Set &set = contest.sets[size_t(i % kCalibrated) % contest.sets.size()];
    if (contest.plan->cold) kwr::flush(set), _mm_mfence();
    restore_environment();
    const int64_t start = kwr::now_ns();
    const int32_t status = call_once(set, nullptr);
    const int64_t took = kwr::now_ns() - start;
    kwr::tick();
    if (failed(status)) return false;
    spent += took;
    if (i > 0) best = std::min(best, took);
    if (took > 200000000 && i > 0) break;
  }
  contest.state->estimate_ns = double(std::max<int64_t>(best, 20));
  return true;
}

void plan_batch() {
  const kwr_race &plan = *contest.plan;
  kwr_race_state &state = *contest.state;
  const int64_t room = std::max<int64_t>(1, plan.arena_limit / std::max<int64_t>(state.set_bytes, 1) - 1);
  int64_t wanted = std::max<int64_t>(1, int64_t(double(plan.batch_ns) / state.estimate_ns + 0.999));
  if (plan.cold) {
    wanted = std::min({wanted, room, kMostSets});
    state.sets = wanted;
  } else {
    const int64_t pool = std::min(room, kWarmPoolBytes / std::max<int64_t>(state.set_bytes, 1));
    state.sets = std::clamp(pool, std::min(kWarmSets, room), kWarmPool);
  }
  int64_t calls = std::min(int64_t(double(kWindowNs) / state.estimate_ns) + 1, kMostCalls);
  calls = std::min(calls, std::max<int64_t>(1, wanted / kFewWindows));
  state.calls = calls;
  state.windows = std::clamp<int64_t>(wanted / calls, 1, kMostWindows);
}

// Fills the sets [first, last).
void fill_sets(int64_t first, int64_t last) {
  kwr::spread(last - first, contest.state->set_bytes, [&](int64_t s) {
    kwr::fill(first + s, contest.plan->seed);
    kwr::tick();
  });
}

kwr::Write write_of(uint64_t seed, int64_t place, Set &set, const kwr_race &plan, int64_t index,
                    uint64_t fill_seed) {
  const kwr::Change change = kwr::change_of(plan, seed, uint64_t(place));
  kwr::Write write = {nullptr, 0, 0};
  if (change.buffer == KWR_NONE) return write;
  const kwr_race_buffer &buffer = plan.buffer[change.buffer];
  write.to = static_cast<unsigned char *>(set.buffer[change.buffer]) + change.to;
  write.bytes = buffer.item;
  memcpy(&write.value, contest.store + buffer.source[kwr::group_of(plan, fill_seed, index)] + change.from,
         size_t(buffer.item));
  return write;
}

inline void apply(const kwr::Write &write) {
  switch (write.bytes) {
    case 1:
      *write.to = (unsigned char)(write.value);
      break;
    case 2:
      memcpy(write.to, &write.value, 2);
      break;
    case 4:
      memcpy(write.to, &write.value, 4);
      break;
    case 8:
      memcpy(write.to, &write.value, 8);
      break;
    default:
      break;
  }
}

// Cold: every set has elements replaced, its output poisoned, and all of it dropped from the caches.
void renew_cold(uint64_t seed, uint64_t fill_seed) {
  const kwr_race &plan = *contest.plan;
  const int64_t count = int64_t(contest.sets.size());
  kwr::spread(count, contest.state->set_bytes, [&](int64_t s) {
    Set &set = contest.sets[size_t(s)];
    if (plan.judged) {
      for (int i = 0; i < kwr::kChanges; ++i)
        apply(write_of(kwr::set_seed(seed, s), i, set, plan, s, fill_seed));
      kwr::poison_and_flush(set);
    } else {
      kwr::flush(set);
    }
    _mm_mfence();
    kwr::tick();
  });
}

// Warm: the sets of this batch are filled anew, and what will be replaced before each call is looked up.
void renew_warm(uint64_t seed) {
  const kwr_race &plan = *contest.plan;
  contest.writes.clear();
  if (!plan.judged) return;
  const int64_t used = std::min(kWarmSets, contest.state->sets);
  for (int64_t i = 0; i < used; ++i) {
    kwr::fill(contest.order[size_t(i)], seed);
    kwr::poison(contest.sets[size_t(contest.order[size_t(i)])]);
  }
  const int64_t calls = contest.windows * contest.state->calls;
  contest.writes.reserve(size_t(calls));
  for (int64_t k = 0; k < calls; ++k) {
    const int64_t s = contest.order[size_t(k % used)];
    contest.writes.push_back(write_of(~seed, k, contest.sets[size_t(s)], plan, s, seed));
  }
}

}  // namespace

#define KWR_EXPORT extern "C" __attribute__((visibility("default")))

// Keeps freed memory mapped: peers get the same in the benchmarks of Python calls.
KWR_EXPORT int32_t kwr_keep_pages() {
  return mallopt(M_MMAP_MAX, 0) && mallopt(M_TRIM_THRESHOLD, 2147483647) && mallopt(M_TOP_PAD, 64 << 20);
}

namespace {

// The plan that the sets were filled for before there was a kernel; none once there is one.
int64_t filled_for = KWR_NONE;

void begin(const unsigned char *store, unsigned char *board, int64_t plan_at, int64_t state_at) {
  drop_kept();
  contest = kwr::Contest{};
  contest.store = store;
  contest.board = board;
  contest.plan = reinterpret_cast<const kwr_race *>(store + plan_at);
  contest.state = reinterpret_cast<kwr_race_state *>(board + state_at);
  const kwr_race &plan = *contest.plan;
  memset(contest.state, 0, sizeof *contest.state);
  contest.state->float_control = kwr::float_control();
  contest.call = plan.call;
  kwr::progress()->phase = KWR_OPENING;
  kwr::progress()->index = 0;
}

}  // namespace

// Gets memory for a race, and fills `sets` sets for a kernel that is not loaded yet. Returns 0 or ENOMEM.
KWR_EXPORT int32_t kwr_race_ready(const unsigned char *store, unsigned char *board, int64_t plan_at,
                                  int64_t state_at, int64_t sets) {
  begin(store, board, plan_at, state_at);
  filled_for = KWR_NONE;
  kwr::helpers_give_way = true;
  const bool placed = kwr::place(std::clamp<int64_t>(sets, 2, kMostSets));
  if (placed) fill_sets(0, int64_t(contest.sets.size()));
  kwr::helpers_give_way = false;
  if (!placed) return ENOMEM;
  filled_for = plan_at;
  kwr::progress()->phase = KWR_IDLE;
  return 0;
}

// Returns 0, ENOMEM, or -1 when the kernel returned an error (state.status).
KWR_EXPORT int32_t kwr_race_open(const unsigned char *store, unsigned char *board, int64_t plan_at,
                                 int64_t state_at, void *kernel) {
  int64_t filled = filled_for == plan_at ? int64_t(contest.sets.size()) : 0;
  filled_for = KWR_NONE;
  begin(store, board, plan_at, state_at);
  const kwr_race &plan = *contest.plan;
  contest.kernel = kernel;
  restore_environment();
  int64_t bytes = 0, outputs = 0;
  for (int b = 0; b < plan.buffers; ++b) {
    bytes += plan.buffer[b].nbytes;
    if (plan.buffer[b].output) outputs += plan.buffer[b].nbytes;
  }
  const int64_t few = 2 * bytes <= plan.arena_limit ? 3 : 2;
  if (!kwr::place(std::max(few, filled))) return ENOMEM;
  if (filled < few) {
    fill_sets(0, few);
    filled = few;
  }
  bool calibrated = false;
  caller.start(0);
  caller.run([&] { calibrated = calibrate(); });
  caller.stop();
  if (!calibrated) return -1;
  plan_batch();
  // The same seed gives the first sets the same places, however many there are.
  const int64_t wanted = contest.state->sets + 1, before = kwr::arena.size();
  if (!kwr::place(wanted)) return ENOMEM;
  if (kwr::arena.size() != before) filled = 0;
  contest.order.resize(size_t(contest.state->sets));
  if (plan.judged) contest.last.assign(size_t(outputs), 0);
  fill_sets(0, std::min(wanted, kCalibrated));  // the kernel has been called on these
  if (filled < wanted) fill_sets(std::max(filled, kCalibrated), wanted);
  contest.state->huge_pages = kwr::arena.huge();
  kwr::progress()->phase = KWR_IDLE;
  return 0;
}

// Makes the sets ready for a batch of `windows` windows.
KWR_EXPORT int32_t kwr_race_prepare(uint64_t seed, int64_t windows) {
  const kwr_race &plan = *contest.plan;
  kwr_race_state &state = *contest.state;
  kwr::progress()->phase = KWR_RACING;
  kwr::progress()->index = 0;
  contest.windows = std::clamp<int64_t>(windows, 1, state.windows);
  kwr::draw_order(contest.order, seed);
  drop_kept();
  if (plan.allocating && plan.judged) {
    int64_t chosen[KWR_KEPT];
    const int count = kwr::draw_kept(seed, contest.windows * state.calls, chosen);
    contest.kept.resize(size_t(count));
    for (int i = 0; i < count; ++i) contest.kept[size_t(i)].call = chosen[i];
  }
  plan.cold ? renew_cold(seed, plan.seed) : renew_warm(seed);
  kwr::progress()->phase = KWR_IDLE;
  return 0;
}

namespace {

int32_t lead() {
  const int64_t used = contest.plan->cold ? 0 : std::min(kWarmSets, contest.state->sets);
  kwr::progress()->phase = KWR_RACING;
  restore_environment();
  int32_t status = used ? int32_t(KW_OK) : call_once(contest.sets.back(), nullptr);
  for (int64_t i = 0; i < used; ++i)
    status |= call_once(contest.sets[size_t(contest.order[size_t(i)])], nullptr);
  kwr::tick();
  kwr::progress()->phase = KWR_IDLE;
  return failed(status) ? -1 : 0;
}

int32_t batch(int64_t samples_at, int32_t keep_last) {
  const kwr_race &plan = *contest.plan;
  kwr_race_state &state = *contest.state;
  auto *samples = reinterpret_cast<double *>(contest.board + samples_at);
  const int64_t calls = state.calls;
  const size_t used = plan.cold ? contest.order.size() : size_t(std::min(kWarmSets, state.sets));
  const kwr::Write *write = contest.writes.empty() ? nullptr : contest.writes.data();
  kwr::Kept *kept = contest.kept.empty() ? nullptr : contest.kept.data();
  size_t at = 0;
  int64_t done = 0;
  Set *set = nullptr;
  kwr::progress()->phase = KWR_RACING;
  restore_environment();
  int32_t status = KW_OK;
  for (int64_t window = 0; window < contest.windows; ++window) {
    kwr::progress()->index = window;
    const int64_t start = kwr::now_ns();
    for (int64_t i = 0; i < calls; ++i, ++done) {
      set = &contest.sets[size_t(contest.order[at])];
      if (++at == used) at = 0;
      if (write != nullptr) apply(*write++);
      if (kept != nullptr && kept->call == done)
        status |= call_once(*set, kept++);
      else
        status |= call_once(*set, nullptr);
      if (kept == contest.kept.data() + contest.kept.size()) kept = nullptr;
    }
    samples[window] = double(kwr::now_ns() - start);
    kwr::tick();
  }
  if (keep_last) {
    unsigned char *to = contest.last.data();
    for (int b = 0; b < plan.buffers; ++b) {
      if (!kwr::is_output(b)) continue;
      const void *from = plan.allocating ? contest.kept.back().buffer[b] : set->buffer[b];
      memcpy(to, from, size_t(plan.buffer[b].nbytes));
      to += plan.buffer[b].nbytes;
    }
  }
  state.ran = contest.windows;
  state.last = set - contest.sets.data();
  state.float_control_found = kwr::float_control();
  restore_environment();
  kwr::progress()->phase = KWR_IDLE;
  return failed(status) ? -1 : 0;
}

}  // namespace

// One call on each set of a warm batch, or on the set that nobody clocks, from a new caller: the kernel's
// threads are awake then. It begins on `processor`.
KWR_EXPORT int32_t kwr_race_lead(int64_t padding, int64_t processor) {
  int32_t rc = 0;
  caller.start(padding);
  caller.run([&] {
    kwr::begin_on(processor);
    rc = lead();
  });
  return rc;
}

// Calls and clocks. `samples` gets the nanoseconds of each window.
KWR_EXPORT int32_t kwr_race_batch(int64_t samples_at, int32_t keep_last) {
  int32_t rc = 0;
  caller.run([&] { rc = batch(samples_at, keep_last); });
  return rc;
}

// Ends the caller, and its team with it. Not part of what is clocked.
KWR_EXPORT void kwr_race_rest() { caller.stop(); }
