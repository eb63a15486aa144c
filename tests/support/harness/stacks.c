/* SPDX-License-Identifier: MIT */
#include "support/harness/stacks.h"

#include <dirent.h>
#if __has_include(<execinfo.h>) /* not in musl */
#include <execinfo.h>
#define HAVE_BACKTRACE 1
#else
#define HAVE_BACKTRACE 0
#endif
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST_FRAMES = 48, PATIENCE_MILLISECONDS = 2000 };

static atomic_int printed; /* threads printed */

static void print_own(int signal_number) {
  static const char line[] = "thread\n";
  (void)signal_number;
#if HAVE_BACKTRACE
  void *frames[MOST_FRAMES];
  const int count = backtrace(frames, MOST_FRAMES);
  if (write(STDERR_FILENO, line, sizeof line - 1) > 0)
    backtrace_symbols_fd(frames, count, STDERR_FILENO);
#else
  if (write(STDERR_FILENO, line, sizeof line - 1) < 0) return;
#endif
  atomic_fetch_add(&printed, 1);
}

/* Takes a first backtrace: it loads a library, which a signal handler must not do. */
void stacks_prepare(void) {
  struct sigaction action = {.sa_handler = print_own, .sa_flags = SA_RESTART};
#if HAVE_BACKTRACE
  void *frame;
  (void)backtrace(&frame, 1);
#endif
  sigaction(SIGUSR2, &action, NULL);
}

/* Prints one thread after the other, so that lines do not mix. A thread that blocks the signal is
 * left out. */
void stacks_print(void) {
  DIR *folder = opendir("/proc/self/task");
  if (!folder) return;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    const long thread = strtol(entry->d_name, NULL, 10);
    const int before = atomic_load(&printed);
    if (thread <= 0 || syscall(SYS_tgkill, getpid(), thread, SIGUSR2) != 0) continue;
    for (int i = 0; i < PATIENCE_MILLISECONDS && atomic_load(&printed) == before; i++)
      nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  closedir(folder);
}
