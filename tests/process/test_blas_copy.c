/* SPDX-License-Identifier: MIT */
/* The private copy of OpenBLAS exists once, however often its users come and go. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/harness/test.h"

static int copies(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  for (const struct dirent *entry; folder && (entry = readdir(folder));) {
    char path[300], target[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
    if (readlink(path, target, sizeof target - 1) > 0 && strstr(target, "memfd:libopenblas"))
      count++;
  }
  if (folder) closedir(folder);
  return count;
}

static void a_copy_is_used_again(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    compute_context *context;
    compute_device_info info;
    assert_ok(compute_open(&context, &(compute_open_options){.device = "cpu", .threads = 1}));
    assert_ok(compute_device_describe(compute_default_device(context), &info));
    if (strncmp(info.driver, "OpenBLAS", 8) != 0) {
      assert_ok(compute_close(context));
      test_skip("no copy of OpenBLAS is used here");
    }
    assert_int_equal(copies(), 1);
    assert_ok(compute_close(context));
    assert_int_equal(copies(), 1);
  }
}

int main(void) {
  setenv("COMPUTE_BLAS", "libopenblas.so.0", 1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_copy_is_used_again)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
