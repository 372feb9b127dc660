// Contests: several kernels on the same workload, interleaved in random order over private, rotating buffers.
//
// kwr_race_open calibrates and fills the arena; then, a round at a time, kwr_race_prepare renews the contents
// of some sets and empties the caches of all that will be used (cold), kwr_race_round does nothing but call
// and clock, and kwr_race_collect copies the outputs of renewed sets out for the parent to judge. Which sets
// were renewed, the order of the contestants, of their sets and of their memory are drawn from the parent's
// seeds.
#include <errno.h>
#include <malloc.h>
#include <omp.h>
#include <stdlib.h>

#include <algorithm>
#include <vector>

#include "arena.h"

namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kTargetWindowNs = 10000;    // a window this long makes the clock's own cost well below 1%
constexpr int64_t kMaxWindowBytes = 1 << 20;  // cold: a call that claims to be faster gets a shorter window
constexpr int64_t kMaxBlocks = 512;
constexpr int kWarmSets = 2;
constexpr unsigned char kFence = 0xA5;

struct Set {
  void *buffer[KW_MAX_TENSORS];
  int group = 0;
  int user = KWR_NONE;  // who called on it last in this round
  uint64_t seed = 0;
};

// A set with renewed contents, whose call the parent will judge, whoever makes it.
struct Trap {
  int lane;
  int set;
  int contestant;  // allocating: who makes the sampled call, after which block
  int block;
};

struct Race {
  const unsigned char *store = nullptr;
  unsigned char *board = nullptr;
  const kwr_race *plan = nullptr;
  kwr_race_state *state = nullptr;
  kw_call call;
  std::vector<void *> kernels;
  std::vector<std::vector<Set>> lanes;  // [lane][set]
  std::vector<std::vector<int>> order;  // [lane] order of sets in this round
  std::vector<Trap> traps;
  std::vector<unsigned char> scratch;
  int blocks = 0;
  // Contestant c uses lane (c + shift) modulo the lanes, shift growing with each block (cold, where a set is
  // used once a round) or each round (warm): all use all memory alike, and a judged output has one author.
  int shift = 0;
  uint32_t active = 0;
  uint64_t generation = 0;
};

Race race;
kwr::Arena arena;

volatile kwr_progress *progress() { return reinterpret_cast<volatile kwr_progress *>(race.board); }

void tick() { progress()->ticks = progress()->ticks + 1; }

bool is_output(int b) { return race.plan->buffer[b].output != 0; }

uint64_t buffer_seed(uint64_t seed, int b) { return seed * KW_MAX_TENSORS + uint64_t(b); }

void poison(Set &set) {
  for (int b = 0; b < race.plan->buffers; ++b)
    if (is_output(b) && set.buffer[b] != nullptr)
      memset(set.buffer[b], 0xFF, size_t(race.plan->buffer[b].nbytes));
}

// Gives a set new contents and an output that nobody has written.
void fill(Set &set, int group, uint64_t seed) {
  set.group = group;
  set.seed = seed;
  for (int b = 0; b < race.plan->buffers; ++b) {
    const kwr_race_buffer &buffer = race.plan->buffer[b];
    if (set.buffer[b] == nullptr) continue;
    auto *to = static_cast<unsigned char *>(set.buffer[b]);
    if (!is_output(b))
      kwr::copy_varied(to, race.store + buffer.source[group], buffer.nbytes, buffer.vary,
                       buffer_seed(seed, b));
    memset(to + buffer.nbytes, kFence, kLine);
  }
  poison(set);
}

void flush(const Set &set) {
  for (int b = 0; b < race.plan->buffers; ++b)
    if (set.buffer[b] != nullptr) kwr::flush(set.buffer[b], race.plan->buffer[b].nbytes + kLine);
}

// Places `count` sets for every lane. Buffers start at a multiple of 64 bytes, at random places within a
// page, the same in every lane: no contestant is the one whose output shares its page offset with its input.
bool place(int count) {
  const kwr_race &plan = *race.plan;
  kwr::Random random(plan.seed ^ 0x5EED);
  std::vector<std::vector<int64_t>> offsets(static_cast<size_t>(count));
  int64_t lane_bytes = 0;
  for (auto &set : offsets) {
    for (int b = 0; b < plan.buffers; ++b) {
      if (is_output(b) && plan.allocating) {
        set.push_back(KWR_NONE);
        continue;
      }
      lane_bytes += int64_t(random.below(64)) * kLine;
      set.push_back(lane_bytes);
      lane_bytes += (plan.buffer[b].nbytes + kLine + kLine - 1) / kLine * kLine;
    }
  }
  lane_bytes = (lane_bytes + 4095) / 4096 * 4096;
  if (!arena.reserve(lane_bytes * plan.contestants, tick)) return false;
  race.lanes.assign(size_t(plan.contestants), std::vector<Set>(size_t(count)));
  for (int lane = 0; lane < plan.contestants; ++lane)
    for (int s = 0; s < count; ++s)
      for (int b = 0; b < plan.buffers; ++b) {
        const int64_t at = offsets[size_t(s)][size_t(b)];
        race.lanes[size_t(lane)][size_t(s)].buffer[b] =
            at == KWR_NONE ? nullptr : arena.base() + lane_bytes * lane + at;
      }
  race.state->arena_bytes = lane_bytes * plan.contestants;
  race.state->set_bytes = lane_bytes / count;
  race.state->sets = count;
  return true;
}

void fill_all() {
  const int groups = race.plan->groups;
  const int count = int(race.state->sets);
  const int lanes = race.plan->contestants;
  const uint64_t base = ++race.generation << 32 ^ race.plan->seed;
#pragma omp parallel for schedule(dynamic)
  for (int i = 0; i < lanes * count; ++i) {
    fill(race.lanes[size_t(i / count)][size_t(i % count)], i % groups, base + uint64_t(i));
    tick();
  }
}

void flush_used() {
  const int lanes = race.plan->contestants;
  const int count = int(race.state->sets);
#pragma omp parallel for schedule(dynamic)
  for (int i = 0; i < lanes * count; ++i) {
    flush(race.lanes[size_t(i / count)][size_t(i % count)]);
    tick();
  }
  _mm_mfence();
}

void *allocate(int64_t bytes) {
  void *at = nullptr;
  return posix_memalign(&at, 64, size_t(bytes > 0 ? bytes : 1)) == 0 ? at : nullptr;
}

// One call on a set; in the allocating regime its outputs are made and given back within it.
inline int32_t call_once(void *kernel, Set &set) {
  const kwr_race &plan = *race.plan;
  if (!plan.allocating) return kwr::invoke(kernel, &race.call, plan.buffers, set.buffer);
  void *buffers[KW_MAX_TENSORS];
  for (int b = 0; b < plan.buffers; ++b)
    buffers[b] = set.buffer[b] != nullptr ? set.buffer[b] : allocate(plan.buffer[b].nbytes + kLine);
  const int32_t status = kwr::invoke(kernel, &race.call, plan.buffers, buffers);
  for (int b = 0; b < plan.buffers; ++b)
    if (set.buffer[b] == nullptr) free(buffers[b]);
  return status;
}

bool failed(int contestant, int32_t status) {
  if (status == KW_OK) return false;
  race.state->failed = contestant;
  race.state->status = status;
  return true;
}

void restore_environment() {
  if (race.plan->threads > 0) omp_set_num_threads(race.plan->threads);
  const uint32_t found = kwr::float_control();
  if (found != race.state->float_control) _mm_setcsr(race.state->float_control);
}

// Estimates the time of a call of each contestant on two sets; the first calls pay for what is made once.
bool calibrate() {
  const kwr_race &plan = *race.plan;
  for (int c = 0; c < plan.contestants; ++c) {
    progress()->run = c;
    int64_t best = INT64_MAX, spent = 0;
    for (int i = 0; i < 12 && (i < 3 || spent < 20000000); ++i) {
      Set &set = race.lanes[size_t(c)][size_t(i % int(race.state->sets))];
      if (plan.cold) flush(set), _mm_mfence();
      restore_environment();
      const int64_t start = kwr::now_ns();
      const int32_t status = call_once(race.kernels[size_t(c)], set);
      const int64_t took = kwr::now_ns() - start;
      tick();
      if (failed(c, status)) return false;
      spent += took;
      if (i > 0) best = std::min(best, took);
      if (took > 200000000 && i > 0) break;
    }
    race.state->estimate_ns[c] = double(std::max<int64_t>(best, 20));
  }
  return true;
}

void plan_round() {
  const kwr_race &plan = *race.plan;
  kwr_race_state &state = *race.state;
  double block_ns = 0;
  int64_t most = 1;
  for (int c = 0; c < plan.contestants; ++c) {
    int64_t calls = int64_t(double(kTargetWindowNs) / state.estimate_ns[c]) + 1;
    calls = std::min(calls,
                     plan.cold ? std::clamp<int64_t>(kMaxWindowBytes / (state.set_bytes + 1), 1, 200) : 200);
    if (!plan.cold && calls < kWarmSets && state.estimate_ns[c] < 5e6) calls = kWarmSets;
    state.calls[c] = int32_t(calls);
    most = std::max(most, calls);
    block_ns += state.estimate_ns[c] * double(calls);
  }
  int64_t blocks = std::clamp<int64_t>(int64_t(double(plan.round_ns) / block_ns), 1, kMaxBlocks);
  int64_t sets = kWarmSets;
  if (plan.cold) {
    const int64_t room =
        std::max<int64_t>(1, plan.arena_limit / std::max<int64_t>(state.set_bytes * plan.contestants, 1));
    sets = std::min(blocks * most, room);
    most = std::min(most, sets);
    for (int c = 0; c < plan.contestants; ++c)
      state.calls[c] = int32_t(std::min<int64_t>(state.calls[c], sets));
    blocks = std::max<int64_t>(1, sets / most);
  }
  state.blocks_per_round = blocks;
  state.sets = sets;
}

template <class T>
void shuffle(std::vector<T> &values, kwr::Random &random) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
}

Set &set_of(const Trap &trap) { return race.lanes[size_t(trap.lane)][size_t(trap.set)]; }

// A sampled call of the allocating regime: made apart, since its output is gone after an ordinary one.
bool sample_allocating(const Trap &trap, std::vector<void *> &kept) {
  const kwr_race &plan = *race.plan;
  Set &set = set_of(trap);
  void *buffers[KW_MAX_TENSORS];
  for (int b = 0; b < plan.buffers; ++b) {
    buffers[b] = set.buffer[b];
    if (buffers[b] != nullptr) continue;
    buffers[b] = allocate(plan.buffer[b].nbytes + kLine);
    memset(buffers[b], 0xFF, size_t(plan.buffer[b].nbytes));
    memset(static_cast<char *>(buffers[b]) + plan.buffer[b].nbytes, kFence, kLine);
  }
  const int32_t status =
      kwr::invoke(race.kernels[size_t(trap.contestant)], &race.call, plan.buffers, buffers);
  for (int b = 0; b < plan.buffers; ++b)
    if (set.buffer[b] == nullptr) kept.push_back(buffers[b]);
  return !failed(trap.contestant, status);
}

bool fenced(const unsigned char *buffer, int64_t nbytes) {
  return std::all_of(buffer + nbytes, buffer + nbytes + kLine, [](unsigned char c) { return c == kFence; });
}

std::vector<std::vector<void *>> kept_outputs;  // [trap], allocating regime only

}  // namespace

#define KWR_EXPORT extern "C" __attribute__((visibility("default")))

// Keeps freed memory mapped: peers get the same in the benchmarks of Python calls.
KWR_EXPORT int32_t kwr_keep_pages() {
  return mallopt(M_MMAP_MAX, 0) && mallopt(M_TRIM_THRESHOLD, 2147483647) && mallopt(M_TOP_PAD, 256 << 20);
}

// Returns 0, ENOMEM, or -1 when a kernel returned an error (state.failed, state.status).
KWR_EXPORT int32_t kwr_race_open(const unsigned char *store, unsigned char *board, int64_t plan_at,
                                 int64_t state_at, void *const *kernels) {
  race = Race{};
  race.store = store;
  race.board = board;
  race.plan = reinterpret_cast<const kwr_race *>(store + plan_at);
  race.state = reinterpret_cast<kwr_race_state *>(board + state_at);
  memset(race.state, 0, sizeof *race.state);
  race.state->failed = KWR_NONE;
  race.state->float_control = kwr::float_control();
  race.call = race.plan->call;
  race.kernels.assign(kernels, kernels + race.plan->contestants);
  progress()->phase = KWR_OPENING;
  progress()->index = 0;
  restore_environment();
  int64_t bytes = 0;
  for (int b = 0; b < race.plan->buffers; ++b) bytes += race.plan->buffer[b].nbytes;
  const bool roomy = bytes * 2 * race.plan->contestants <= race.plan->arena_limit;
  if (!place(roomy ? 2 : 1)) return ENOMEM;
  fill_all();
  if (!calibrate()) return -1;
  const int64_t sets = race.state->sets;
  plan_round();
  if (race.state->sets != sets) {
    if (!place(int(race.state->sets))) return ENOMEM;
  }
  fill_all();
  race.state->huge_pages = arena.huge();
  progress()->phase = KWR_IDLE;
  return 0;
}

// Renews `traps` sets of each active contestant and, in cold mode, empties the caches of every set.
KWR_EXPORT int32_t kwr_race_prepare(uint64_t seed, int32_t blocks, uint32_t active, int32_t traps) {
  const kwr_race &plan = *race.plan;
  const int sets = int(race.state->sets);
  kwr::Random random(seed);
  for (auto &outputs : kept_outputs)
    for (void *output : outputs) free(output);
  kept_outputs.clear();
  race.state->samples = 0;
  race.traps.clear();
  race.active = active;
  race.blocks = int(std::min<int64_t>(blocks, race.state->blocks_per_round));
  race.shift = (race.shift + 1) % plan.contestants;
  race.order.assign(size_t(plan.contestants), {});
  int fewest = 200;
  for (int c = 0; c < plan.contestants; ++c)
    if (active >> c & 1) fewest = std::min(fewest, race.state->calls[c]);
  for (int lane = 0; lane < plan.contestants; ++lane) {
    auto &order = race.order[size_t(lane)];
    for (int s = 0; s < sets; ++s) order.push_back(s);
    shuffle(order, random);
    for (Set &set : race.lanes[size_t(lane)]) set.user = KWR_NONE;
    std::vector<int> used(order.begin(), order.begin() + std::min(sets, race.blocks * fewest));
    shuffle(used, random);
    for (int t = 0; t < traps && t < int(used.size()); ++t)
      race.traps.push_back({lane, used[size_t(t)], lane, int(random.below(uint64_t(race.blocks)))});
  }
  if (plan.allocating)
    race.traps.erase(std::remove_if(race.traps.begin(), race.traps.end(),
                                    [&](const Trap &trap) { return !(active >> trap.contestant & 1); }),
                     race.traps.end());
  if (!plan.cold)
    for (auto &lane : race.lanes)
      for (auto &set : lane) poison(set);
  for (const Trap &trap : race.traps) {
    Set &set = set_of(trap);
    fill(set, (set.group + 1) % plan.groups, random.next() | 1);
  }
  if (plan.cold) flush_used();
  return 0;
}

// Calls and clocks. `samples` gets nanoseconds a call, [block][contestant], NaN for one that is not active.
KWR_EXPORT int32_t kwr_race_round(uint64_t seed, int64_t samples_at) {
  const kwr_race &plan = *race.plan;
  kwr_race_state &state = *race.state;
  auto *samples = reinterpret_cast<double *>(race.board + samples_at);
  kwr::Random random(seed);
  std::vector<int> turn;
  for (int c = 0; c < plan.contestants; ++c)
    if (race.active >> c & 1) turn.push_back(c);
  std::vector<size_t> next(size_t(plan.contestants), 0);
  kept_outputs.resize(plan.allocating ? race.traps.size() : 0);
  progress()->phase = KWR_RACING;
  state.timed_ns = state.other_ns = 0;
  const auto take = [&](int c, int lane) -> Set & {
    const auto &order = race.order[size_t(lane)];
    size_t &at = next[size_t(lane)];
    Set &set = race.lanes[size_t(lane)][size_t(order[at])];
    if (++at == order.size()) at = 0;
    set.user = c;
    return set;
  };
  for (int block = 0; block < race.blocks; ++block) {
    progress()->index = block;
    shuffle(turn, random);
    for (int c = 0; c < plan.contestants; ++c) samples[block * plan.contestants + c] = __builtin_nan("");
    for (const int c : turn) {
      progress()->run = c;
      restore_environment();
      void *kernel = race.kernels[size_t(c)];
      const int lane = (c + (plan.cold ? block : 0) + race.shift) % plan.contestants;
      int32_t status = KW_OK;
      if (!plan.cold) {
        const int64_t start = kwr::now_ns();
        for (int64_t i = 0; i < state.sets; ++i) status |= call_once(kernel, take(c, lane));
        state.other_ns += kwr::now_ns() - start;
      }
      const int calls = state.calls[c];
      const int64_t start = kwr::now_ns();
      for (int i = 0; i < calls; ++i) status |= call_once(kernel, take(c, lane));
      const int64_t took = kwr::now_ns() - start;
      tick();
      samples[block * plan.contestants + c] = double(took) / calls;
      state.timed_ns += took;
      if (failed(c, status)) return -1;
    }
    if (plan.allocating)
      for (size_t t = 0; t < race.traps.size(); ++t) {
        if (race.traps[t].block != block) continue;
        progress()->run = race.traps[t].contestant;
        const int64_t start = kwr::now_ns();
        if (!sample_allocating(race.traps[t], kept_outputs[t])) return -1;
        state.other_ns += kwr::now_ns() - start;
      }
  }
  progress()->phase = KWR_IDLE;
  return 0;
}

// Copies, from `copies_at` on, what the judgement of every renewed set needs: outputs as they are now, and
// inputs as they were given where sets differ.
KWR_EXPORT int32_t kwr_race_collect(int64_t samples_at, int64_t copies_at) {
  const kwr_race &plan = *race.plan;
  auto *samples = reinterpret_cast<kwr_sample *>(race.board + samples_at);
  int64_t at = copies_at;
  for (size_t t = 0; t < race.traps.size(); ++t) {
    const Trap &trap = race.traps[t];
    const Set &set = set_of(trap);
    kwr_sample &sample = samples[t];
    memset(&sample, 0, sizeof sample);
    sample.contestant = plan.allocating ? trap.contestant : set.user;
    if (sample.contestant == KWR_NONE) continue;
    sample.set = trap.set;
    sample.group = set.group;
    size_t kept = 0;
    for (int b = 0; b < plan.buffers; ++b) {
      const kwr_race_buffer &buffer = plan.buffer[b];
      const auto *found = static_cast<const unsigned char *>(set.buffer[b]);
      if (found == nullptr) found = static_cast<const unsigned char *>(kept_outputs[t][kept++]);
      if (!is_output(b) && buffer.vary == 0) {  // the parent has it
        sample.at[b] = KWR_NONE;
        if (memcmp(race.store + buffer.source[set.group], found, size_t(buffer.nbytes)) != 0)
          sample.inputs_changed |= 1 << b;
        if (!fenced(found, buffer.nbytes)) sample.written_outside |= 1 << b;
        continue;
      }
      unsigned char *copy = race.board + at;
      sample.at[b] = at;
      at += (buffer.nbytes + kLine - 1) / kLine * kLine;
      if (is_output(b)) {
        memcpy(copy, found, size_t(buffer.nbytes));
      } else {
        kwr::copy_varied(copy, race.store + buffer.source[set.group], buffer.nbytes, buffer.vary,
                         buffer_seed(set.seed, b));
        if (memcmp(copy, found, size_t(buffer.nbytes)) != 0) sample.inputs_changed |= 1 << b;
      }
      if (!fenced(found, buffer.nbytes)) sample.written_outside |= 1 << b;
    }
  }
  race.state->samples = int64_t(race.traps.size());
  return 0;
}
