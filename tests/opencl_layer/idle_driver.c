/* SPDX-License-Identifier: MIT */
/* An OpenCL driver without devices, which shows when and how it is started. It appends a line to
 * the file named by CL_IDLE_DRIVER_LOG, and starts a thread that checks its inherited state. */
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static void *look(void *unused) {
  (void)unused;
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  const char *path = getenv("CL_IDLE_DRIVER_LOG");
  FILE *file = path ? fopen(path, "ae") : NULL;
  if (!file) return NULL;
  fprintf(file, "signals %s, faults %s, rounding %s\n",
          sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM) && sigismember(&mask, SIGUSR1)
              ? "blocked"
              : "open",
          sigismember(&mask, SIGSEGV) || sigismember(&mask, SIGFPE) ? "blocked" : "open",
          fegetround() == FE_TONEAREST ? "default" : "the caller's");
  fclose(file);
  return NULL;
}

__attribute__((constructor)) static void start(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, look, NULL) == 0) pthread_join(thread, NULL);
}
