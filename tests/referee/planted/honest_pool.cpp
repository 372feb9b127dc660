// Honest: threads of its own that sleep between calls.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "planted.h"

namespace {

std::mutex mutex;
std::condition_variable wake, done;
int64_t round_number = 0, finished = 0;
const kw_call *the_call;
const void *the_x, *the_weight;
void *the_out;

void work() {
  int64_t seen = 0;
  for (;;) {
    std::unique_lock<std::mutex> lock(mutex);
    wake.wait(lock, [&] { return round_number != seen; });
    seen = round_number;
    lock.unlock();
    const planted::Sizes s(the_call);
    for (int64_t r = 1; r < s.rows; r += 2) planted::row(s, r, the_x, the_weight, the_out, s.width);
    lock.lock();
    finished = seen;
    done.notify_one();
  }
}

}  // namespace

KW_EXPORT int32_t kw_rms_norm(const kw_call *call, const void *x, const void *weight, void *out) {
  static std::thread *worker = new std::thread(work);
  (void)worker;
  const planted::Sizes s(call);
  {
    std::lock_guard<std::mutex> lock(mutex);
    the_call = call, the_x = x, the_weight = weight, the_out = out;
    ++round_number;
    wake.notify_one();
  }
  for (int64_t r = 0; r < s.rows; r += 2) planted::row(s, r, x, weight, out, s.width);
  std::unique_lock<std::mutex> lock(mutex);
  done.wait(lock, [] { return finished == round_number; });
  return KW_OK;
}
