/* SPDX-License-Identifier: MIT */
/* Starts threads with all signals blocked and the default floating-point environment. */
#include "core/base/thread.h"

#include <signal.h>

#include "core/base/float_environment.h"

int thread_start(pthread_t *thread, const char *name, void *(*work)(void *), void *argument) {
  FLOAT_ENVIRONMENT_DEFAULT;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(thread, NULL, work, argument);
  if (!failed) pthread_setname_np(*thread, name);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return failed;
}
