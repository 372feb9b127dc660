// What clang's OpenMP code calls, done by libgomp.
//
// clang lowers OpenMP to the entry points of LLVM's runtime (their meaning: "LLVM OpenMP Runtime Library
// Interface", openmp.llvm.org). That runtime beside torch's libgomp would be a second pool of threads in one
// process, each spinning while the other works. So every library that clang builds carries this translation
// instead: parallel regions, loops of all schedules, reductions, critical, single, master, barriers. What it
// does not know (tasks, ordered, depend) is an undefined symbol, and the build fails and names it.
#include <cstdarg>
#include <cstddef>
#include <cstdint>

#include "omp.h"

extern "C" {
// libgomp's entry points, as g++ calls them.
void GOMP_barrier(void);
void GOMP_critical_name_end(void **name);
void GOMP_critical_name_start(void **name);
bool GOMP_loop_dynamic_next(long *from, long *to);
bool GOMP_loop_dynamic_start(long start, long end, long step, long chunk, long *from, long *to);
void GOMP_loop_end_nowait(void);
bool GOMP_loop_guided_next(long *from, long *to);
bool GOMP_loop_guided_start(long start, long end, long step, long chunk, long *from, long *to);
bool GOMP_loop_runtime_next(long *from, long *to);
bool GOMP_loop_runtime_start(long start, long end, long step, long *from, long *to);
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
void GOMP_parallel_end(void);
void GOMP_parallel_start(void (*body)(void *), void *data, unsigned threads);
bool GOMP_single_start(void);
}

namespace {

struct Ident;  // where in the source; not used

// LLVM's numbers of schedules, without the bits of the modifiers.
enum Schedule {
  kStaticChunked = 33,
  kStatic = 34,
  kDynamic = 35,
  kGuided = 36,
  kRuntime = 37,
};
constexpr int32_t kModifiers = (1 << 29) | (1 << 30);

// Arguments are pointers. x86-64 lets a caller pass more of them than the callee takes, so one call serves
// every number up to this; clang passes one a captured variable.
constexpr int kMostArguments = 24;
using Body = void (*)(int32_t *, int32_t *, ...);
using Outlined = void (*)(int32_t *, int32_t *, void *, void *, void *, void *, void *, void *, void *,
                          void *, void *, void *, void *, void *, void *, void *, void *, void *, void *,
                          void *, void *, void *, void *, void *, void *, void *);

struct Region {
  Outlined body;
  void *argument[kMostArguments];
};

void run_region(void *data) {
  const Region &region = *(const Region *)data;
  void *const *a = region.argument;
  int32_t thread = omp_get_thread_num(), bound = thread;
  region.body(&thread, &bound, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
              a[12], a[13], a[14], a[15], a[16], a[17], a[18], a[19], a[20], a[21], a[22], a[23]);
}

void nothing(void *) {}

thread_local unsigned threads_asked = 0;

// This thread's share of a loop with a fixed schedule. Bounds are inclusive, as clang keeps them.
template <class T, class Signed>
void static_share(int32_t schedule, int32_t *last, T *lower, T *upper, Signed *stride, Signed step,
                  Signed chunk) {
  const uint64_t team = (uint64_t)omp_get_num_threads(), me = (uint64_t)omp_get_thread_num();
  const bool up = step > 0;
  if (up ? *upper < *lower : *lower < *upper) {
    if (last) *last = 0;
    *stride = step;
    return;
  }
  const uint64_t distance = up ? (uint64_t)*upper - (uint64_t)*lower : (uint64_t)*lower - (uint64_t)*upper;
  const uint64_t size = up ? (uint64_t)step : 0 - (uint64_t)step;
  const uint64_t trips = distance / size + 1;
  const T first = *lower;
  uint64_t begin, count;
  if ((schedule & ~kModifiers) == kStaticChunked) {
    const uint64_t each = chunk > 0 ? (uint64_t)chunk : 1;
    begin = me * each;
    count = each;
    *stride = (Signed)((uint64_t)step * each * team);
    if (last) *last = (trips - 1) / each % team == me;
    // clang cuts the last piece to the loop's end itself; a thread without a piece starts beyond it.
  } else {
    const uint64_t share = trips / team, extra = trips % team;
    begin = me * share + (me < extra ? me : extra);
    count = share + (me < extra);
    *stride = (Signed)((uint64_t)step * trips);
    if (last) *last = count > 0 && begin + count == trips;
  }
  *lower = (T)((uint64_t)first + begin * (uint64_t)step);
  *upper = (T)((uint64_t)*lower + (count - 1) * (uint64_t)step);
  // Without a share: a range that is empty also where the type has no value below its first.
  if (count == 0) {
    *lower = up ? (T)1 : (T)0;
    *upper = up ? (T)0 : (T)1;
  }
}

// A loop that is handed out piece by piece. libgomp gives the first piece at the start; clang asks for it
// later.
struct Loop {
  int32_t schedule;
  bool started, more;
  long from, to, step, final;
};
constexpr int kLevels = 8;
thread_local Loop loops[kLevels];
Loop &this_loop() { return loops[omp_get_level() % kLevels]; }

void loop_start(int32_t schedule, long lower, long upper, long step, long chunk) {
  Loop &loop = this_loop();
  const long end = upper + (step > 0 ? 1 : -1);
  loop = Loop{schedule & ~kModifiers, false, false, 0, 0, step, upper};
  if (loop.schedule == kGuided)
    loop.more = GOMP_loop_guided_start(lower, end, step, chunk, &loop.from, &loop.to);
  else if (loop.schedule == kRuntime)
    loop.more = GOMP_loop_runtime_start(lower, end, step, &loop.from, &loop.to);
  else
    loop.more = GOMP_loop_dynamic_start(lower, end, step, chunk > 0 ? chunk : 1, &loop.from, &loop.to);
}

template <class T, class Signed>
int32_t loop_next(int32_t *last, T *lower, T *upper, Signed *stride) {
  Loop &loop = this_loop();
  if (loop.started) {
    if (loop.schedule == kGuided)
      loop.more = GOMP_loop_guided_next(&loop.from, &loop.to);
    else if (loop.schedule == kRuntime)
      loop.more = GOMP_loop_runtime_next(&loop.from, &loop.to);
    else
      loop.more = GOMP_loop_dynamic_next(&loop.from, &loop.to);
  }
  loop.started = true;
  if (!loop.more) {
    GOMP_loop_end_nowait();
    return 0;
  }
  // libgomp's end is one step, or less, beyond the last iteration.
  const long trips = loop.step > 0 ? (loop.to - loop.from + loop.step - 1) / loop.step
                                   : (loop.from - loop.to - loop.step - 1) / -loop.step;
  const long end = loop.from + (trips - 1) * loop.step;
  *lower = (T)loop.from;
  *upper = (T)end;
  *stride = (Signed)loop.step;
  if (last) *last = loop.step > 0 ? end + loop.step > loop.final : end + loop.step < loop.final;
  return 1;
}

}  // namespace

extern "C" {

int32_t __kmpc_global_thread_num(Ident *) { return omp_get_thread_num(); }

void __kmpc_push_num_threads(Ident *, int32_t, int32_t threads) { threads_asked = (unsigned)threads; }

void __kmpc_fork_call(Ident *, int32_t count, Body body, ...) {
  Region region = {(Outlined)body, {}};
  if (count > kMostArguments) __builtin_trap();
  va_list list;
  va_start(list, body);
  for (int32_t index = 0; index < count; ++index) region.argument[index] = va_arg(list, void *);
  va_end(list);
  const unsigned threads = threads_asked;
  threads_asked = 0;
  GOMP_parallel(run_region, &region, threads, 0);
}

void __kmpc_serialized_parallel(Ident *, int32_t) {
  threads_asked = 0;
  GOMP_parallel_start(nothing, nullptr, 1);
}
void __kmpc_end_serialized_parallel(Ident *, int32_t) { GOMP_parallel_end(); }

#define KW_LOOPS(suffix, T, Signed)                                                                     \
  void __kmpc_for_static_init_##suffix(Ident *, int32_t, int32_t schedule, int32_t *last, T *lower,     \
                                       T *upper, Signed *stride, Signed step, Signed chunk) {           \
    static_share<T, Signed>(schedule, last, lower, upper, stride, step, chunk);                         \
  }                                                                                                     \
  void __kmpc_dispatch_init_##suffix(Ident *, int32_t, int32_t schedule, T lower, T upper, Signed step, \
                                     Signed chunk) {                                                    \
    loop_start(schedule, (long)lower, (long)upper, (long)step, (long)chunk);                            \
  }                                                                                                     \
  int32_t __kmpc_dispatch_next_##suffix(Ident *, int32_t, int32_t *last, T *lower, T *upper,            \
                                        Signed *stride) {                                               \
    return loop_next<T, Signed>(last, lower, upper, stride);                                            \
  }
KW_LOOPS(4, int32_t, int32_t)
KW_LOOPS(4u, uint32_t, int32_t)
KW_LOOPS(8, int64_t, int64_t)
KW_LOOPS(8u, uint64_t, int64_t)
#undef KW_LOOPS

void __kmpc_for_static_fini(Ident *, int32_t) {}
void __kmpc_dispatch_fini_4(Ident *, int32_t) {}
void __kmpc_dispatch_fini_4u(Ident *, int32_t) {}
void __kmpc_dispatch_fini_8(Ident *, int32_t) {}
void __kmpc_dispatch_fini_8u(Ident *, int32_t) {}

void __kmpc_barrier(Ident *, int32_t) { GOMP_barrier(); }
void __kmpc_flush(Ident *) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// A critical section's name is eight zeroed words that all threads share; libgomp needs one pointer of them.
void __kmpc_critical(Ident *, int32_t, void *name) { GOMP_critical_name_start((void **)name); }
void __kmpc_critical_with_hint(Ident *, int32_t, void *name, uint32_t) {
  GOMP_critical_name_start((void **)name);
}
void __kmpc_end_critical(Ident *, int32_t, void *name) { GOMP_critical_name_end((void **)name); }

// "1": the thread adds its part to the result itself, alone, until it says that it is done.
int32_t __kmpc_reduce_nowait(Ident *, int32_t, int32_t, std::size_t, void *, void (*)(void *, void *),
                             void *name) {
  GOMP_critical_name_start((void **)name);
  return 1;
}
void __kmpc_end_reduce_nowait(Ident *, int32_t, void *name) { GOMP_critical_name_end((void **)name); }
int32_t __kmpc_reduce(Ident *, int32_t, int32_t, std::size_t, void *, void (*)(void *, void *), void *name) {
  GOMP_critical_name_start((void **)name);
  return 1;
}
void __kmpc_end_reduce(Ident *, int32_t, void *name) {
  GOMP_critical_name_end((void **)name);
  GOMP_barrier();
}

int32_t __kmpc_single(Ident *, int32_t) { return GOMP_single_start(); }
void __kmpc_end_single(Ident *, int32_t) {}
int32_t __kmpc_master(Ident *, int32_t) { return omp_get_thread_num() == 0; }
void __kmpc_end_master(Ident *, int32_t) {}
int32_t __kmpc_masked(Ident *, int32_t, int32_t filter) { return omp_get_thread_num() == filter; }
void __kmpc_end_masked(Ident *, int32_t) {}
}
