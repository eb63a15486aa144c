/* SPDX-License-Identifier: MIT */
/* The library's only clock: CLOCK_MONOTONIC. Header-only, so that the programs can use it without a
 * private symbol of the library. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since an unspecified start. */
static inline int64_t clock_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Seconds since the same start. */
static inline double clock_seconds(void) {
  return 1e-9 * (double)clock_now();
}

#endif
