/* Seconds that pass. */
#ifndef TOOLS_FIT_CLOCK_H
#define TOOLS_FIT_CLOCK_H

#include <time.h>

/* Since some moment in the past. */
static inline double clock_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
