/* SPDX-License-Identifier: MIT */
/* How cgroups of both versions limit the number of threads, read from made-up files. */
#include "support/harness/test.h"

#include <string.h>
#include <sys/stat.h>

#include "base/thread_pool.h"

#define ROOT   TEST_SCRATCH_DIR "/root"
#define GROUPS TEST_SCRATCH_DIR "/cgroup"

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static int folders(void **state) {
  (void)state;
  static const char *const paths[] = {
      ROOT, ROOT "/a", ROOT "/a/b", ROOT "/cpu", ROOT "/cpu/job", ROOT "/unified", ROOT "/memory"};
  static const char *const files[] = {"/cpu.max",
                                      "/a/cpu.max",
                                      "/a/b/cpu.max",
                                      "/unified/cpu.max",
                                      "/cpu/job/cpu.cfs_quota_us",
                                      "/cpu/job/cpu.cfs_period_us"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) mkdir(paths[i], 0700);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char path[512];
    snprintf(path, sizeof path, ROOT "%s", files[i]);
    remove(path);
  }
  remove(GROUPS);
  return 0;
}

static int32_t limit_of(const char *groups) {
  write_file(GROUPS, groups);
  return thread_limit_cgroup(GROUPS, ROOT, 64);
}

static void without_limits_all_cpus_count(void **state) {
  (void)state;
  assert_int_equal(thread_limit_cgroup(GROUPS, ROOT, 64), 64);
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

#define LIMIT_TEST(test) cmocka_unit_test_setup(test, folders)

int main(void) {
  const struct CMUnitTest tests[] = {
      LIMIT_TEST(without_limits_all_cpus_count),
      LIMIT_TEST(a_quota_is_rounded_up),
      LIMIT_TEST(the_tightest_group_up_to_the_root_counts),
      LIMIT_TEST(version_1_has_two_files),
      LIMIT_TEST(a_mixed_system_has_version_2_beside),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
