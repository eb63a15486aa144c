/* SPDX-License-Identifier: MIT */
/* Error details are kept per thread and per context, and disappear with either. */
#include "support/harness/test.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "support/harness/failing_allocator.h"

/* error.c uses only the address of a context, so any address serves. */
static char place[3];
#define CONTEXT(i) ((const compute_context *)(const void *)&place[i])

static int forget_all(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) error_context_closed(CONTEXT(i));
  compute_error_clear(NULL);
  return 0;
}

static void a_detail_carries_everything_that_was_said(void **state) {
  (void)state;
  compute_status status =
      error_set_native(CONTEXT(0), COMPUTE_ERROR_FILE, 2, "compute_csv_read", "check the path",
                       "cannot open %s: %s", "digits.csv", "No such file");
  assert_int_equal(status, COMPUTE_ERROR_FILE);
  compute_error error;
  assert_int_equal(compute_error_get(CONTEXT(0), &error), COMPUTE_OK);
  assert_int_equal(error.status, COMPUTE_ERROR_FILE);
  assert_int_equal(error.native_code, 2);
  assert_string_equal(error.operation, "compute_csv_read");
  assert_string_equal(error.message, "compute_csv_read: cannot open digits.csv: No such file");
  assert_string_equal(error.remedy, "check the path");
  assert_non_null(strstr(error.source, "test_error.c:"));
  assert_string_equal(compute_error_message(CONTEXT(0)), error.message);
}

static void without_an_error_the_detail_is_empty(void **state) {
  (void)state;
  compute_error error;
  memset(&error, 0xff, sizeof error);
  assert_int_equal(compute_error_get(CONTEXT(0), &error), COMPUTE_OK);
  assert_int_equal(error.status, COMPUTE_OK);
  assert_string_equal(error.message, "");
  assert_string_equal(compute_error_message(CONTEXT(0)), "");
  assert_string_equal(compute_error_message(NULL), "");
}

static void contexts_do_not_mix(void **state) {
  (void)state;
  error_set(CONTEXT(0), COMPUTE_ERROR_SHAPE, NULL, "first");
  error_set(CONTEXT(1), COMPUTE_ERROR_DTYPE, NULL, "second");
  assert_string_equal(compute_error_message(CONTEXT(0)), "first");
  assert_string_equal(compute_error_message(CONTEXT(1)), "second");
  assert_string_equal(compute_error_message(CONTEXT(2)), "");
  assert_string_equal(compute_error_message(NULL), "second");
}

static void null_asks_for_the_last_error_of_any_context(void **state) {
  (void)state;
  error_set(CONTEXT(0), COMPUTE_ERROR_SHAPE, NULL, "in a context");
  assert_string_equal(compute_error_message(NULL), "in a context");
  error_set(NULL, COMPUTE_ERROR_NO_DEVICE, NULL, "in none");
  assert_string_equal(compute_error_message(NULL), "in none");
  assert_string_equal(compute_error_message(CONTEXT(0)), "in a context");
}

static void clearing_forgets_the_thread_and_the_context(void **state) {
  (void)state;
  error_set(CONTEXT(1), COMPUTE_ERROR_SHAPE, NULL, "stays");
  error_set(CONTEXT(0), COMPUTE_ERROR_SHAPE, NULL, "goes");
  compute_error_clear(CONTEXT(0));
  assert_string_equal(compute_error_message(CONTEXT(0)), "");
  assert_string_equal(compute_error_message(NULL), "");
  assert_string_equal(compute_error_message(CONTEXT(1)), "stays");
}

static void long_texts_are_cut_at_a_whole_character(void **state) {
  (void)state;
  char text[1200];
  for (size_t i = 0; i + 3 < sizeof text; i += 3) memcpy(text + i, "\xe2\x82\xac", 3); /* € */
  text[sizeof text - 3] = '\0';
  error_set(CONTEXT(0), COMPUTE_ERROR_SHAPE, text, "x%s", text);
  compute_error error;
  compute_error_get(CONTEXT(0), &error);
  const size_t message = strlen(error.message), operation = strlen(error.operation);
  assert_true(message < sizeof error.message && message + 3 >= sizeof error.message);
  assert_int_equal((message - operation - 3) % 3, 0); /* "<operation>: x€€…" */
  assert_int_equal(operation % 3, 0);
}

static void a_detail_may_quote_the_one_it_replaces(void **state) {
  (void)state;
  error_set(CONTEXT(0), COMPUTE_ERROR_SHAPE, NULL, "inner");
  error_set(CONTEXT(0), COMPUTE_ERROR_LAUNCH, NULL, "outer: %s", compute_error_message(CONTEXT(0)));
  assert_string_equal(compute_error_message(CONTEXT(0)), "outer: inner");
}

static void a_message_names_its_operation_once(void **state) {
  (void)state;
  error_set(CONTEXT(0), COMPUTE_ERROR_SHAPE, "matmul", "inner sizes differ");
  assert_string_equal(compute_error_message(CONTEXT(0)), "matmul: inner sizes differ");
  error_set(CONTEXT(0), COMPUTE_ERROR_SHAPE, "matmul", "%s", compute_error_message(CONTEXT(0)));
  assert_string_equal(compute_error_message(CONTEXT(0)), "matmul: inner sizes differ");
  compute_error error;
  compute_error_get(CONTEXT(0), &error);
  assert_string_equal(error_text(&error), "inner sizes differ");
  error_set(CONTEXT(0), COMPUTE_ERROR_SHAPE, "mat", "matmul: inner");
  assert_string_equal(compute_error_message(CONTEXT(0)), "mat: matmul: inner");
}

static void an_error_below_the_public_calls_is_named_by_the_call(void **state) {
  (void)state;
  error_set(CONTEXT(0), COMPUTE_ERROR_LAUNCH, ERROR_BACKEND, "cuda:0: failed");
  assert_string_equal(compute_error_message(CONTEXT(0)), "cuda:0: failed");
  error_attribute(CONTEXT(0), "compute_queue_wait");
  assert_string_equal(compute_error_message(CONTEXT(0)), "compute_queue_wait: cuda:0: failed");
  error_attribute(CONTEXT(0), "compute_run");
  assert_string_equal(compute_error_message(CONTEXT(0)), "compute_run: cuda:0: failed");
  error_attribute(CONTEXT(0), "compute_open");
  assert_string_equal(compute_error_message(CONTEXT(0)), "compute_run: cuda:0: failed");
}

static void a_restored_detail_is_current_again(void **state) {
  (void)state;
  compute_error kept;
  error_set(CONTEXT(0), COMPUTE_ERROR_SHAPE, NULL, "kept");
  compute_error_get(CONTEXT(0), &kept);
  error_set(CONTEXT(0), COMPUTE_ERROR_DTYPE, NULL, "later");
  error_restore(CONTEXT(0), &kept);
  assert_string_equal(compute_error_message(CONTEXT(0)), "kept");
  assert_string_equal(compute_error_message(NULL), "kept");
}

static void a_context_at_the_same_address_starts_clean(void **state) {
  (void)state;
  error_set(CONTEXT(0), COMPUTE_ERROR_SHAPE, NULL, "of the old one");
  error_context_closed(CONTEXT(0));
  assert_string_equal(compute_error_message(CONTEXT(0)), "");
  assert_string_equal(compute_error_message(NULL), "of the old one");
}

/* ---- Threads ------------------------------------------------------------------------------- */

static void *fail_in_a_thread(void *message) {
  error_set(CONTEXT(0), COMPUTE_ERROR_LAUNCH, NULL, "%s", (const char *)message);
  return (void *)(intptr_t)strcmp(compute_error_message(CONTEXT(0)), message);
}

static void *read_in_a_thread(void *message) {
  const bool same = strcmp(compute_error_message(CONTEXT(0)), message) == 0;
  return (void *)(intptr_t)(same && compute_error_message(NULL)[0] == '\0');
}

static void *run(void *(*function)(void *), const char *message) {
  pthread_t thread;
  void *result = NULL;
  assert_int_equal(pthread_create(&thread, NULL, function, (void *)(uintptr_t)message), 0);
  assert_int_equal(pthread_join(thread, &result), 0);
  return result;
}

static void a_thread_reads_its_own_error(void **state) {
  (void)state;
  error_set(CONTEXT(0), COMPUTE_ERROR_SHAPE, NULL, "mine");
  assert_null(run(fail_in_a_thread, "theirs"));
  assert_string_equal(compute_error_message(CONTEXT(0)), "mine");
}

static void a_thread_without_one_reads_the_contexts(void **state) {
  (void)state;
  error_set(CONTEXT(0), COMPUTE_ERROR_SHAPE, NULL, "somebody's");
  assert_non_null(run(read_in_a_thread, "somebody's"));
  compute_error_clear(CONTEXT(0));
  assert_null(run(fail_in_a_thread, "another's"));
  assert_string_equal(compute_error_message(CONTEXT(0)), "another's");
  assert_string_equal(compute_error_message(NULL), "");
}

static void entries_go_with_their_thread_and_their_context(void **state) {
  (void)state;
  failing_allocator_install();
  error_set(CONTEXT(0), COMPUTE_ERROR_SHAPE, NULL, "mine");
  const int64_t alive = failing_allocator_live();
  for (int i = 0; i < 20; i++) assert_null(run(fail_in_a_thread, "theirs"));
  assert_int_equal(failing_allocator_live(), alive);
  error_set(CONTEXT(1), COMPUTE_ERROR_SHAPE, NULL, "mine");
  error_context_closed(CONTEXT(0));
  error_context_closed(CONTEXT(1));
  assert_int_equal(failing_allocator_live(), 0);
  assert_int_equal(failing_allocator_remove(), 0);
}

static void without_memory_the_thread_still_knows(void **state) {
  (void)state;
  failing_allocator_install();
  failing_allocator_arm(1, true);
  assert_int_equal(error_set(CONTEXT(0), COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "none left"),
                   COMPUTE_ERROR_OUT_OF_MEMORY);
  assert_string_equal(compute_error_message(NULL), "none left");
  error_context_closed(CONTEXT(0));
  assert_int_equal(failing_allocator_remove(), 0);
}

/* It also does not get the error that another thread then leaves in the context. */
static void without_memory_a_thread_reads_no_other_ones_error(void **state) {
  (void)state;
  failing_allocator_install();
  failing_allocator_arm(2, false); /* the record of the context, then this thread's entry */
  error_set(CONTEXT(0), COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "none left");
  assert_int_equal(failing_allocator_failures(), 1);
  assert_null(run(fail_in_a_thread, "theirs"));
  assert_string_equal(compute_error_message(CONTEXT(0)), "none left");
  error_context_closed(CONTEXT(0));
  assert_int_equal(failing_allocator_remove(), 0);
}

/* An out-of-memory message without a size gets the size of the failed request, once. */
static void a_failed_request_leaves_its_size(void **state) {
  (void)state;
  failing_allocator_install();
  failing_allocator_arm(1, false);
  assert_null(base_allocate(3, 1000));
  error_set(NULL, COMPUTE_ERROR_OUT_OF_MEMORY, "call", "not enough memory for a plan");
  assert_string_equal(compute_error_message(NULL),
                      "call: not enough memory for a plan (a request of 3000 bytes)");
  error_set(NULL, COMPUTE_ERROR_OUT_OF_MEMORY, "call", "not enough memory for a plan");
  assert_string_equal(compute_error_message(NULL), "call: not enough memory for a plan");
  failing_allocator_arm(1, false);
  assert_null(base_allocate_aligned(64, 64));
  error_set(NULL, COMPUTE_ERROR_OUT_OF_MEMORY, "call", "not enough memory for 7 bytes");
  assert_string_equal(compute_error_message(NULL), "call: not enough memory for 7 bytes");
  assert_null(base_allocate(SIZE_MAX, 2));
  error_set(NULL, COMPUTE_ERROR_FILE, "call", "no memory of a file");
  assert_string_equal(compute_error_message(NULL), "call: no memory of a file");
  assert_null(base_allocate(SIZE_MAX, 2));
  error_set(NULL, COMPUTE_ERROR_OUT_OF_MEMORY, "call", "out of memory");
  assert_string_equal(compute_error_message(NULL),
                      "call: out of memory (a request of more than 64 bits)");
  assert_int_equal(failing_allocator_remove(), 0);
}

static void *fail_often(void *unused) {
  (void)unused;
  for (int i = 0; i < 500; i++) {
    error_set(CONTEXT(i % 2), COMPUTE_ERROR_LAUNCH, NULL, "%p %d", (void *)&i, i);
    char expected[64];
    snprintf(expected, sizeof expected, "%p %d", (void *)&i, i);
    if (strcmp(compute_error_message(CONTEXT(i % 2)), expected) != 0) return &place[0];
    if (i % 50 == 0) compute_error_clear(CONTEXT(i % 2));
  }
  return NULL;
}

static void many_threads_fail_at_once(void **state) {
  (void)state;
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, fail_often, NULL), 0);
  }
  for (int i = 0; i < 4; i++) {
    void *result;
    pthread_join(threads[i], &result);
    assert_null(result);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(a_detail_carries_everything_that_was_said, forget_all),
      cmocka_unit_test_teardown(without_an_error_the_detail_is_empty, forget_all),
      cmocka_unit_test_teardown(contexts_do_not_mix, forget_all),
      cmocka_unit_test_teardown(null_asks_for_the_last_error_of_any_context, forget_all),
      cmocka_unit_test_teardown(clearing_forgets_the_thread_and_the_context, forget_all),
      cmocka_unit_test_teardown(long_texts_are_cut_at_a_whole_character, forget_all),
      cmocka_unit_test_teardown(a_detail_may_quote_the_one_it_replaces, forget_all),
      cmocka_unit_test_teardown(a_message_names_its_operation_once, forget_all),
      cmocka_unit_test_teardown(an_error_below_the_public_calls_is_named_by_the_call, forget_all),
      cmocka_unit_test_teardown(a_restored_detail_is_current_again, forget_all),
      cmocka_unit_test_teardown(a_context_at_the_same_address_starts_clean, forget_all),
      cmocka_unit_test_teardown(a_thread_reads_its_own_error, forget_all),
      cmocka_unit_test_teardown(a_thread_without_one_reads_the_contexts, forget_all),
      cmocka_unit_test_teardown(entries_go_with_their_thread_and_their_context, forget_all),
      cmocka_unit_test_teardown(without_memory_the_thread_still_knows, forget_all),
      cmocka_unit_test_teardown(without_memory_a_thread_reads_no_other_ones_error, forget_all),
      cmocka_unit_test_teardown(a_failed_request_leaves_its_size, forget_all),
      cmocka_unit_test_teardown(many_threads_fail_at_once, forget_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
