/* SPDX-License-Identifier: MIT */
/* Limits of threads and memory from control groups of both versions, read from made-up files. */
#include "support/harness/test.h"

#include <string.h>
#include <sys/stat.h>

#include "core/base/control_group.h"

#define ROOT   TEST_SCRATCH_DIR "/root"
#define GROUPS TEST_SCRATCH_DIR "/cgroup"

#define MACHINE TEST_SCRATCH_DIR "/meminfo"

static const control_group_files files = {GROUPS, ROOT, MACHINE};

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static int folders(void **state) {
  (void)state;
  static const char *const paths[] = {ROOT,           ROOT "/a",         ROOT "/a/b",
                                      ROOT "/cpu",    ROOT "/cpu/job",   ROOT "/unified",
                                      ROOT "/memory", ROOT "/memory/job"};
  static const char *const names[] = {"cpu.max",
                                      "cpu.cfs_quota_us",
                                      "cpu.cfs_period_us",
                                      "memory.max",
                                      "memory.current",
                                      "memory.stat",
                                      "memory.swap.max",
                                      "memory.swap.current",
                                      "memory.limit_in_bytes",
                                      "memory.usage_in_bytes",
                                      "memory.memsw.limit_in_bytes"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    mkdir(paths[i], 0700);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
      char path[512];
      snprintf(path, sizeof path, "%s/%s", paths[i], names[k]);
      remove(path);
    }
  }
  write_file(MACHINE, "MemTotal: 1000 kB\nSwapFree:           0 kB\n");
  remove(GROUPS);
  return 0;
}

static int32_t limit_of(const char *groups) {
  write_file(GROUPS, groups);
  return control_group_threads(&files, 64);
}

static void without_limits_all_cpus_count(void **state) {
  (void)state;
  assert_int_equal(control_group_threads(&files, 64), 64);
  assert_int_equal(limit_of(""), 64);
  assert_int_equal(limit_of("garbage\n::\n0:\n"), 64);
  assert_int_equal(limit_of("0::/a/b\n"), 64);
  write_file(ROOT "/a/b/cpu.max", "max 100000\n");
  assert_int_equal(limit_of("0::/a/b\n"), 64);
  write_file(ROOT "/a/b/cpu.max", "");
  assert_int_equal(limit_of("0::/a/b\n"), 64);
  write_file(ROOT "/a/b/cpu.max", "100000 0\n");
  assert_int_equal(limit_of("0::/a/b\n"), 64);
}

static void a_quota_is_rounded_up(void **state) {
  (void)state;
  write_file(ROOT "/a/b/cpu.max", "250000 100000\n");
  assert_int_equal(limit_of("0::/a/b\n"), 3);
  write_file(ROOT "/a/b/cpu.max", "200000 100000\n");
  assert_int_equal(limit_of("0::/a/b\n"), 2);
  write_file(ROOT "/a/b/cpu.max", "1000 100000\n");
  assert_int_equal(limit_of("0::/a/b\n"), 1);
  write_file(ROOT "/a/b/cpu.max", "9900000 100000\n");
  assert_int_equal(limit_of("0::/a/b\n"), 64);
}

static void the_tightest_group_up_to_the_root_counts(void **state) {
  (void)state;
  write_file(ROOT "/cpu.max", "800000 100000\n");
  assert_int_equal(limit_of("0::/\n"), 8);
  assert_int_equal(limit_of("0::/a/b\n"), 8);
  write_file(ROOT "/a/cpu.max", "400000 100000\n");
  assert_int_equal(limit_of("0::/a/b\n"), 4);
  assert_int_equal(limit_of("0::/\n"), 8);
  assert_int_equal(limit_of("0::/a/folder/of/the/host\n"), 4);
}

static void version_1_has_two_files(void **state) {
  (void)state;
  write_file(ROOT "/cpu/job/cpu.cfs_quota_us", "300000\n");
  assert_int_equal(limit_of("4:cpu,cpuacct:/job\n"), 64);
  write_file(ROOT "/cpu/job/cpu.cfs_period_us", "100000\n");
  assert_int_equal(limit_of("9:memory:/job\n4:cpu,cpuacct:/job\n"), 3);
  assert_int_equal(limit_of("4:cpuacct,cpu:/job\n"), 3);
  assert_int_equal(limit_of("4:cpuset:/job\n5:cpuacct:/job\n"), 64);
  write_file(ROOT "/cpu/job/cpu.cfs_quota_us", "-1\n");
  assert_int_equal(limit_of("4:cpu:/job\n"), 64);
}

static void a_mixed_system_has_version_2_beside(void **state) {
  (void)state;
  write_file(ROOT "/unified/cpu.max", "500000 100000\n");
  assert_int_equal(limit_of("4:cpu:/\n0::/\n"), 5);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static control_group_memory memory_of(const char *groups) {
  write_file(GROUPS, groups);
  return control_group_memory_query(&files);
}

static void without_limits_all_memory_counts(void **state) {
  (void)state;
  assert_true(memory_of("0::/a/b\n").limit == UINT64_MAX);
  write_file(ROOT "/a/b/memory.max", "max\n");
  write_file(ROOT "/a/b/memory.current", "5000\n");
  const control_group_memory memory = memory_of("0::/a/b\n");
  assert_true(memory.limit == UINT64_MAX && memory.left == UINT64_MAX);
}

static void the_own_group_limits_memory(void **state) {
  (void)state;
  write_file(ROOT "/a/b/memory.max", "300000000\n");
  write_file(ROOT "/a/b/memory.current", "100000000\n");
  const control_group_memory memory = memory_of("0::/a/b\n");
  assert_int_equal(memory.limit, 300000000);
  assert_int_equal(memory.left, 200000000);
  assert_int_equal(memory.swap, 0);
  assert_true(memory_of("0::/a\n").limit == UINT64_MAX);
}

/* The smallest limit and the smallest remaining amount may belong to different groups. */
static void each_group_up_to_the_root_limits_memory(void **state) {
  (void)state;
  write_file(ROOT "/a/b/memory.max", "300\n");
  write_file(ROOT "/a/b/memory.current", "50\n");
  write_file(ROOT "/a/memory.max", "1000\n");
  write_file(ROOT "/a/memory.current", "900\n");
  write_file(ROOT "/memory.max", "2000\n");
  const control_group_memory memory = memory_of("0::/a/b\n");
  assert_int_equal(memory.limit, 300);
  assert_int_equal(memory.left, 100);
  assert_int_equal(memory_of("0::/a/folder/of/the/host\n").limit, 1000);
}

static void caches_of_files_are_not_used_memory(void **state) {
  (void)state;
  write_file(ROOT "/a/memory.max", "1000\n");
  write_file(ROOT "/a/memory.current", "900\n");
  write_file(ROOT "/a/memory.stat", "anon 200\nfile 700\ninactive_file 300\nactive_file 400\n");
  assert_int_equal(memory_of("0::/a\n").left, 800);
  write_file(ROOT "/a/memory.stat", "inactive_file 3000\n");
  assert_int_equal(memory_of("0::/a\n").left, 1000);
  write_file(ROOT "/a/memory.stat", "");
  write_file(ROOT "/a/memory.current", "1100\n");
  assert_int_equal(memory_of("0::/a\n").left, 0);
}

static void version_1_limits_memory(void **state) {
  (void)state;
  write_file(ROOT "/memory/job/memory.limit_in_bytes", "4000\n");
  write_file(ROOT "/memory/job/memory.usage_in_bytes", "1000\n");
  write_file(ROOT "/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write_file(ROOT "/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 600\n");
  const control_group_memory memory = memory_of("7:cpu:/job\n4:memory:/job\n");
  assert_int_equal(memory.limit, 4000);
  assert_int_equal(memory.left, 3600);
  assert_true(memory_of("7:cpu:/job\n").limit == UINT64_MAX);
}

static void swap_space_is_limited_too(void **state) {
  (void)state;
  write_file(MACHINE, "SwapTotal:  100 kB\nSwapFree:   64 kB\n");
  write_file(ROOT "/a/memory.max", "1000\n");
  write_file(ROOT "/a/memory.current", "10\n");
  assert_int_equal(memory_of("0::/a\n").swap, 65536);
  write_file(ROOT "/a/memory.swap.max", "5000\n");
  write_file(ROOT "/a/memory.swap.current", "2000\n");
  assert_int_equal(memory_of("0::/a\n").swap, 3000);
  write_file(ROOT "/memory/job/memory.limit_in_bytes", "4000\n");
  write_file(ROOT "/memory/job/memory.memsw.limit_in_bytes", "4096\n");
  assert_int_equal(memory_of("4:memory:/job\n").swap, 96);
}

#define LIMIT_TEST(test) cmocka_unit_test_setup(test, folders)

int main(void) {
  const struct CMUnitTest tests[] = {
      LIMIT_TEST(without_limits_all_cpus_count),
      LIMIT_TEST(a_quota_is_rounded_up),
      LIMIT_TEST(the_tightest_group_up_to_the_root_counts),
      LIMIT_TEST(version_1_has_two_files),
      LIMIT_TEST(a_mixed_system_has_version_2_beside),
      LIMIT_TEST(without_limits_all_memory_counts),
      LIMIT_TEST(the_own_group_limits_memory),
      LIMIT_TEST(each_group_up_to_the_root_limits_memory),
      LIMIT_TEST(caches_of_files_are_not_used_memory),
      LIMIT_TEST(version_1_limits_memory),
      LIMIT_TEST(swap_space_is_limited_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
