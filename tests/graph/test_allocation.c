/* SPDX-License-Identifier: MIT */
/* Every allocation of building a graph fails once. The graph reports the failure, nothing leaks,
 * and the same calls succeed when memory is available again. */
#include "support/harness/test.h"

#include "compute/spots.h"
#include "graph/node/graph.h"
#include "support/harness/failing_allocator.h"
#include "support/samples/elementwise.h"
#include "support/samples/operation_samples.h"

static compute_context *context;
static compute_tensor *weights, *bias, *square;

static int open_with_allocator(void **state) {
  (void)state;
  failing_allocator_install();
  context = test_open();
  weights = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(6, 4), NULL);
  bias = test_tensor(context, COMPUTE_F16, COMPUTE_SHAPE(4), NULL);
  square = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(4, 4), NULL);
  return 0;
}

/* After the context is closed, any remaining block is a leak. */
static int close_and_count(void **state) {
  (void)state;
  failing_allocator_arm(0, false);
  compute_tensor_release(weights);
  compute_tensor_release(bias);
  compute_tensor_release(square);
  test_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
  return 0;
}

/* A loss with an operation of every kind of builder. */
static compute_node build_loss(compute_graph *g, compute_node *parameters) {
  const int64_t labels[] = {0, 2, 1};
  parameters[0] = compute_name(g, compute_parameter(g, weights), "weights");
  parameters[1] = compute_parameter(g, bias);
  compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(3, 6));
  const compute_node halves[] = {compute_slice(g, x, 1, 0, 3, 2), compute_slice(g, x, 1, 1, 3, 2)};
  compute_node h = compute_matmul(g, compute_concat(g, halves, 2, 1), parameters[0]);
  compute_node b = compute_cast(g, parameters[1], COMPUTE_F32);
  h = compute_add(g, h, compute_broadcast(g, b, COMPUTE_SHAPE(3, 4)));
  h = compute_gelu(g, compute_layer_norm(g, h, b, (compute_node){0}, 1e-5));
  h = compute_mul(g, h, compute_reshape(g, compute_matmul(g, h, b), COMPUTE_SHAPE(3, 1)));
  h = compute_clamp(g, h, -4, 4);
  h = compute_reshape(g, h, COMPUTE_SHAPE(1, 1, 3, 4));
  const compute_node filter = compute_full(g, COMPUTE_F32, COMPUTE_SHAPE(1, 1, 3, 3), 0.1);
  const compute_conv2d_options conv = {.padding = {1, 1}};
  const compute_pool2d_options pool = {.size = {3}, .stride = {1}, .padding = {1, 1}};
  h = compute_max_pool2d(g, compute_conv2d(g, h, filter, (compute_node){0}, &conv), &pool);
  h = compute_pad(g, compute_upsample2d(g, h, 5, 6, COMPUTE_UPSAMPLE_BILINEAR), 3, 1, 0,
                  COMPUTE_PAD_REFLECT, 0);
  h = compute_slice(g, compute_slice(g, h, 3, 0, 4, 1), 2, 0, 3, 1);
  h = compute_scaled_attention(g, h, h, h, NULL);
  h = compute_cumulative_sum(g, compute_reshape(g, h, COMPUTE_SHAPE(3, 4)), 1, false, false);
  const compute_node tenths = compute_full(g, COMPUTE_F32, COMPUTE_SHAPE(4, 16), 0.1);
  h = compute_lstm(g, compute_reshape(g, h, COMPUTE_SHAPE(3, 1, 4)), tenths, tenths, NULL, NULL);
  h = compute_reshape(g, h, COMPUTE_SHAPE(3, 4));
  h = compute_top_k(g, h, 4, 1, false, NULL);
  compute_node target = compute_constant(g, COMPUTE_I64, COMPUTE_SHAPE(3), labels);
  compute_node largest = compute_max(g, h, COMPUTE_AXES(1), true);
  compute_node logits = compute_sub(g, h, compute_gather(g, largest, target, 0));
  return compute_cross_entropy(g, logits, target);
}

/* Builds a whole training step. Returns the status of the first failure. */
static compute_status build_training(void) {
  compute_node parameters[2];
  compute_error error;
  compute_graph *g = compute_graph_create(context);
  if (!g) {
    compute_error_get(context, &error);
    return error.status;
  }
  compute_node loss = build_loss(g, parameters);
  compute_node step = compute_adam_step(g, loss, parameters, 2, NULL);
  const compute_status status = compute_graph_status(g);
  if (compute_node_is_valid(step) != (status == COMPUTE_OK)) fail_msg("status and node disagree");
  compute_graph_release(g);
  return status;
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state) {
  (void)state;
  assert_ok(build_training()); /* fills the pool, so that all runs are alike */
  int64_t number = 1;
  for (;; number++) {
    compute_error_clear(context);
    failing_allocator_arm(number, false);
    const compute_status status = build_training();
    const int64_t failures = failing_allocator_failures();
    failing_allocator_arm(0, false);
    if (failures == 0) {
      assert_int_equal(status, COMPUTE_OK);
      break;
    }
    if (status != COMPUTE_ERROR_OUT_OF_MEMORY && status != COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY) {
      fail_msg("allocation %lld: %s: %s", (long long)number, compute_status_name(status),
               compute_error_message(context));
    }
    assert_true(compute_error_message(context)[0] != '\0');
  }
  assert_in_range(number, 100, 100000);
  assert_ok(build_training());
}

/* ---- Failures between nodes ------------------------------------------------------------------ */

/* A builder call, and the nodes that its failures leave. */
typedef struct composed_call {
  const char *name;
  void (*build)(compute_graph *g, const compute_node *x, const void *user);
  const void *user;
  bool several; /* calls: those before the failing one may have recorded nodes */
} composed_call;

static void run_out_of_memory(compute_graph *g, const compute_node *x, const composed_call *c) {
  const size_t before = g->count;
  c->build(g, x, c->user);
  if (compute_graph_status(g)) fail_msg("%s: %s", c->name, compute_error_message(context));
  const size_t whole = g->count;
  graph_truncate(g, before);
  for (int64_t number = 1;; number++) {
    failing_allocator_arm(number, false);
    c->build(g, x, c->user);
    const int64_t failures = failing_allocator_failures();
    failing_allocator_arm(0, false);
    if (failures == 0) break;
    if (compute_graph_status(g) != COMPUTE_OK) {
      if (g->count > (c->several ? whole : before))
        fail_msg("%s: allocation %lld fails and leaves %zu nodes", c->name, (long long)number,
                 g->count - before);
      compute_graph_clear_error(g);
      graph_truncate(g, before);
      c->build(g, x, c->user);
    }
    assert_ok(compute_graph_status(g));
    if (g->count != whole)
      fail_msg("%s: %zu nodes, not %zu, after allocation %lld failed", c->name, g->count - before,
               whole - before, (long long)number);
    graph_truncate(g, before);
  }
  graph_truncate(g, before);
}

static void build_case(compute_graph *g, const compute_node *x, const void *user) {
  const operation_case *sample = user;
  sample->build(g, x, sample->user);
}

static void check_case(const operation_case *sample, bool several) {
  compute_graph *g = compute_graph_create(context);
  compute_node x[OPERATION_MAX_OPERANDS] = {{0}};
  operation_sample_inputs(g, sample, x);
  assert_ok(compute_graph_status(g));
  run_out_of_memory(g, x, &(composed_call){sample->name, build_case, sample, several});
  compute_graph_release(g);
}

static void an_operation_that_runs_out_of_memory_records_nothing(void **state) {
  (void)state;
  const operation_sample *row;
  operation_case sample;
  for (size_t i = 0; (row = operation_sample_at(i)) != NULL; i++) {
    operation_sample_case(row, 0, &sample);
    check_case(&sample, row->uses & OPERATION_SEVERAL);
  }
}

static void an_elementwise_operation_that_runs_out_of_memory_records_nothing(void **state) {
  (void)state;
  const elementwise_row *row;
  for (size_t i = 0; (row = elementwise_at(i)) != NULL; i++) {
    const compute_dtype dtype = operation_all_dtypes(row->domain)[0];
    operation_case sample = {.name = row->name,
                             .build = elementwise_build,
                             .user = row,
                             .operand_count = (size_t)row->arity};
    for (int k = 0; k < row->arity; k++)
      sample.operand[k] = (operation_operand){
          .dtype = row->arity == 3 && k == 0 ? COMPUTE_BOOL : dtype, .shape = SHAPE(3, 4)};
    check_case(&sample, false);
    sample.operand[0].shape = COMPUTE_SHAPE(4); /* broadcast */
    check_case(&sample, false);
  }
}

/* ---- Calls beyond operations --------------------------------------------------------------- */

/* Operands: x, a row of it, a parameter, a loss and frames. */
enum { X, ROW, W, LOSS, FRAMES, OPERANDS };

static void gradients(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  compute_node found[2];
  compute_gradients(g, x[LOSS], (const compute_node[]){x[W], x[X]}, 2, found);
}
static void clip_gradients(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  compute_node both[] = {x[X], x[ROW]};
  compute_clip_gradients(g, both, 2, 1, NULL);
  if (compute_graph_status(g)) assert_memory_equal(&both[0], &x[X], sizeof x[X]);
}
static void sgd_step(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  compute_sgd_step(g, x[LOSS], &x[W], 1, &(compute_sgd_options){.momentum = 0.9});
}
static void adam_step(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  compute_adam_step(g, x[LOSS], &x[W], 1, NULL);
}
static void rmsprop_step(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  compute_rmsprop_step(g, x[LOSS], &x[W], 1, NULL);
}
static void find_spots(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  compute_node response = {0};
  compute_find_spots(g, x[FRAMES], &(compute_spot_options){.sigma = 1.2}, &response);
  if (compute_graph_status(g)) assert_false(compute_node_is_valid(response));
}

static const composed_call composed[] = {
    {"gradients", gradients, NULL, false},       {"clip_gradients", clip_gradients, NULL, false},
    {"sgd_step", sgd_step, NULL, false},         {"adam_step", adam_step, NULL, false},
    {"rmsprop_step", rmsprop_step, NULL, false}, {"find_spots", find_spots, NULL, false},
};

static void a_step_that_runs_out_of_memory_records_nothing(void **state) {
  (void)state;
  compute_graph *g = compute_graph_create(context);
  compute_node x[OPERANDS];
  x[X] = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(3, 4));
  x[ROW] = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(4));
  x[W] = compute_name(g, compute_parameter(g, square), "w");
  x[LOSS] = compute_mean_squared_error(g, compute_matmul(g, x[X], x[W]), x[X]);
  x[FRAMES] = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(4, 3, 3));
  assert_ok(compute_graph_status(g));
  for (size_t i = 0; i < sizeof composed / sizeof *composed; i++)
    run_out_of_memory(g, x, &composed[i]);
  compute_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_failing_allocation_is_reported_and_leaks_nothing),
      cmocka_unit_test(an_operation_that_runs_out_of_memory_records_nothing),
      cmocka_unit_test(an_elementwise_operation_that_runs_out_of_memory_records_nothing),
      cmocka_unit_test(a_step_that_runs_out_of_memory_records_nothing),
  };
  return cmocka_run_group_tests(tests, open_with_allocator, close_and_count);
}
