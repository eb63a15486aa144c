#include "device/fallback.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "device/device.h"
#include "device/collector.h"

const char *fallback_name(fallback_kind kind) {
  static const char *const names[FALLBACK_COUNT] = {
      [FALLBACK_STEP_ON_CPU] = "step_on_cpu",
      [FALLBACK_OTHER_KERNEL] = "other_kernel",
      [FALLBACK_EVICTED] = "evicted",
      [FALLBACK_SMALLER_BATCH] = "smaller_batch",
      [FALLBACK_RUN_ON_CPU] = "run_on_cpu",
      [FALLBACK_DEVICE_RECOVERED] = "device_recovered",
      [FALLBACK_SPLIT_TRANSFER] = "split_transfer",
  };
  return (unsigned)kind < FALLBACK_COUNT ? names[kind] : "unknown";
}

void fallback_note(compute_context *context, const compute_device *device, fallback_kind kind,
                   bool loud, const char *format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  __atomic_add_fetch(&context->fallbacks[kind], 1, __ATOMIC_RELAXED);
  profile_event(context, device, kind, text);
  log_write(loud ? COMPUTE_LOG_WARNING : COMPUTE_LOG_INFO, "core", "%s%s%s",
            device ? device->info.name : "", device ? ": " : "", text);
}
