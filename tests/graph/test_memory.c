/* SPDX-License-Identifier: MIT */
/* Builders take memory for the graph, not for the data that it describes: whatever the sizes, no
 * request is larger than what a small graph needs, and a result that cannot exist is refused
 * without any. Compiling may keep small constants besides. */
#include <stdatomic.h>
#include <stdlib.h>

#include "compute/graph_nn.h"
#include "support/harness/test.h"

/* ---- An allocator that remembers its largest request ---------------------------------------- */

enum { BUILDING = 1 << 16, COMPILING = 1 << 22 }; /* bytes of one request */

static atomic_size_t largest;

static void *allocate(void *user, size_t bytes, size_t alignment) {
  (void)user;
  void *pointer = NULL;
  size_t before = atomic_load(&largest);
  while (bytes > before && !atomic_compare_exchange_weak(&largest, &before, bytes)) continue;
  if (bytes > (size_t)1 << 30) return NULL; /* the machine need not have it */
  if (posix_memalign(&pointer, alignment < sizeof(void *) ? sizeof(void *) : alignment,
                     bytes ? bytes : 1))
    return NULL;
  return pointer;
}

static void release(void *user, void *pointer) {
  (void)user;
  free(pointer);
}

/* ---- Builders of large things ---------------------------------------------------------------- */

typedef compute_node builder(compute_graph *g, int64_t size);

#define BUILDER(name, ...)                                                                         \
  static compute_node name(compute_graph *g, int64_t size) {                                       \
    return __VA_ARGS__;                                                                            \
  }
#define INPUT(...)  compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(__VA_ARGS__))
#define LABELS(...) compute_input(g, COMPUTE_I64, COMPUTE_SHAPE(__VA_ARGS__))
#define NONE                                                                                       \
  (compute_node) {                                                                                 \
    0                                                                                              \
  }

BUILDER(bilinear_wide, compute_upsample2d(g, INPUT(1, 1, 4, 4), 6, size, COMPUTE_UPSAMPLE_BILINEAR))
BUILDER(bilinear_high, compute_upsample2d(g, INPUT(1, 1, 4, 4), size, 6, COMPUTE_UPSAMPLE_BILINEAR))
BUILDER(bilinear_less,
        compute_upsample2d(g, INPUT(1, 1, 4, size), 3, size / 3 * 2, COMPUTE_UPSAMPLE_BILINEAR))
BUILDER(nearest_uneven,
        compute_upsample2d(g, INPUT(1, 1, 4, 5), 4, size | 1, COMPUTE_UPSAMPLE_NEAREST))
BUILDER(nearest_even, compute_upsample2d(g, INPUT(1, 1, 4, 1), 8, size, COMPUTE_UPSAMPLE_NEAREST))
BUILDER(nothing, compute_upsample2d(g, INPUT(0, 1, 4, 5), 7, size, COMPUTE_UPSAMPLE_BILINEAR))
BUILDER(reflect, compute_pad(g, INPUT(size), 0, size / 2, size / 3, COMPUTE_PAD_REFLECT, 0))
BUILDER(reflect_nothing, compute_pad(g, INPUT(size, 0), 0, 5, size / 3, COMPUTE_PAD_REFLECT, 0))
BUILDER(edge, compute_pad(g, INPUT(3), 0, size, 7, COMPUTE_PAD_EDGE, 0))
BUILDER(constant, compute_pad(g, INPUT(3), 0, 7, size, COMPUTE_PAD_CONSTANT, 2))
BUILDER(zeros, compute_pad(g, INPUT(3), 0, 7, size, COMPUTE_PAD_CONSTANT, 0))
BUILDER(full, compute_add(g, INPUT(1), compute_full(g, COMPUTE_F32, COMPUTE_SHAPE(size), 3)))
BUILDER(positions, compute_mul(g, INPUT(1), compute_index(g, COMPUTE_F32, COMPUTE_SHAPE(size), 0)))
BUILDER(noise, compute_random_uniform(g, COMPUTE_F32, COMPUTE_SHAPE(size),
                                      compute_scalar(g, COMPUTE_I64, 1), 0))
BUILDER(one_hot, compute_one_hot(g, LABELS(3), size, COMPUTE_F32))
BUILDER(broadcast, compute_broadcast(g, INPUT(3), COMPUTE_SHAPE(size, 3)))
BUILDER(embed, compute_embed(g, INPUT(3), 0, size, 0, size / 4))
BUILDER(gather, compute_gather(g, INPUT(9), LABELS(size), 0))
BUILDER(scatter, compute_scatter_add(g, INPUT(3), LABELS(3), 0, size))
BUILDER(embedding, compute_gather(g, INPUT(size, 3), LABELS(4), 0))
BUILDER(top_k, compute_top_k(g, INPUT(size), size, 0, false, NULL))
BUILDER(sorted, compute_sort(g, INPUT(size), 0, false))
BUILDER(sums, compute_cumulative_sum(g, INPUT(size), 0, true, true))
BUILDER(outer, compute_matmul(g, INPUT(size, 1), INPUT(1, 7)))
BUILDER(pooled, compute_max_pool2d(g, INPUT(1, 1, 3, size), &(compute_pool2d_options){.size = {2}}))
BUILDER(averaged, compute_average_pool2d(g, INPUT(1, 1, size, 2),
                                         &(compute_pool2d_options){.size = {2}, .stride = {1}}))
BUILDER(convolved, compute_conv2d(g, INPUT(1, 1, 3, size), INPUT(1, 1, 3, 3), NONE, NULL))
BUILDER(spread, compute_conv2d_transpose(g, INPUT(1, 1, 2, 2), INPUT(1, 1, 1, 1), NONE,
                                         &(compute_conv2d_options){.stride = {1, size}}))
BUILDER(attention, compute_scaled_attention(g, INPUT(size, 2), INPUT(size, 2), INPUT(size, 2),
                                            &(compute_attention_options){.causal = true}))
BUILDER(recurrent, compute_gru(g, INPUT(1, size, 1), INPUT(1, 3), INPUT(1, 3), NULL, NULL))
BUILDER(entropy, compute_cross_entropy_smoothed(g, INPUT(2, size), LABELS(2), 0.1))
BUILDER(normalized, compute_normalize(g, INPUT(2, size), 0))
BUILDER(dropped, compute_dropout(g, INPUT(size), 0.5, compute_scalar(g, COMPUTE_I64, 1), 0))
BUILDER(clamped, compute_clamp(g, INPUT(size), 0, 1))

typedef struct row {
  const char *name;
  builder *build;
} row;

#define ROW(name)                                                                                  \
  { #name, name }

static const row rows[] = {
    ROW(bilinear_wide), ROW(bilinear_high), ROW(bilinear_less), ROW(nearest_uneven),
    ROW(nearest_even),  ROW(nothing),       ROW(reflect),       ROW(reflect_nothing),
    ROW(edge),          ROW(constant),      ROW(zeros),         ROW(full),
    ROW(positions),     ROW(noise),         ROW(one_hot),       ROW(broadcast),
    ROW(embed),         ROW(gather),        ROW(scatter),       ROW(embedding),
    ROW(sorted),        ROW(top_k),         ROW(sums),          ROW(outer),
    ROW(pooled),        ROW(averaged),      ROW(convolved),     ROW(spread),
    ROW(attention),     ROW(entropy),       ROW(normalized),    ROW(dropped),
    ROW(clamped),       ROW(recurrent),
};

static void check_largest(const row *r, int64_t size, const char *stage, size_t limit) {
  const size_t bytes = atomic_exchange(&largest, 0);
  if (bytes > limit)
    fail_msg("%s of %lld: %s asked for %zu bytes", r->name, (long long)size, stage, bytes);
}

static void check_row(compute_context *context, const row *r, int64_t size) {
  compute_graph *g = compute_graph_create(context);
  atomic_store(&largest, 0);
  const compute_node y = r->build(g, size);
  check_largest(r, size, "the builder", BUILDING);
  const compute_status status = compute_graph_status(g);
  if (status && status != COMPUTE_ERROR_OVERFLOW)
    fail_msg("%s of %lld: %s", r->name, (long long)size, compute_error_message(context));
  if (!status) {
    /* The first node is an input; labels have no gradient. */
    compute_node x = {.id = 1, .graph = y.graph}, gradient;
    const compute_node loss = compute_mean(g, y, COMPUTE_ALL_AXES, false);
    if (compute_node_dtype(g, x) == COMPUTE_F32 && compute_node_dtype(g, y) == COMPUTE_F32)
      compute_gradients(g, loss, &x, 1, &gradient);
    check_largest(r, size, "its gradient", BUILDING);
  }
  /* A transposed convolution with a far stride is left out: the CPU's kernel keeps a table of it.
   */
  if (!compute_graph_status(g) && r->build != spread) {
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
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
      check_row(context, &rows[i], sizes[k]);
  test_close(context);
  assert_ok(compute_allocator_set(NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(memory_follows_the_graph_and_not_the_data)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
