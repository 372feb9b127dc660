// Takes memory until there is none.
#include <new>

#include "planted.h"

KW_EXPORT int32_t kw_rms_norm(const kw_call *, const void *, const void *, void *) {
  for (;;) {
    char *block = new char[int64_t(1) << 33];
    for (int64_t i = 0; i < (1 << 20); i += 4096) static_cast<volatile char *>(block)[i] = 1;
  }
}
