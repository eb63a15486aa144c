/* SPDX-License-Identifier: MIT */
/* Windows sets no such limits; it counts the memory of a process. */
#ifndef PLATFORM_SYS_RESOURCE_H
#define PLATFORM_SYS_RESOURCE_H

#include <stdint.h>

typedef uint64_t rlim_t;
#define RLIMIT_FSIZE  1
#define RLIM_INFINITY UINT64_MAX
struct rlimit {
  uint64_t rlim_cur, rlim_max;
};
static inline int getrlimit(int which, struct rlimit *limit) {
  (void)which;
  *limit = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
  return 0;
}

#define RUSAGE_SELF 0
struct rusage {
  int64_t ru_maxrss; /* in KiB */
};
#define getrusage platform_getrusage
int getrusage(int who, struct rusage *usage);

#endif
