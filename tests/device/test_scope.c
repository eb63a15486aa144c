/* SPDX-License-Identifier: MIT */
/* Device scopes: a stack per thread and context that survives any use of contexts. */
#include "support/harness/test.h"

#include <pthread.h>
#include <stdlib.h>

static compute_context *context;
static compute_device *cpu, *null;

static int open_both(void **state) {
  (void)state;
  unsetenv("COMPUTE_DEVICE");
  unsetenv("COMPUTE_BACKENDS");
  return compute_open(&context, &(compute_open_options){.device = "cpu"}) == COMPUTE_OK &&
                 compute_device_by_name(context, "cpu", &cpu) == COMPUTE_OK &&
                 compute_device_by_name(context, "null", &null) == COMPUTE_OK
             ? 0
             : -1;
}

static int close_both(void **state) {
  (void)state;
  return compute_close(context) == COMPUTE_OK ? 0 : -1;
}

static void scopes_nest(void **state) {
  (void)state;
  assert_ptr_equal(compute_default_device(context), cpu);
  assert_ok(compute_device_push(null));
  assert_ptr_equal(compute_default_device(context), null);
  assert_ok(compute_device_push(cpu));
  assert_ptr_equal(compute_default_device(context), cpu);
  assert_ok(compute_device_pop(context));
  assert_ptr_equal(compute_default_device(context), null);
  assert_ok(compute_device_pop(context));
  assert_ptr_equal(compute_default_device(context), cpu);
}

static void a_pop_without_push_is_refused(void **state) {
  (void)state;
  assert_fails(compute_device_pop(context), COMPUTE_ERROR_INVALID_STATE);
  assert_fails(compute_device_pop(NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_device_push(NULL), COMPUTE_ERROR_NULL_POINTER);
}

static void scopes_nest_32_deep(void **state) {
  (void)state;
  for (int i = 0; i < 32; i++) assert_ok(compute_device_push(i % 2 ? cpu : null));
  assert_fails(compute_device_push(null), COMPUTE_ERROR_INVALID_STATE);
  test_check_message(context, "32");
  assert_ptr_equal(compute_default_device(context), cpu);
  for (int i = 0; i < 32; i++) assert_ok(compute_device_pop(context));
  assert_fails(compute_device_pop(context), COMPUTE_ERROR_INVALID_STATE);
}

static void *look_from_a_thread(void *unused) {
  (void)unused;
  void *seen = compute_default_device(context);
  if (compute_device_pop(context) != COMPUTE_ERROR_INVALID_STATE) return NULL;
  if (compute_device_push(null) != COMPUTE_OK) return NULL;
  return compute_default_device(context) == null ? seen : NULL; /* ends inside its scope */
}

static void threads_have_scopes_of_their_own(void **state) {
  (void)state;
  pthread_t thread;
  void *seen = NULL;
  assert_ok(compute_device_push(null));
  assert_int_equal(pthread_create(&thread, NULL, look_from_a_thread, NULL), 0);
  pthread_join(thread, &seen);
  assert_ptr_equal(seen, cpu);
  assert_ok(compute_device_pop(context));
  assert_ptr_equal(compute_default_device(context), cpu);
}

static compute_context *open_null(compute_device **device) {
  compute_context *opened = NULL;
  assert_ok(compute_open(&opened, &(compute_open_options){.backends = "null", .device = "null"}));
  *device = compute_default_device(opened);
  return opened;
}

static void contexts_have_scopes_of_their_own(void **state) {
  (void)state;
  compute_device *device;
  compute_context *other = open_null(&device);
  assert_ok(compute_device_push(null));
  assert_ok(compute_device_push(device));
  assert_ptr_equal(compute_default_device(context), null);
  assert_ok(compute_device_pop(context));
  assert_ptr_equal(compute_default_device(context), cpu);
  assert_ptr_equal(compute_default_device(other), device);
  assert_fails(compute_device_pop(context), COMPUTE_ERROR_INVALID_STATE);
  assert_ok(compute_device_pop(other));
  assert_ok(compute_close(other));
}

/* A new context often has the address of a closed one: it must not see the old scopes. */
static void scopes_left_open_go_with_their_context(void **state) {
  (void)state;
  for (int round = 0; round < 40; round++) {
    compute_device *device;
    compute_context *other = open_null(&device);
    assert_fails(compute_device_pop(other), COMPUTE_ERROR_INVALID_STATE);
    for (int i = 0; i < 32; i++) assert_ok(compute_device_push(device));
    assert_ok(compute_close(other));
    assert_ptr_equal(compute_default_device(context), cpu);
  }
  assert_ok(compute_device_push(null));
  assert_ptr_equal(compute_default_device(context), null);
  assert_ok(compute_device_pop(context));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(scopes_nest, open_both, close_both),
      cmocka_unit_test_setup_teardown(a_pop_without_push_is_refused, open_both, close_both),
      cmocka_unit_test_setup_teardown(scopes_nest_32_deep, open_both, close_both),
      cmocka_unit_test_setup_teardown(threads_have_scopes_of_their_own, open_both, close_both),
      cmocka_unit_test_setup_teardown(contexts_have_scopes_of_their_own, open_both, close_both),
      cmocka_unit_test_setup_teardown(scopes_left_open_go_with_their_context, open_both,
                                      close_both),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
