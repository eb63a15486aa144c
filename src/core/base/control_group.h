/* SPDX-License-Identifier: MIT */
/* What the control groups of the process grant it, CPU time and memory. Of the group that it is in
 * and all groups above, the tightest limit counts, in both versions of control groups. */
#ifndef BASE_CONTROL_GROUP_H
#define BASE_CONTROL_GROUP_H

#include <stdint.h>

/* Where the kernel says it. Tests have files of their own. */
typedef struct control_group_files {
  const char *groups;  /* /proc/self/cgroup */
  const char *root;    /* where the file systems are mounted: /sys/fs/cgroup */
  const char *machine; /* /proc/meminfo, for the swap space that is left */
} control_group_files;

/* The smaller of `limit` and the CPUs that are granted, rounded up. NULL for the kernel's files,
 * here and below. */
int32_t control_group_threads(const control_group_files *files, int32_t limit);

/* Bytes; UINT64_MAX where nothing limits them. */
typedef struct control_group_memory {
  uint64_t limit; /* of the tightest group */
  uint64_t left;  /* what may be touched besides, without swap space; caches of files, which the
                     kernel drops first, count as unused */
  uint64_t swap;  /* what may be swapped out besides */
} control_group_memory;

control_group_memory control_group_memory_query(const control_group_files *files);

#endif
