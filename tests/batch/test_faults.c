/* SPDX-License-Identifier: MIT */
/* A batch run in which the n-th host allocation fails, for n = 1, 2, …: each time a clean status or
 * the right result, no hanging thread, and nothing left behind. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/failing_allocator.h"
#include "support/harness/test.h"

enum { ITEMS = 50, WIDTH = 3, MOST_ALLOCATIONS = 5000 };

static float data[ITEMS * WIDTH], out[ITEMS];

static void build(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  (void)items;
  const compute_node w = compute_parameter(graph, user);
  outputs[0] = compute_sum(graph, compute_mul(graph, inputs[0], w), COMPUTE_AXES(1), false);
}

static compute_status read_items(void *user, int64_t first, int64_t items, void *to,
                                 int64_t *count) {
  (void)user;
  *count = items < ITEMS - first ? items : ITEMS - first;
  memcpy(to, data + first * WIDTH, (size_t)*count * WIDTH * sizeof *data);
  return COMPUTE_OK;
}

/* Two devices, a smaller last batch, a callback and an array. */
static compute_status stream(compute_context *context, compute_batch_result *result) {
  const float weights[WIDTH] = {1, 2, 4};
  compute_device *device = compute_default_device(context);
  compute_device *const devices[] = {device, device};
  compute_tensor *parameter = NULL;
  compute_batch *batch = NULL;
  compute_status s =
      compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(WIDTH), weights, &parameter);
  const compute_batch_port port = {COMPUTE_F32, COMPUTE_SHAPE(WIDTH)};
  if (s == COMPUTE_OK)
    s = compute_batch_create(context,
                             &(compute_batch_options){.build = build,
                                                      .user = parameter,
                                                      .inputs = &port,
                                                      .input_count = 1,
                                                      .output_count = 1,
                                                      .devices = devices,
                                                      .device_count = 2,
                                                      .batch = 16,
                                                      .slots = 2,
                                                      .fallback = COMPUTE_FALLBACK_SILENT},
                             &batch);
  memset(out, 0, sizeof out);
  const compute_batch_source source = {.read = read_items};
  const compute_batch_sink sink = {.array = out};
  if (s == COMPUTE_OK)
    s = compute_batch_run(batch,
                          &(compute_batch_run_options){
                              .items = COMPUTE_BATCH_UNTIL_END, .sources = &source, .sinks = &sink},
                          result);
  compute_batch_release(batch);
  compute_tensor_release(parameter);
  return s;
}

static void check_complete(int64_t items) {
  for (int64_t i = 0; i < items; i++) {
    const float *x = data + i * WIDTH;
    if (out[i] != x[0] + 2 * x[1] + 4 * x[2]) fail_msg("item %lld is wrong", (long long)i);
  }
}

/* The threads' allocations depend on timing, so the sweep continues for a while after the first run
 * without a failure. */
static void any_allocation_may_fail(void **state) {
  (void)state;
  int clean = 0;
  int64_t nth = 1;
  failing_allocator_install();
  for (; nth < MOST_ALLOCATIONS && clean < 8; nth++) {
    compute_context *context = NULL;
    compute_batch_result result = {0};
    const int64_t live = failing_allocator_live();
    assert_ok(compute_open(&context, &(compute_open_options){.device = "cpu"}));
    compute_error_clear(context);
    failing_allocator_arm(nth, false);
    const compute_status s = stream(context, &result);
    const int64_t failures = failing_allocator_failures();
    failing_allocator_arm(0, false);
    clean += failures == 0;
    check_complete(result.items);
    if (s == COMPUTE_OK) {
      assert_int_equal(result.items, ITEMS);
    } else if (s != COMPUTE_ERROR_OUT_OF_MEMORY && s != COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY) {
      fail_msg("allocation %lld: %s: %s", (long long)nth, compute_status_name(s),
               compute_error_message(context));
    } else if (compute_error_message(context)[0] == '\0') {
      fail_msg("allocation %lld: %s without a message", (long long)nth, compute_status_name(s));
    }
    assert_ok(stream(context, &result)); /* the context still works */
    assert_ok(compute_close(context));
    if (failing_allocator_live() != live)
      fail_msg("allocation %lld: %lld blocks leaked", (long long)nth,
               (long long)(failing_allocator_live() - live));
  }
  print_message("%lld allocations\n", (long long)nth - 9);
  assert_true(nth > 50 && nth < MOST_ALLOCATIONS);
  assert_int_equal(failing_allocator_remove(), 0);
}

static atomic_int warnings;

static void count_warnings(void *user, compute_log_level level, const char *module,
                           const char *message) {
  (void)user, (void)module, (void)message;
  if (level <= COMPUTE_LOG_WARNING) atomic_fetch_add(&warnings, 1);
}

/* The pool has memory for only a few items. The default policy is COMPUTE_FALLBACK_WARN. */
static void a_budget_makes_batches_smaller(void **state) {
  (void)state;
  enum { MANY = 20000, WIDE = 64 };
  compute_context *context = test_open();
  compute_device *device = compute_default_device(context);
  float *many = calloc(MANY * WIDE, sizeof *many), *sums = calloc(MANY, sizeof *sums);
  compute_tensor *parameter = NULL;
  compute_batch *batch = NULL;
  compute_batch_result result;
  assert_ok(compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(WIDE), 2, &parameter));
  for (int i = 0; i < MANY * WIDE; i++) many[i] = (float)(i % 7);
  const compute_batch_port port = {COMPUTE_F32, COMPUTE_SHAPE(WIDE)};
  compute_batch_options options = {.build = build,
                                   .user = parameter,
                                   .inputs = &port,
                                   .input_count = 1,
                                   .output_count = 1,
                                   .batch = MANY};
  /* A misaligned array cannot be used in place. */
  char *shifted = malloc(MANY * WIDE * sizeof *many + 1);
  memcpy(shifted + 1, many, MANY * WIDE * sizeof *many);
  for (int policy = COMPUTE_FALLBACK_DEFAULT; policy <= COMPUTE_FALLBACK_STRICT; policy++) {
    options.fallback = (compute_fallback)policy;
    warnings = 0;
    compute_log_set(count_warnings, NULL, COMPUTE_LOG_WARNING);
    assert_ok(compute_batch_create(context, &options, &batch));
    assert_ok(compute_pool_set_budget(device, 1 << 20));
    const compute_status s = compute_batch_run(
        batch,
        &(compute_batch_run_options){.items = MANY,
                                     .sources = (compute_batch_source[]){{.array = shifted + 1}},
                                     .sinks = (compute_batch_sink[]){{.array = sums}}},
        &result);
    assert_ok(compute_pool_set_budget(device, 0));
    compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
    assert_int_equal(warnings > 0, policy <= COMPUTE_FALLBACK_WARN);
    if (policy == COMPUTE_FALLBACK_STRICT) {
      assert_int_equal(s, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
      assert_int_equal(result.items, 0);
    } else {
      assert_int_equal(s, COMPUTE_OK);
      assert_int_equal(result.items, MANY);
      assert_true(result.halved > 0);
      for (int i = 0; i < MANY; i++) {
        float sum = 0;
        for (int j = 0; j < WIDE; j++) sum += 2 * many[i * WIDE + j];
        assert_true(sums[i] == sum);
      }
    }
    compute_batch_release(batch);
  }
  compute_tensor_release(parameter);
  free(shifted);
  free(many);
  free(sums);
  test_close(context);
}

int main(void) {
  for (int i = 0; i < ITEMS * WIDTH; i++) data[i] = (float)(i % 11);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_allocation_may_fail),
      cmocka_unit_test(a_budget_makes_batches_smaller),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
