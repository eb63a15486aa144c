/* SPDX-License-Identifier: MIT */
/* Contexts: opening, choosing devices, closing, and failures in between without leaks. */
#include "support/harness/test.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/failing_allocator.h"

static const compute_open_options null_only = {.backends = "null", .device = "null:0"};

static int no_variables(void **state) {
  (void)state;
  unsetenv("COMPUTE_BACKENDS");
  unsetenv("COMPUTE_DEVICE");
  unsetenv("COMPUTE_THREADS");
  return 0;
}

static compute_context *open_null(void) {
  compute_context *context = NULL;
  assert_ok(compute_open(&context, &null_only));
  return context;
}

static compute_context *open_default(void) {
  compute_context *context = NULL;
  assert_ok(compute_open(&context, NULL));
  return context;
}

static const char *default_name(const compute_context *context) {
  static compute_device_info info;
  assert_ok(compute_device_describe(compute_default_device(context), &info));
  return info.name;
}

/* ---- Opening ------------------------------------------------------------------------------- */

static void without_options_the_best_device_that_computes_is_default(void **state) {
  (void)state;
  compute_context *context = open_default();
  compute_device_info info, other;
  assert_ok(compute_device_describe(compute_default_device(context), &info));
  assert_true(info.capabilities & COMPUTE_CAPABILITY_COMPUTE);
  assert_true(info.type != COMPUTE_DEVICE_NULL);
  compute_device *device;
  int32_t last = INT32_MAX;
  bool cpu_seen = false;
  for (size_t i = 0; (device = compute_device_at(context, i)) != NULL; i++) {
    assert_ok(compute_device_describe(device, &other));
    assert_true(other.priority <= last);
    last = other.priority;
    const bool cpu = strcmp(other.name, "cpu") == 0;
    cpu_seen |= cpu;
    /* A capability marks the fallback device, not its name. */
    assert_int_equal((other.capabilities & COMPUTE_CAPABILITY_HOST) != 0, cpu);
    if (other.capabilities & COMPUTE_CAPABILITY_COMPUTE) {
      assert_true(other.priority <= info.priority);
    }
  }
  assert_true(cpu_seen);
  assert_null(compute_device_at(context, SIZE_MAX));
  assert_ok(compute_close(context));
}

static void invalid_options_are_refused(void **state) {
  (void)state;
  static const compute_open_options bad[] = {
      {.threads = -1},          {.threads = 100000},  {.reserved = {[7] = 1}},
      {.backends = "cpu cuda"}, {.backends = "../x"}, {.backends = "CPU"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    compute_context *context = (compute_context *)(uintptr_t)&bad;
    assert_fails(compute_open(&context, &bad[i]), COMPUTE_ERROR_INVALID_ARGUMENT);
    assert_null(context);
  }
  assert_fails(compute_open(NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_ok(compute_close(NULL));
}

static void a_device_that_is_not_there_fails_with_the_list(void **state) {
  (void)state;
  compute_context *context = NULL;
  const compute_open_options options = {.backends = "null", .device = "cuda:3"};
  assert_fails(compute_open(&context, &options), COMPUTE_ERROR_NO_DEVICE);
  assert_null(context);
  test_check_message(NULL, "'cuda:3'");
  test_check_message(NULL, "null:0");
  setenv("COMPUTE_DEVICE", "vulkan", 1);
  assert_fails(compute_open(&context, NULL), COMPUTE_ERROR_NO_DEVICE);
  test_check_message(NULL, "'vulkan'");
  test_check_message(NULL, "cpu");
  no_variables(NULL);
}

static void a_device_of_a_disabled_module_fails_with_the_reason(void **state) {
  (void)state;
  compute_context *context = NULL;
  const compute_open_options options = {.backends = "null", .device = "cpu"};
  assert_fails(compute_open(&context, &options), COMPUTE_ERROR_NO_DEVICE);
  test_check_message(NULL, "module cpu: disabled");
}

static void a_null_device_is_never_chosen_by_itself(void **state) {
  (void)state;
  compute_context *context = NULL;
  const compute_open_options options = {.backends = "null"};
  assert_fails(compute_open(&context, &options), COMPUTE_ERROR_NO_DEVICE);
  test_check_message(NULL, "null loaded");
  context = open_null();
  assert_string_equal(default_name(context), "null:0");
  assert_ok(compute_close(context));
}

static void options_go_before_variables(void **state) {
  (void)state;
  setenv("COMPUTE_DEVICE", "null", 1);
  compute_context *context = open_default();
  assert_string_equal(default_name(context), "null:0");
  assert_ok(compute_close(context));
  const compute_open_options options = {.device = "cpu:0", .threads = 1};
  assert_ok(compute_open(&context, &options));
  assert_string_equal(default_name(context), "cpu");
  compute_device_info info;
  assert_ok(compute_device_describe(compute_default_device(context), &info));
  assert_int_equal(info.compute_units, 1);
  assert_ok(compute_close(context));
  no_variables(NULL);
  setenv("COMPUTE_BACKENDS", "null", 1);
  const compute_open_options with_cpu = {.backends = "cpu"};
  assert_ok(compute_open(&context, &with_cpu));
  assert_string_equal(default_name(context), "cpu");
  assert_ok(compute_close(context));
  no_variables(NULL);
}

static void a_success_leaves_the_threads_error_alone(void **state) {
  (void)state;
  compute_context *context = NULL;
  assert_fails(compute_open(&context, &(compute_open_options){.threads = -7}),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  context = open_default();
  test_check_message(NULL, "-7");
  assert_string_equal(compute_error_message(context), "");
  assert_ok(compute_close(context));
  compute_error_clear(NULL);
  context = open_default();
  assert_string_equal(compute_error_message(NULL), "");
  assert_ok(compute_close(context));
}

/* ---- Devices by name ----------------------------------------------------------------------- */

static void a_device_has_several_names(void **state) {
  (void)state;
  static const char *const names[] = {"cpu", "cpu:0", "null", "null:0", "null:00"};
  compute_context *context = open_default();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    compute_device *device = NULL;
    assert_ok(compute_device_by_name(context, names[i], &device));
    compute_device_info info;
    assert_ok(compute_device_describe(device, &info));
    assert_string_equal(info.name, i < 2 ? "cpu" : "null:0");
    assert_int_equal(strncmp(info.backend, names[i], strlen(info.backend)), 0);
    assert_ptr_equal(compute_device_context(device), context);
  }
  assert_ok(compute_close(context));
}

static void other_names_are_no_devices(void **state) {
  (void)state;
  static const char *const names[] = {
      "",
      "cp",
      "cpu:",
      "cpu:1",
      "cpu:-1",
      "cpu: 0",
      "cpu:0x",
      "CPU",
      "null::0",
      ":0",
      "null:0 ",
      "nulll",
      "*",
      "cpu,null",
      "a_name_that_is_much_longer_than_any_device_may_have_and_goes_on_and_on:0",
      "null:4294967296",
      "null:18446744073709551616"};
  compute_context *context = open_default();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    compute_device *device = compute_default_device(context);
    assert_fails(compute_device_by_name(context, names[i], &device), COMPUTE_ERROR_NO_DEVICE);
    assert_null(device);
    test_check_message(context, "there are cpu, ");
    test_check_message(context, "null:0");
  }
  compute_device *device;
  assert_fails(compute_device_by_name(context, NULL, &device), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_device_by_name(context, "cpu", NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_device_by_name(NULL, "cpu", &device), COMPUTE_ERROR_NULL_POINTER);
  assert_ok(compute_close(context));
}

static void a_description_is_complete(void **state) {
  (void)state;
  compute_context *context = open_null();
  compute_device_info info;
  memset(&info, 0xff, sizeof info);
  compute_device *device = compute_default_device(context);
  assert_ok(compute_device_describe(device, &info));
  assert_string_equal(info.backend, "null");
  assert_int_equal(info.type, COMPUTE_DEVICE_NULL);
  assert_int_equal(info.index, 0);
  assert_true(info.memory_total > 0 && info.memory_free <= info.memory_total);
  assert_false(info.capabilities & COMPUTE_CAPABILITY_COMPUTE);
  assert_fails(compute_device_describe(device, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_device_describe(NULL, &info), COMPUTE_ERROR_NULL_POINTER);
  assert_null(compute_device_context(NULL));
  assert_null(compute_default_device(NULL));
  assert_null(compute_device_at(NULL, 0));
  assert_null(compute_probe_at(NULL, 0));
  assert_ok(compute_close(context));
}

static void the_pool_controls_reach_the_devices_pool(void **state) {
  (void)state;
  compute_context *context = open_null();
  compute_device *device = compute_default_device(context);
  compute_pool_statistics statistics;
  compute_tensor *tensor = NULL;
  assert_ok(compute_pool_set_budget(device, 1 << 16));
  assert_fails(compute_tensor_create(device, COMPUTE_U8, COMPUTE_SHAPE((1 << 16) + 1), &tensor),
               COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
  assert_ok(compute_tensor_create(device, COMPUTE_U8, COMPUTE_SHAPE(5000), &tensor));
  compute_tensor_release(tensor);
  assert_ok(compute_pool_query(device, &statistics));
  assert_int_equal(statistics.bytes_budget, 1 << 16);
  assert_true(statistics.bytes_cached >= 5000);
  assert_ok(compute_pool_trim(device, 0));
  assert_ok(compute_pool_query(device, &statistics));
  assert_int_equal(statistics.bytes_cached, 0);
  assert_fails(compute_pool_query(device, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_pool_query(NULL, &statistics), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_pool_set_budget(NULL, 1), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_pool_trim(NULL, 1), COMPUTE_ERROR_NULL_POINTER);
  assert_ok(compute_close(context));
}

/* ---- Closing ------------------------------------------------------------------------------- */

static void a_context_with_live_objects_stays_open(void **state) {
  (void)state;
  compute_context *context = open_null();
  compute_device *device = compute_default_device(context);
  compute_queue *queue = NULL;
  compute_event *event = NULL;
  compute_tensor *tensor = NULL;
  assert_ok(compute_queue_create(device, &queue));
  assert_ok(compute_event_record(queue, &event));
  assert_ok(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(3), &tensor));
  assert_fails(compute_close(context), COMPUTE_ERROR_INVALID_STATE);
  test_check_message(context,
                     "3 objects of the context have not been released: 1 event, 1 queue, 1 "
                     "tensor");
  compute_error error;
  compute_error_get(context, &error);
  assert_non_null(strstr(error.remedy, "COMPUTE_LEAKS=1"));
  compute_event_release(event);
  compute_tensor_release(tensor);
  assert_fails(compute_close(context), COMPUTE_ERROR_INVALID_STATE);
  test_check_message(context, "1 object of the context has not been released: 1 queue");
  assert_ok(compute_queue_wait(queue));
  compute_queue_release(queue);
  assert_ok(compute_close(context));
}

static char listed[4096];

static void keep_listed(void *user, compute_log_level level, const char *module,
                        const char *message) {
  (void)user;
  (void)level;
  (void)module;
  const size_t used = strlen(listed);
  snprintf(listed + used, sizeof listed - used, "%s\n", message);
}

static void a_variable_asks_where_what_is_left_was_made(void **state) {
  (void)state;
  setenv("COMPUTE_LEAKS", "1", 1);
  compute_context *context = open_null();
  unsetenv("COMPUTE_LEAKS");
  compute_device *device = compute_default_device(context);
  compute_tensor *kept = NULL, *gone = NULL, *view = NULL;
  compute_graph *graph = compute_graph_create(context);
  assert_ok(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(3), &gone));
  compute_tensor_release(gone);
  assert_ok(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(3), &kept));
  assert_ok(compute_tensor_slice_view(kept, 0, 0, 2, 1, &view));
  compute_log_set(keep_listed, NULL, COMPUTE_LOG_ERROR);
  listed[0] = '\0';
  assert_fails(compute_close(context), COMPUTE_ERROR_INVALID_STATE);
  compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
  test_check_message(context, "have not been released: 1 graph, 2 tensors");
  size_t lines = 0;
  for (const char *c = listed; *c; c++) lines += *c == '\n';
  assert_int_equal(lines, 3);
  assert_non_null(strstr(listed, "a tensor that is not released was made by "));
  assert_non_null(strstr(listed, "a graph that is not released was made by "));
#ifdef __GLIBC__ /* musl has no backtrace() */
  assert_non_null(strstr(listed, "called from "));
#endif
  compute_tensor_release(view);
  compute_tensor_release(kept);
  compute_graph_release(graph);
  assert_ok(compute_close(context));
}

static void several_contexts_live_side_by_side(void **state) {
  (void)state;
  compute_context *first = open_null(), *second = open_default();
  assert_ptr_not_equal(compute_default_device(first), compute_default_device(second));
  assert_ok(compute_close(first));
  assert_string_equal(default_name(second), "cpu");
  first = open_null();
  assert_ok(compute_close(second));
  assert_ok(compute_close(first));
}

static void *open_and_close_often(void *options) {
  for (int i = 0; i < 20; i++) {
    compute_context *context = NULL;
    if (compute_open(&context, options) != COMPUTE_OK) return options;
    compute_device *device = NULL;
    if (compute_device_by_name(context, "cuda:9", &device) != COMPUTE_ERROR_NO_DEVICE)
      return options;
    if (!strstr(compute_error_message(context), "null:0")) return options;
    if (compute_close(context) != COMPUTE_OK) return options;
  }
  return NULL;
}

static void threads_may_open_contexts_at_once(void **state) {
  (void)state;
  pthread_t threads[4];
  void *failed;
  for (int i = 0; i < 4; i++) {
    assert_int_equal(
        pthread_create(&threads[i], NULL, open_and_close_often, (void *)(uintptr_t)&null_only), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
}

/* ---- Failing allocations ------------------------------------------------------------------- */

/* Fails the first, second, … allocation of open and close until they succeed. */
static void sweep(const compute_open_options *options) {
  for (int64_t nth = 1;; nth++) {
    compute_context *context = NULL;
    failing_allocator_install();
    failing_allocator_arm(nth, false);
    const compute_status status = compute_open(&context, options);
    const bool reached = failing_allocator_failures() > 0;
    failing_allocator_arm(0, false);
    if (status == COMPUTE_OK) {
      assert_ok(compute_close(context));
    } else {
      assert_null(context);
      assert_true(reached);
      assert_int_equal(status, COMPUTE_ERROR_OUT_OF_MEMORY);
      assert_string_not_equal(compute_error_message(NULL), "");
    }
    assert_int_equal(failing_allocator_remove(), 0);
    if (!reached) {
      assert_int_equal(status, COMPUTE_OK);
      assert_true(nth > 5);
      return;
    }
    assert_ok(compute_open(&context, options));
    assert_ok(compute_close(context));
  }
}

static void a_failing_allocation_while_opening_leaves_nothing(void **state) {
  (void)state;
  sweep(&null_only);
  sweep(NULL);
  const compute_open_options missing = {.backend_path = TEST_MODULE_DIR, .device = "cpu"};
  sweep(&missing);
}

static void a_failing_open_with_short_memory_still_says_why(void **state) {
  (void)state;
  const compute_open_options options = {.backends = "null", .device = "cuda"};
  bool reached = true;
  for (int64_t nth = 1; reached; nth++) {
    compute_context *context = NULL;
    failing_allocator_install();
    failing_allocator_arm(nth, false);
    const compute_status status = compute_open(&context, &options);
    assert_true(status == COMPUTE_ERROR_NO_DEVICE || status == COMPUTE_ERROR_OUT_OF_MEMORY);
    assert_string_not_equal(compute_error_message(NULL), "");
    reached = failing_allocator_failures() > 0;
    assert_int_equal(failing_allocator_remove(), 0);
    if (nth == 200) fail_msg("opening a context takes more allocations than that?");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_options_the_best_device_that_computes_is_default),
      cmocka_unit_test(invalid_options_are_refused),
      cmocka_unit_test(a_device_that_is_not_there_fails_with_the_list),
      cmocka_unit_test(a_device_of_a_disabled_module_fails_with_the_reason),
      cmocka_unit_test(a_null_device_is_never_chosen_by_itself),
      cmocka_unit_test(options_go_before_variables),
      cmocka_unit_test(a_success_leaves_the_threads_error_alone),
      cmocka_unit_test(a_device_has_several_names),
      cmocka_unit_test(other_names_are_no_devices),
      cmocka_unit_test(a_description_is_complete),
      cmocka_unit_test(the_pool_controls_reach_the_devices_pool),
      cmocka_unit_test(a_context_with_live_objects_stays_open),
      cmocka_unit_test(a_variable_asks_where_what_is_left_was_made),
      cmocka_unit_test(several_contexts_live_side_by_side),
      cmocka_unit_test(threads_may_open_contexts_at_once),
      cmocka_unit_test(a_failing_allocation_while_opening_leaves_nothing),
      cmocka_unit_test(a_failing_open_with_short_memory_still_says_why),
  };
  return cmocka_run_group_tests(tests, no_variables, NULL);
}
