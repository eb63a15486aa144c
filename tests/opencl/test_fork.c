/* SPDX-License-Identifier: MIT */
/* A child of a process that has started OpenCL. Its own contexts have the CPU and explain why
 * OpenCL is missing; they do not call a driver that would never answer. Skipped without a
 * device. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/harness/test.h"

enum { SKIPPED = 77 };

static int use_own(const compute_open_options *options) {
  compute_context *own;
  compute_device *device = NULL;
  compute_tensor *x, *y;
  compute_device_info info;
  float value = 0;
  if (compute_open(&own, options)) return 1;
  if (compute_device_describe(compute_default_device(own), &info) || strcmp(info.name, "cpu"))
    return 2;
  if (compute_tensor_full(compute_default_device(own), COMPUTE_F32, COMPUTE_SHAPE(9, 9), 1, &x) ||
      compute_tensor_sum(x, COMPUTE_ALL_AXES, false, &y) ||
      compute_tensor_read(y, &value, sizeof value) || value != 81)
    return 3;
  if (compute_device_by_name(own, "opencl:0", &device) != COMPUTE_ERROR_NO_DEVICE) return 4;
  if (!strstr(compute_error_message(NULL), "does not survive fork")) return 5;
  for (size_t i = 0; (device = compute_device_at(own, i)); i++)
    if (!compute_device_describe(device, &info) && !strcmp(info.backend, "opencl")) return 6;
  compute_tensor_release(x);
  compute_tensor_release(y);
  return compute_close(own) ? 7 : 0;
}

/* Runs the function in a child; returns its result, or minus the signal that ended it. */
static int in_child(int (*function)(const compute_open_options *), const compute_open_options *o) {
  int status = -1;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(function(o));
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static compute_context *parent;

static int use_inherited(const compute_open_options *options) {
  (void)options;
  compute_tensor *x;
  if (compute_tensor_full(compute_default_device(parent), COMPUTE_F32, COMPUTE_SHAPE(9), 1, &x) !=
      COMPUTE_ERROR_INVALID_STATE)
    return 1;
  return compute_close(parent) != COMPUTE_ERROR_INVALID_STATE ? 2 : 0;
}

/* The grandchild of a process that has opened OpenCL. */
static int fork_again(const compute_open_options *options) {
  const int own = use_own(options);
  return own ? own : in_child(use_own, options);
}

static void a_child_has_the_cpu(void **state) {
  (void)state;
  assert_int_equal(in_child(use_own, &(compute_open_options){.device = "cpu"}), 0);
  assert_int_equal(in_child(use_own, NULL), 0);
  assert_int_equal(in_child(fork_again, NULL), 0);
}

static void a_child_does_not_use_its_parents_context(void **state) {
  (void)state;
  assert_int_equal(in_child(use_inherited, NULL), 0);
}

/* The driver's threads still run. */
static void closing_before_the_fork_changes_nothing(void **state) {
  (void)state;
  assert_ok(compute_close(parent));
  parent = NULL;
  assert_int_equal(in_child(use_own, NULL), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_child_has_the_cpu),
      cmocka_unit_test(a_child_does_not_use_its_parents_context),
      cmocka_unit_test(closing_before_the_fork_changes_nothing),
  };
  compute_device *device;
  if (compute_open(&parent, NULL) || compute_device_by_name(parent, "opencl:0", &device)) {
    print_message("skipped: %s\n", compute_error_message(NULL));
    return SKIPPED;
  }
  compute_tensor *x, *y;
  float value = 0;
  if (compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(9), 1, &x) ||
      compute_tensor_sum(x, COMPUTE_ALL_AXES, false, &y) ||
      compute_tensor_read(y, &value, sizeof value))
    return print_message("%s\n", compute_error_message(NULL)), 1;
  compute_tensor_release(x);
  compute_tensor_release(y);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
