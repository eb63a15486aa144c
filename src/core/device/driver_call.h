/* SPDX-License-Identifier: MIT */
/* Guards calls that may start driver threads. A new thread inherits the signal mask and the
 * floating-point environment of the thread that starts it. Driver threads must not receive the
 * program's signals or compute in its rounding mode. */
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

/* Blocks all signals except fault signals, and sets the default floating-point environment. */
driver_call driver_call_begin(void);

/* As driver_call_begin, but does nothing if the module opens no driver. */
driver_call driver_call_begin_for(const compute_backend *backend);

/* Restores the calling thread's signal mask and floating-point environment. */
void driver_call_end(const driver_call *call);

/* driver_started records that the backend `name` has started its driver. driver_is_inherited
 * returns `true` if a parent process has started it. Driver threads and connections do not survive
 * a fork, and some drivers never answer in the child. Thread-safe. */
void driver_started(const char *name);
bool driver_is_inherited(const char *name);

/* Guards the rest of the block; `backend` as for driver_call_begin_for. */
#define DRIVER_CALL(backend)                                                                       \
  const driver_call driver_call_here __attribute__((cleanup(driver_call_end), unused)) =           \
      driver_call_begin_for(backend)

#endif
