/* SPDX-License-Identifier: MIT */
/* Limits of control groups, versions 1 and 2 (control_group.h). */
#include "core/base/control_group.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arithmetic.h"

#define PATH_BYTES 1024

static const control_group_files own_files = {"/proc/self/cgroup", "/sys/fs/cgroup",
                                              "/proc/meminfo"};

/* ---- Groups ---------------------------------------------------------------------------------- */

/* Called with the folder of each group. */
typedef void (*group_visit)(const char *folder, bool version_2, void *result);

/* Visits a group and all groups above it. In a container, the path may name folders of the host
 * that do not exist; the existing ones still count. */
static void visit_group(const char *root, const char *mount, const char *group, bool version_2,
                        group_visit visit, void *result) {
  char folder[PATH_BYTES];
  int length = snprintf(folder, sizeof folder, "%s%s%s", root, mount, group);
  if (length < 0 || (size_t)length >= sizeof folder) return;
  size_t root_length = strlen(root) + strlen(mount);
  for (;;) {
    visit(folder, version_2, result);
    char *slash = strrchr(folder, '/');
    if (!slash || (size_t)(slash - folder) < root_length) return;
    *slash = '\0';
  }
}

/* `true` if a list such as "cpu,cpuacct" has the entry `wanted`. */
static bool controls(const char *controllers, const char *wanted) {
  const size_t length = strlen(wanted);
  for (const char *p = controllers; p; p = strchr(p, ',')) {
    if (*p == ',') p++;
    if (strncmp(p, wanted, length) == 0 && (p[length] == ',' || p[length] == '\0')) return true;
  }
  return false;
}

/* Lines of /proc/self/cgroup are "number:controllers:path". In version 2, the list of controllers
 * is empty. */
static void visit_groups(const control_group_files *files, const char *controller,
                         group_visit visit, void *result) {
  FILE *file = fopen(files->groups, "re");
  if (!file) return;
  char line[PATH_BYTES], mount[32];
  snprintf(mount, sizeof mount, "/%s", controller);
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) continue;
    *controllers++ = '\0';
    *path++ = '\0';
    if (*controllers == '\0') {
      visit_group(files->root, "", path, true, visit, result);
      visit_group(files->root, "/unified", path, true, visit, result);
    } else if (controls(controllers, controller)) {
      visit_group(files->root, mount, path, false, visit, result);
    }
  }
  fclose(file);
}

static FILE *open_in(const char *folder, const char *name) {
  char path[PATH_BYTES + 48];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return fopen(path, "re");
}

/* Reads the first line of a file. Returns false if there is none. */
static bool line_read(const char *folder, const char *name, char *line, int bytes) {
  FILE *file = open_in(folder, name);
  if (!file) return false;
  bool found = fgets(line, bytes, file) != NULL;
  fclose(file);
  return found;
}

/* ---- CPU time -------------------------------------------------------------------------------- */

/* The CPUs that quota and period (in microseconds) grant, rounded up, at most `limit`. */
static int32_t quota_apply(long long quota, long long period, int32_t limit) {
  if (quota <= 0 || period <= 0) return limit;
  long long cpus = quota / period + (quota % period != 0);
  return cpus < limit ? (int32_t)cpus : limit;
}

static void visit_cpu(const char *folder, bool version_2, void *result) {
  int32_t *limit = result;
  char line[64];
  long long quota, period;
  if (version_2) {
    /* Without a limit, the line is "max 100000", and the quota does not parse. */
    if (line_read(folder, "cpu.max", line, sizeof line) &&
        sscanf(line, "%lld %lld", &quota, &period) == 2)
      *limit = quota_apply(quota, period, *limit);
    return;
  }
  if (!line_read(folder, "cpu.cfs_quota_us", line, sizeof line) ||
      sscanf(line, "%lld", &quota) != 1)
    return;
  if (!line_read(folder, "cpu.cfs_period_us", line, sizeof line) ||
      sscanf(line, "%lld", &period) != 1)
    return;
  *limit = quota_apply(quota, period, *limit);
}

int32_t control_group_threads(const control_group_files *files, int32_t limit) {
  visit_groups(files ? files : &own_files, "cpu", visit_cpu, &limit);
  return limit;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Reads a number of bytes. Returns false for "max" and for a missing file. */
static bool bytes_read(const char *folder, const char *name, uint64_t *bytes) {
  char line[64], *end;
  if (!line_read(folder, name, line, sizeof line)) return false;
  *bytes = strtoull(line, &end, 10);
  return end != line;
}

/* The sum of the "name value" rows of a group's statistics with one of two names. */
static uint64_t statistics_read(const char *folder, const char *first, const char *second) {
  FILE *file = open_in(folder, "memory.stat");
  if (!file) return 0;
  char line[128], name[64];
  unsigned long long value;
  uint64_t sum = 0;
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "%63s %llu", name, &value) == 2 &&
        (!strcmp(name, first) || !strcmp(name, second)))
      sum += value;
  fclose(file);
  return sum;
}

/* The memory that a group may still use: its limit minus its present use, without droppable
 * caches. */
static uint64_t rest_of(uint64_t limit, uint64_t used, uint64_t dropped) {
  used -= min_u64(used, dropped);
  return limit - min_u64(limit, used);
}

static void visit_memory_2(const char *folder, control_group_memory *memory) {
  uint64_t limit, used;
  if (bytes_read(folder, "memory.swap.max", &limit))
    memory->swap =
        min_u64(memory->swap,
                rest_of(limit, bytes_read(folder, "memory.swap.current", &used) ? used : 0, 0));
  if (!bytes_read(folder, "memory.max", &limit)) return;
  memory->limit = min_u64(memory->limit, limit);
  if (bytes_read(folder, "memory.current", &used))
    memory->left =
        min_u64(memory->left,
                rest_of(limit, used, statistics_read(folder, "inactive_file", "active_file")));
}

static void visit_memory_1(const char *folder, control_group_memory *memory) {
  uint64_t limit, used, both;
  if (!bytes_read(folder, "memory.limit_in_bytes", &limit)) return;
  memory->limit = min_u64(memory->limit, limit);
  /* The limit for memory and swap space together. */
  if (bytes_read(folder, "memory.memsw.limit_in_bytes", &both))
    memory->swap = min_u64(memory->swap, both - min_u64(both, limit));
  if (bytes_read(folder, "memory.usage_in_bytes", &used))
    memory->left = min_u64(
        memory->left,
        rest_of(limit, used, statistics_read(folder, "total_inactive_file", "total_active_file")));
}

static void visit_memory(const char *folder, bool version_2, void *result) {
  if (version_2)
    visit_memory_2(folder, result);
  else
    visit_memory_1(folder, result);
}

/* The machine's unused swap space. */
static uint64_t swap_free(const char *machine) {
  FILE *file = fopen(machine, "re");
  if (!file) return 0;
  char line[128];
  unsigned long long kib = 0;
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "SwapFree: %llu kB", &kib) == 1) break;
  fclose(file);
  return (uint64_t)kib << 10;
}

control_group_memory control_group_memory_query(const control_group_files *files) {
  if (!files) files = &own_files;
  control_group_memory memory = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
  visit_groups(files, "memory", visit_memory, &memory);
  if (memory.limit != UINT64_MAX) memory.swap = min_u64(memory.swap, swap_free(files->machine));
  return memory;
}
