/* SPDX-License-Identifier: MIT */
/* Times that a program measures. */
#ifndef PROGRAMS_CLOCK_H
#define PROGRAMS_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since an unspecified start; steps of the wall clock do not change it. */
static inline int64_t clock_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline double clock_seconds(void) {
  return 1e-9 * (double)clock_now();
}

#endif
