// Uses an instruction that this machine does not have.
#include "planted.h"

KW_EXPORT int32_t kw_rms_norm(const kw_call *, const void *, const void *, void *) {
  asm volatile("ud2");
  return KW_OK;
}
