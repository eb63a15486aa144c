/* SPDX-License-Identifier: MIT */
/* Calls that may start threads of a driver. A thread inherits the signal mask and the
 * floating-point environment of the one that starts it: a driver's threads must neither take the
 * program's signals nor compute in its rounding mode. */
#ifndef DEVICE_DRIVER_CALL_H
#define DEVICE_DRIVER_CALL_H

#include <signal.h>

#include "compute/backend.h"
#include "core/base/float_environment.h"

typedef struct driver_call {
  sigset_t mask;
  float_environment environment;
  bool active;
} driver_call;

/* Blocks all signals but those of faults, and sets the default floating-point environment. */
driver_call driver_call_begin(void);

/* The same, unless the module opens no driver: then it does nothing. */
driver_call driver_call_begin_for(const compute_backend *backend);

/* Restores what the calling thread had before. */
void driver_call_end(const driver_call *call);

/* Notes that the driver of the backend called `name` is started; and whether the parent process has
 * started it. A driver's threads and connections do not survive a fork: asked again in the child,
 * some never answer. Thread-safe. */
void driver_started(const char *name);
bool driver_is_inherited(const char *name);

/* From here to the end of the block; `backend` as for driver_call_begin_for. */
#define DRIVER_CALL(backend)                                                                       \
  const driver_call driver_call_here __attribute__((cleanup(driver_call_end), unused)) =           \
      driver_call_begin_for(backend)

#endif
