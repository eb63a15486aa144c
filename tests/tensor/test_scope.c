/* SPDX-License-Identifier: MIT */
/* Memory scopes, on the default device. */
#include "support/harness/test.h"

#include <pthread.h>

#include "core/device/device.h"
#include "core/tensor/tensor.h"

static compute_context *context;
static compute_device *device;

static int open_context(void **state) {
  (void)state;
  assert_ok(compute_open(&context, NULL));
  device = compute_default_device(context);
  return 0;
}

static int close_context(void **state) {
  (void)state;
  assert_ok(compute_close(context));
  return 0;
}

static int64_t live(void) {
  return context_objects_of(context, &tensor_object);
}

static compute_tensor *create(void) {
  compute_tensor *tensor;
  assert_ok(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(3, 4), &tensor));
  return tensor;
}

static void pop_releases_what_was_created_inside(void **state) {
  (void)state;
  int64_t before = live();
  compute_tensor *outside = create(), *view;
  assert_ok(compute_memory_scope_push(context));
  for (int i = 0; i < 10; i++) create();
  assert_ok(compute_tensor_transpose_view(outside, COMPUTE_ALL_AXES, &view));
  assert_int_equal(live(), before + 12);
  assert_ok(compute_memory_scope_pop(context));
  assert_int_equal(live(), before + 1);
  compute_tensor_release(outside);
  assert_int_equal(live(), before);
}

static void retained_tensor_outlives_the_scope(void **state) {
  (void)state;
  int64_t before = live();
  assert_ok(compute_memory_scope_push(context));
  compute_tensor *kept = compute_tensor_retain(create());
  create();
  assert_ok(compute_memory_scope_pop(context));
  assert_int_equal(live(), before + 1);
  assert_int_equal(compute_tensor_count(kept), 12);
  compute_tensor_release(kept);
  assert_int_equal(live(), before);
}

static void early_release_is_allowed(void **state) {
  (void)state;
  int64_t before = live();
  assert_ok(compute_memory_scope_push(context));
  compute_tensor *a = create(), *b = create(), *c = create();
  compute_tensor_release(b); /* from the middle of the list */
  compute_tensor_release(c);
  compute_tensor_release(a);
  create();
  assert_ok(compute_memory_scope_pop(context));
  assert_int_equal(live(), before);
}

static void scopes_nest(void **state) {
  (void)state;
  int64_t before = live();
  assert_ok(compute_memory_scope_push(context));
  create();
  assert_ok(compute_memory_scope_push(context));
  create();
  create();
  assert_ok(compute_memory_scope_pop(context));
  assert_int_equal(live(), before + 1);
  create();
  assert_ok(compute_memory_scope_pop(context));
  assert_int_equal(live(), before);
}

static void pop_without_push_is_an_error(void **state) {
  (void)state;
  assert_fails(compute_memory_scope_pop(context), COMPUTE_ERROR_INVALID_STATE);
  assert_fails(compute_memory_scope_pop(NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_memory_scope_push(NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_ok(compute_memory_scope_push(context));
  assert_ok(compute_memory_scope_pop(context));
  assert_fails(compute_memory_scope_pop(context), COMPUTE_ERROR_INVALID_STATE);
}

static void contexts_have_scopes_of_their_own(void **state) {
  (void)state;
  compute_context *other;
  compute_tensor *theirs;
  assert_ok(compute_open(&other, NULL));
  int64_t before = live();
  assert_ok(compute_memory_scope_push(context));
  assert_ok(compute_memory_scope_push(other));
  create(); /* belongs to this context's outer scope */
  assert_ok(
      compute_tensor_create(compute_default_device(other), COMPUTE_F32, COMPUTE_SCALAR, &theirs));
  assert_ok(compute_memory_scope_pop(context)); /* in any order */
  assert_int_equal(live(), before);
  assert_int_equal(context_objects_of(other, &tensor_object), 1);
  assert_ok(compute_memory_scope_pop(other));
  assert_ok(compute_close(other));
}

static void scope_left_open_does_not_reach_the_next_context(void **state) {
  (void)state;
  compute_context *other;
  compute_tensor *tensor;
  assert_ok(compute_open(&other, NULL));
  assert_ok(compute_memory_scope_push(other));
  assert_ok(compute_close(other));
  assert_ok(compute_open(&other, NULL)); /* perhaps at the same address */
  assert_fails(compute_memory_scope_pop(other), COMPUTE_ERROR_INVALID_STATE);
  assert_ok(
      compute_tensor_create(compute_default_device(other), COMPUTE_F32, COMPUTE_SCALAR, &tensor));
  compute_tensor_release(tensor);
  assert_ok(compute_close(other));
}

/* ---- Threads ------------------------------------------------------------------------------- */

static void *release_here(void *argument) {
  compute_tensor_release(argument);
  return NULL;
}

static void tensor_released_on_another_thread_leaves_the_scope(void **state) {
  (void)state;
  int64_t before = live();
  assert_ok(compute_memory_scope_push(context));
  create();
  compute_tensor *tensor = create();
  create();
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, release_here, tensor), 0);
  pthread_join(thread, NULL);
  assert_int_equal(live(), before + 2);
  assert_ok(compute_memory_scope_pop(context));
  assert_int_equal(live(), before);
}

/* The other thread has a separate reference and releases it while the scope is popped. */
static void pop_and_release_may_meet(void **state) {
  (void)state;
  int64_t before = live();
  for (int round = 0; round < 300; round++) {
    assert_ok(compute_memory_scope_push(context));
    compute_tensor *tensor = compute_tensor_retain(create());
    create();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, release_here, tensor), 0);
    assert_ok(compute_memory_scope_pop(context));
    pthread_join(thread, NULL);
    assert_int_equal(live(), before);
  }
}

static void *ends_inside_scopes(void *argument) {
  (void)argument;
  compute_tensor *tensor;
  if (compute_memory_scope_push(context)) return NULL;
  if (compute_tensor_create(device, COMPUTE_U8, COMPUTE_SHAPE(5), &tensor)) return NULL;
  if (compute_memory_scope_push(context)) return NULL;
  if (compute_tensor_create(device, COMPUTE_U8, COMPUTE_SHAPE(5), &tensor)) return NULL;
  return context;
}

static void thread_that_ends_inside_a_scope_leaves_nothing(void **state) {
  (void)state;
  int64_t before = live();
  pthread_t thread;
  void *result;
  assert_int_equal(pthread_create(&thread, NULL, ends_inside_scopes, NULL), 0);
  pthread_join(thread, &result);
  assert_ptr_equal(result, context);
  assert_int_equal(live(), before);
}

static void *busy_with_scopes(void *argument) {
  (void)argument;
  for (int round = 0; round < 500; round++) {
    if (compute_memory_scope_push(context)) return "push";
    compute_tensor *tensor, *view;
    for (int i = 0; i < 5; i++) {
      if (compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(i), &tensor)) return "create";
      if (compute_tensor_broadcast_view(tensor, COMPUTE_SHAPE(2, i), &view)) return "view";
    }
    compute_tensor_release(view);
    if (compute_memory_scope_pop(context)) return "pop";
  }
  return NULL;
}

static void threads_have_scopes_of_their_own(void **state) {
  (void)state;
  int64_t before = live();
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) {
    assert_int_equal(pthread_create(&thread[i], NULL, busy_with_scopes, NULL), 0);
  }
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(thread[i], &failed);
    assert_null(failed);
  }
  assert_int_equal(live(), before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pop_releases_what_was_created_inside),
      cmocka_unit_test(retained_tensor_outlives_the_scope),
      cmocka_unit_test(early_release_is_allowed),
      cmocka_unit_test(scopes_nest),
      cmocka_unit_test(pop_without_push_is_an_error),
      cmocka_unit_test(contexts_have_scopes_of_their_own),
      cmocka_unit_test(scope_left_open_does_not_reach_the_next_context),
      cmocka_unit_test(tensor_released_on_another_thread_leaves_the_scope),
      cmocka_unit_test(pop_and_release_may_meet),
      cmocka_unit_test(thread_that_ends_inside_a_scope_leaves_nothing),
      cmocka_unit_test(threads_have_scopes_of_their_own),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
