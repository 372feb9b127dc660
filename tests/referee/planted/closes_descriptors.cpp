// Closes all that is open.
#include <unistd.h>

#include "planted.h"

KW_EXPORT int32_t kw_rms_norm(const kw_call *call, const void *x, const void *weight, void *out) {
  for (int handle = 0; handle < 1024; ++handle) close(handle);
  planted::all(call, x, weight, out);
  return KW_OK;
}
