/* The part of thread_pool_available that tests can feed with files of their own. */
#ifndef BASE_THREAD_LIMIT_H
#define BASE_THREAD_LIMIT_H

#include <stdint.h>

/* The smaller of `limit` and the CPUs, rounded up, that the process's cgroups grant. `cgroup_file`
 * is /proc/self/cgroup, and `root` the folder where the cgroup file systems are mounted. */
int32_t thread_limit_cgroup(const char *cgroup_file, const char *root, int32_t limit);

#endif
