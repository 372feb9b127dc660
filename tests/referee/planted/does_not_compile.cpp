// Names something that does not exist.
#include "planted.h"

KW_EXPORT int32_t kw_rms_norm(const kw_call *call, const void *, const void *, void *) {
  return fastest_rms_norm_ever(call);
}
