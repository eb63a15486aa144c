#include "profile/fallback.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "device/device.h"

void fallback_note(compute_context *context, const compute_device *device, fallback_kind kind,
                   bool loud, const char *format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  __atomic_add_fetch(&context->fallbacks[kind], 1, __ATOMIC_RELAXED);
  log_write(loud ? COMPUTE_LOG_WARNING : COMPUTE_LOG_INFO, "core", "%s%s%s",
            device ? device->info.name : "", device ? ": " : "", text);
}
