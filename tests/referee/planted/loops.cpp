// Never comes back.
#include "planted.h"

KW_EXPORT int32_t kw_rms_norm(const kw_call *, const void *, const void *, void *) {
  for (volatile int spin = 0;; spin = spin + 1) {
  }
}
