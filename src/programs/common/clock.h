/* SPDX-License-Identifier: MIT */
/* The clock that programs use for measurements. */
#ifndef PROGRAMS_CLOCK_H
#define PROGRAMS_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Returns nanoseconds since an unspecified start. Steps of the wall clock do not change it. */
static inline int64_t clock_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline double clock_seconds(void) {
  return 1e-9 * (double)clock_now();
}

#endif
