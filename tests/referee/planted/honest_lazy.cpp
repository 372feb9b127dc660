// Honest: takes its time at the first call, and looks at how the machine is made.
#include <unistd.h>

#include "planted.h"

static long prepared = 0;

KW_EXPORT int32_t kw_rms_norm(const kw_call *call, const void *x, const void *weight, void *out) {
  if (prepared == 0) {
    usleep(50000);
    prepared = sysconf(_SC_NPROCESSORS_ONLN);
  }
  const planted::Sizes s(call);
  for (int64_t r = 0; r < s.rows; ++r) planted::row(s, r, x, weight, out, s.width);
  return KW_OK;
}
