/* How many threads are worth starting: the CPUs that the process may run on, or less if its cgroup
 * (both versions of cgroups) grants less CPU time. Containers usually limit by the second. */
#include "base/thread_limit.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread_pool.h"

#define PATH_BYTES 1024

static int32_t affinity_count(void) {
  /* The kernel refuses a mask smaller than its own, so the mask grows until it fits. */
  for (size_t cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
    cpu_set_t *set = CPU_ALLOC(cpus);
    if (!set) break;
    size_t bytes = CPU_ALLOC_SIZE(cpus);
    int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 && online < INT32_MAX ? (int32_t)online : 1;
}

/* The first line of a file; false if there is none. */
static bool line_read(const char *path, char *line, int bytes) {
  FILE *file = fopen(path, "re");
  if (!file) return false;
  bool found = fgets(line, bytes, file) != NULL;
  fclose(file);
  return found;
}

/* CPUs granted by quota and period in microseconds, rounded up; `limit` if there is no quota. */
static int32_t quota_apply(long long quota, long long period, int32_t limit) {
  if (quota <= 0 || period <= 0) return limit;
  long long cpus = quota / period + (quota % period != 0);
  return cpus < limit ? (int32_t)cpus : limit;
}

static int32_t folder_limit(const char *folder, bool version_2, int32_t limit) {
  char path[PATH_BYTES + 32], line[64];
  long long quota, period;
  if (version_2) {
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (!line_read(path, line, sizeof line)) return limit;
    /* "max 100000" when unlimited: then quota does not scan. */
    if (sscanf(line, "%lld %lld", &quota, &period) != 2) return limit;
    return quota_apply(quota, period, limit);
  }
  snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
  if (!line_read(path, line, sizeof line) || sscanf(line, "%lld", &quota) != 1) return limit;
  snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
  if (!line_read(path, line, sizeof line) || sscanf(line, "%lld", &period) != 1) return limit;
  return quota_apply(quota, period, limit);
}

/* A group's limit is the smallest on the way from it to the root. In a container the path may name
 * folders of the host, which are not there; the ones that are still count. */
static int32_t group_limit(const char *root, const char *mount, const char *group, bool version_2,
                           int32_t limit) {
  char folder[PATH_BYTES];
  int length = snprintf(folder, sizeof folder, "%s%s%s", root, mount, group);
  if (length < 0 || (size_t)length >= sizeof folder) return limit;
  size_t root_length = strlen(root) + strlen(mount);
  for (;;) {
    limit = folder_limit(folder, version_2, limit);
    char *slash = strrchr(folder, '/');
    if (!slash || (size_t)(slash - folder) < root_length) return limit;
    *slash = '\0';
  }
}

/* Whether the list "cpu,cpuacct" has an entry "cpu". */
static bool controls_cpu(const char *controllers) {
  for (const char *p = controllers; p; p = strchr(p, ',')) {
    if (*p == ',') p++;
    if (strncmp(p, "cpu", 3) == 0 && (p[3] == ',' || p[3] == '\0')) return true;
  }
  return false;
}

/* Lines of /proc/self/cgroup are "number:controllers:path"; version 2 has no controllers there. */
int32_t thread_limit_cgroup(const char *cgroup_file, const char *root, int32_t limit) {
  FILE *file = fopen(cgroup_file, "re");
  if (!file) return limit;
  char line[PATH_BYTES];
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) continue;
    *controllers++ = '\0';
    *path++ = '\0';
    if (*controllers == '\0') {
      limit = group_limit(root, "", path, true, limit);
      limit = group_limit(root, "/unified", path, true, limit);
    } else if (controls_cpu(controllers)) {
      limit = group_limit(root, "/cpu", path, false, limit);
    }
  }
  fclose(file);
  return limit;
}

int32_t thread_pool_available(void) {
  int32_t limit = thread_limit_cgroup("/proc/self/cgroup", "/sys/fs/cgroup", affinity_count());
  return limit > 0 ? limit : 1;
}
