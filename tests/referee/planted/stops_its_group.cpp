// Sends SIGSTOP to its process group and to its parent.
#include <signal.h>
#include <unistd.h>

#include "planted.h"

KW_EXPORT int32_t kw_rms_norm(const kw_call *call, const void *x, const void *weight, void *out) {
  kill(getppid(), SIGSTOP);
  kill(0, SIGSTOP);
  planted::all(call, x, weight, out);
  return KW_OK;
}
