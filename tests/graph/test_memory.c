/* SPDX-License-Identifier: MIT */
/* Builders need memory for the graph, not for the data that it describes. At any size, no request
 * is larger than for a small graph, and an impossible result is refused without any request.
 * Compilation may also keep small constants. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"
#include "support/samples/operation_samples.h"
#include "core/platform/aligned.h"

/* ---- An allocator that remembers its largest request ---------------------------------------- */

enum { BUILDING = 1 << 16, COMPILING = 1 << 22 }; /* bytes of one request */

static atomic_size_t largest;

static void *allocate(void *user, size_t bytes, size_t alignment) {
  (void)user;
  size_t before = atomic_load(&largest);
  while (bytes > before && !atomic_compare_exchange_weak(&largest, &before, bytes)) continue;
  if (bytes > (size_t)1 << 30) return NULL; /* the machine may have less */
  return aligned_take(alignment, (bytes / alignment + 1) * alignment);
}

static void release(void *user, void *pointer) {
  (void)user;
  aligned_give(pointer);
}

/* ---- Builders of large things: the rows LARGE of tests/operations.def ---------------------- */

static void check_largest(const operation_large *r, int64_t size, const char *stage, size_t limit) {
  const size_t bytes = atomic_exchange(&largest, 0);
  if (bytes > limit)
    fail_msg("%s of %lld: %s asked for %zu bytes", r->name, (long long)size, stage, bytes);
}

static void check_row(compute_context *context, const operation_large *r, int64_t size) {
  compute_graph *g = compute_graph_create(context);
  atomic_store(&largest, 0);
  const compute_node y = r->build(g, size);
  check_largest(r, size, "the builder", BUILDING);
  const compute_status status = compute_graph_status(g);
  if (status && status != COMPUTE_ERROR_OVERFLOW)
    fail_msg("%s of %lld: %s", r->name, (long long)size, compute_error_message(context));
  if (!status) {
    /* The first node is an input. Labels have no gradient. */
    compute_node x = {.id = 1, .graph = y.graph}, gradient;
    const compute_node loss = compute_mean(g, y, COMPUTE_ALL_AXES, false);
    if (compute_node_dtype(g, x) == COMPUTE_F32 && compute_node_dtype(g, y) == COMPUTE_F32)
      compute_gradients(g, loss, &x, 1, &gradient);
    check_largest(r, size, "its gradient", BUILDING);
  }
  /* Excludes a transposed convolution with a large stride: the CPU's kernel keeps a table for
   * the stride. */
  if (!compute_graph_status(g) && strcmp(r->name, "spread") != 0) {
    compute_plan *plan = NULL;
    if (compute_compile(g, &y, 1, NULL, &plan) == COMPUTE_OK) compute_plan_release(plan);
    check_largest(r, size, "compiling", COMPILING);
  }
  compute_graph_release(g);
}

static void memory_follows_the_graph_and_not_the_data(void **state) {
  (void)state;
  static const compute_allocator counting = {allocate, release, NULL};
  static const int64_t sizes[] = {100000,           INT32_MAX,     INT64_C(1) << 40,
                                  INT64_C(1) << 59, INT64_MAX / 4, INT64_MAX};
  assert_ok(compute_allocator_set(&counting));
  compute_context *context = test_open();
  const operation_large *row;
  for (size_t i = 0; (row = operation_large_at(i)) != NULL; i++)
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) check_row(context, row, sizes[k]);
  test_close(context);
  assert_ok(compute_allocator_set(NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(memory_follows_the_graph_and_not_the_data)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
