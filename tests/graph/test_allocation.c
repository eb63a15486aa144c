/* Every allocation of building a graph fails once: the graph says so, nothing leaks, and the same
 * calls succeed when there is memory again. */
#include "support/test.h"

#include "support/failing_allocator.h"

static compute_context *context;
static compute_tensor *weights, *bias;

static int open_with_allocator(void **state) {
  (void)state;
  failing_allocator_install();
  context = test_open();
  weights = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(6, 4), NULL);
  bias = test_tensor(context, COMPUTE_F16, COMPUTE_SHAPE(4), NULL);
  return 0;
}

/* With the context gone, whatever is left of any run has leaked. */
static int close_and_count(void **state) {
  (void)state;
  failing_allocator_arm(0, false);
  compute_tensor_release(weights);
  compute_tensor_release(bias);
  test_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
  return 0;
}

/* A loss that takes an operation of every kind of builder. */
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
  h = compute_top_k(g, h, 4, 1, false, NULL);
  compute_node target = compute_constant(g, COMPUTE_I64, COMPUTE_SHAPE(3), labels);
  compute_node largest = compute_max(g, h, COMPUTE_AXES(1), true);
  compute_node logits = compute_sub(g, h, compute_gather(g, largest, target, 0));
  return compute_cross_entropy(g, logits, target);
}

/* Builds a whole training step; the status is that of whatever failed first. */
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
  assert_ok(build_training()); /* fills the pool, so that runs are alike */
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_failing_allocation_is_reported_and_leaks_nothing),
  };
  return cmocka_run_group_tests(tests, open_with_allocator, close_and_count);
}
