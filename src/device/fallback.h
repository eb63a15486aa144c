/* What went another way than asked for, because something failed or was refused. Every such event
 * is logged and counted in one place. */
#ifndef DEVICE_FALLBACK_H
#define DEVICE_FALLBACK_H

#include <stdbool.h>

#include "compute/status.h"
#include "compute/device.h"

typedef enum fallback_kind {
  FALLBACK_STEP_ON_CPU = 0,  /* the device refused a step when the plan was compiled */
  FALLBACK_OTHER_KERNEL = 1, /* a kernel did not build; another implementation did */
  FALLBACK_EVICTED = 2,      /* device memory was short; cached blocks were given back */
  FALLBACK_SMALLER_BATCH = 3,
  FALLBACK_RUN_ON_CPU = 4, /* a run failed on the device and was repeated on the CPU */
  FALLBACK_DEVICE_RECOVERED = 5,
  FALLBACK_SPLIT_TRANSFER = 6, /* a copy failed and was repeated in pieces */
  FALLBACK_COUNT
} fallback_kind;

/* "step_on_cpu", …; constant. */
const char *fallback_name(fallback_kind kind);

/* Counts the event, puts it into the profile and logs it: as a warning if `loud`, else for
 * information. `device` may be NULL. Thread-safe; sets no error. */
void fallback_note(compute_context *context, const compute_device *device, fallback_kind kind,
                   bool loud, const char *format, ...) COMPUTE_PRINTF(5, 6);

#endif
