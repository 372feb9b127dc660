// Has nothing for this dtype.
#include "planted.h"

KW_EXPORT int32_t kw_rms_norm(const kw_call *, const void *, const void *, void *) {
  return KW_UNSUPPORTED_DTYPE;
}
