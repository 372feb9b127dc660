// Work on many sets, spread over threads that are gone when it is done.
//
// OpenMP would keep its threads spinning for milliseconds, in which another contestant is already timed.
#ifndef KWR_SPREAD_H
#define KWR_SPREAD_H

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace kwr {

constexpr int64_t kWorthAThread = 1 << 20;  // bytes

// Whether helping threads let others go first: what is filled ahead must not hold up who judges meanwhile.
inline bool helpers_give_way = false;

inline int64_t processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

template <class Work>
void spread(int64_t count, int64_t bytes_each, Work work) {
  std::atomic<int64_t> next{0};
  const auto run = [&] {
    for (int64_t i; (i = next.fetch_add(1)) < count;) work(i);
  };
  const int64_t helpers =
      std::min({processors(), count, count * std::max<int64_t>(bytes_each, 1) / kWorthAThread}) - 1;
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < helpers; ++i)
    threads.emplace_back([&run, gives_way = helpers_give_way] {
      if (gives_way) setpriority(PRIO_PROCESS, 0, 19);  // on Linux of the calling thread, which ends here
      run();
    });
  run();
  for (std::thread &thread : threads) thread.join();
}

}  // namespace kwr

#endif  // KWR_SPREAD_H
