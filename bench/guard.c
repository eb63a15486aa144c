/* SPDX-License-Identifier: MIT */
/* See guard.h. The message is formatted in advance: a signal handler may only write it. */
#include "guard.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
  int signal;
  const char *name;
} deaths[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
              {SIGILL, "SIGILL"},   {SIGABRT, "SIGABRT"}, {SIGALRM, NULL}};
enum { DEATHS = sizeof deaths / sizeof *deaths };

static struct sigaction before[DEATHS];
static char text[DEATHS][320];
static bool installed;

static void die(int signal) {
  for (int i = 0; i < DEATHS; i++) {
    if (deaths[i].signal != signal) continue;
    const ssize_t written = write(STDOUT_FILENO, text[i], strlen(text[i]));
    (void)written; /* nothing can be done about a failure */
  }
  if (signal == SIGALRM) _exit(1);
  raise(signal); /* with the default action, due to SA_RESETHAND: the shell reports how the program
                  * ended */
}

void guard_case(const char *suite, const char *name, unsigned seconds) {
  for (int i = 0; i < DEATHS; i++) {
    if (deaths[i].name)
      snprintf(text[i], sizeof text[i], "\nFAILED: %s/%s: crashed, %s\n", suite, name,
               deaths[i].name);
    else
      snprintf(text[i], sizeof text[i],
               "\nFAILED: %s/%s: hangs, no end after %u s, at most %u s allowed\n", suite, name,
               seconds, seconds);
    struct sigaction action = {.sa_flags = (int)SA_RESETHAND};
    action.sa_handler = die;
    sigaction(deaths[i].signal, &action, installed ? NULL : &before[i]);
  }
  installed = true;
  fflush(stdout); /* earlier output comes first */
  alarm(seconds);
}

void guard_end(void) {
  alarm(0);
  for (int i = 0; installed && i < DEATHS; i++) sigaction(deaths[i].signal, &before[i], NULL);
  installed = false;
}

/* ---- Interruption -------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
  (void)signal_number;
  interrupted = 1;
}

/* timeout(1) sends SIGTERM twice: to the program and to its group. */
void guard_take_interrupts(void) {
  struct sigaction action = {.sa_flags = SA_RESTART};
  action.sa_handler = on_interrupt;
  sigaction(SIGTERM, &action, NULL);
  action.sa_flags |= (int)SA_RESETHAND;
  sigaction(SIGINT, &action, NULL);
}

bool guard_interrupted(void) {
  return interrupted;
}
