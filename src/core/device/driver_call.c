/* SPDX-License-Identifier: MIT */
/* Signal masks and floating-point environments around driver calls, and drivers across a fork. */
#include "core/device/driver_call.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/process.h"
#include "core/device/device.h"

/* A fault signal is delivered to the thread that caused it. If it is blocked, it ends the process
 * even where a driver would handle it. PoCL handles SIGFPE for divisions by zero. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

driver_call driver_call_begin(void) {
  driver_call call = {.active = true};
  sigset_t blocked;
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&blocked, faults[i]);
  pthread_sigmask(SIG_BLOCK, &blocked, &call.mask);
  call.environment = float_environment_default();
  return call;
}

driver_call driver_call_begin_for(const compute_backend *backend) {
  const bool own = (backend->flags & COMPUTE_BACKEND_ENVIRONMENT_SAFE) != 0;
  return own ? (driver_call){.active = false} : driver_call_begin();
}

void driver_call_end(const driver_call *call) {
  if (!call->active) return;
  float_environment_restore(&call->environment);
  pthread_sigmask(SIG_SETMASK, &call->mask, NULL);
}

/* ---- Forks --------------------------------------------------------------------------------- */

/* Backends whose drivers this process or a parent has started. Entries are never removed. */
typedef struct started_driver {
  struct started_driver *next;
  char name[32];
  uint32_t process; /* process_forks at the start */
} started_driver;

static started_driver *_Atomic started;

static const started_driver *find_started(const char *name) {
  const started_driver *driver = atomic_load(&started);
  while (driver && strncmp(driver->name, name, sizeof driver->name - 1) != 0) driver = driver->next;
  return driver;
}

/* When out of memory, the driver is not recorded. The list uses calloc because it outlives every
 * context. */
void driver_started(const char *name) {
  if (find_started(name)) return;
  started_driver *driver = calloc(1, sizeof *driver);
  if (!driver) return;
  snprintf(driver->name, sizeof driver->name, "%s", name);
  driver->process = process_forks;
  driver->next = atomic_load(&started);
  while (!atomic_compare_exchange_weak(&started, &driver->next, driver)) continue;
}

bool driver_is_inherited(const char *name) {
  const started_driver *driver = process_forks > 0 ? find_started(name) : NULL;
  return driver && driver->process != process_forks;
}

compute_status context_refuse(const compute_context *context, const char *operation) {
  return error_set_native(context, COMPUTE_ERROR_INVALID_STATE, 0, operation,
                          "open a separate context in the child process",
                          "the process was forked; its context and all objects of it stayed in the "
                          "parent");
}
