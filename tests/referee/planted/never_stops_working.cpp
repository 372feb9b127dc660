// Leaves a thread running for good.
#include <thread>

#include "planted.h"

static volatile bool on = true;

KW_EXPORT int32_t kw_rms_norm(const kw_call *call, const void *x, const void *weight, void *out) {
  static std::thread worker([] {
    while (on) {
    }
  });
  planted::all(call, x, weight, out);
  return KW_OK;
}
