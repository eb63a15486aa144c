/* SPDX-License-Identifier: MIT */
/* CPU time and memory that control groups grant to the process. The tightest limit counts, among
 * the process's group and all groups above it. Supports versions 1 and 2. */
#ifndef BASE_CONTROL_GROUP_H
#define BASE_CONTROL_GROUP_H

#include <stdint.h>

/* The kernel's files. Tests use other files. */
typedef struct control_group_files {
  const char *groups;  /* /proc/self/cgroup */
  const char *root;    /* mount point of the file systems: /sys/fs/cgroup */
  const char *machine; /* /proc/meminfo, for the free swap space */
} control_group_files;

/* The smaller of `limit` and the granted CPUs, rounded up. In both queries, NULL selects the
 * kernel's files. */
int32_t control_group_threads(const control_group_files *files, int32_t limit);

/* In bytes; UINT64_MAX means no limit. */
typedef struct control_group_memory {
  uint64_t limit; /* limit of the tightest group */
  uint64_t left;  /* memory that may still be used, without swap space; file caches count as unused,
                   * because the kernel drops them first */
  uint64_t swap;  /* swap space that may still be used */
} control_group_memory;

control_group_memory control_group_memory_query(const control_group_files *files);

#endif
