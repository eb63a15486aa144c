/* SPDX-License-Identifier: MIT */
#include "device/driver_call.h"

#include <pthread.h>


/* A signal of a fault is delivered to the thread that caused it. Blocked, it would end the process,
 * also where a driver handles it: PoCL does for divisions by zero. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

driver_call driver_call_begin(void) {
  driver_call call = {.active = true};
  sigset_t blocked;
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&blocked, faults[i]);
  pthread_sigmask(SIG_BLOCK, &blocked, &call.mask);
  fegetenv(&call.environment);
  fesetenv(FE_DFL_ENV);
  return call;
}

driver_call driver_call_begin_for(const compute_backend *backend) {
  const bool own = (backend->flags & COMPUTE_BACKEND_ENVIRONMENT_SAFE) != 0;
  return own ? (driver_call){.active = false} : driver_call_begin();
}

void driver_call_end(const driver_call *call) {
  if (!call->active) return;
  fesetenv(&call->environment);
  pthread_sigmask(SIG_SETMASK, &call->mask, NULL);
}
