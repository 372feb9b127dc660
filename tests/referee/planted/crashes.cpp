// Follows a null pointer.
#include "planted.h"

KW_EXPORT int32_t kw_rms_norm(const kw_call *, const void *, const void *, void *) {
  *static_cast<volatile int *>(nullptr) = 1;
  return KW_OK;
}
