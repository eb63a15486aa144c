/* SPDX-License-Identifier: MIT */
#include "alternate.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_SECONDS = 4 }; /* of a case; the first round is always whole */

static double seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor time of this thread, which other jobs of the machine disturb less than the time of day.
 * All sides have one thread. */
static double time_of(const alternate_side *side, int64_t times) {
  const double start = seconds(CLOCK_THREAD_CPUTIME_ID);
  for (int64_t i = 0; i < times; i++)
    if (side->run(side->state)) return -1;
  return (seconds(CLOCK_THREAD_CPUTIME_ID) - start) / (double)times;
}

void alternate_measure(alternate_side *sides, size_t count, int rounds) {
  const double end = seconds(CLOCK_MONOTONIC) + MOST_SECONDS;
  int64_t times = 1;
  for (size_t i = 0; i < count; i++) {
    sides[i].seconds = sides[i].run ? time_of(&sides[i], 1) : -1;
    if (i == 0) times = (int64_t)(1e-3 / (sides[i].seconds > 1e-7 ? sides[i].seconds : 1e-7)) + 1;
  }
  for (int round = 0; round < rounds && (round == 0 || seconds(CLOCK_MONOTONIC) < end); round++)
    for (size_t i = 0; i < count; i++) {
      if (sides[i].seconds < 0) continue;
      const double mean = time_of(&sides[i], times);
      if (mean < sides[i].seconds) sides[i].seconds = mean;
    }
}

bool alternate_open(const char *const *files, const char *package, const alternate_symbol *symbols,
                    size_t count) {
  void *library = NULL;
  for (; !library && *files; files++) library = dlopen(*files, RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    fprintf(stderr, "no peer: %s (%s)\n", dlerror(), package);
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    void *address = dlsym(library, symbols[i].name);
    if (!address) {
      fprintf(stderr, "no peer: no %s in %s\n", symbols[i].name, package);
      return false;
    }
    memcpy(symbols[i].pointer, &address, sizeof address);
  }
  return true;
}

int alternate_main(int argc, char **argv, size_t cases, alternate_case run_case) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 50;
  const size_t first = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 0;
  const size_t end = argc > 2 && first + 1 < cases ? first + 1 : cases;
  compute_context *context = NULL;
  const compute_open_options options = {.threads = 1, .device = "cpu"};
  compute_status s = compute_open(&context, &options);
  for (size_t i = first; i < end && !s; i++) s = run_case(context, i, rounds);
  if (s) fprintf(stderr, "%s\n", compute_error_message(NULL));
  const compute_status closed = compute_close(context);
  return s || closed;
}
