// Never lets go of who loads it.
#include <unistd.h>

#include "planted.h"

__attribute__((constructor)) static void for_ever() {
  for (;;) pause();
}

KW_EXPORT int32_t kw_rms_norm(const kw_call *, const void *, const void *, void *) { return KW_OK; }
