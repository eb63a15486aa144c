/* SPDX-License-Identifier: MIT */
/* Every allocation of building a graph fails once: the graph says so, nothing leaks, and the same
 * calls succeed when there is memory again. */
#include "support/harness/test.h"

#include "compute/spots.h"
#include "graph/node/graph.h"
#include "support/harness/failing_allocator.h"

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

/* With the context gone, whatever is left of any run has leaked. */
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
  const compute_node tenths = compute_full(g, COMPUTE_F32, COMPUTE_SHAPE(4, 16), 0.1);
  h = compute_lstm(g, compute_reshape(g, h, COMPUTE_SHAPE(3, 1, 4)), tenths, tenths, NULL, NULL);
  h = compute_reshape(g, h, COMPUTE_SHAPE(3, 4));
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

/* ---- Half-way ----------------------------------------------------------------------------------
 */

/* What composed calls are made of; they take nothing else. */
typedef struct operands {
  compute_graph *g;
  compute_node x, w, row, labels, image, filter, seed, bytes, byte, byte_image, packed, loss,
      volume, block, places;
} operands;

static const compute_node none;

static void clamp(const operands *o) {
  compute_clamp(o->g, o->x, -1, 1);
}
static void layer_norm(const operands *o) {
  compute_layer_norm(o->g, o->x, o->row, o->row, 1e-5);
}
static void cross_entropy(const operands *o) {
  compute_cross_entropy_smoothed(o->g, o->x, o->labels, 0.1);
}
static void squared_error(const operands *o) {
  compute_mean_squared_error(o->g, o->x, o->x);
}
static void binary(const operands *o) {
  compute_binary_cross_entropy(o->g, o->x, o->x);
}
static void huber(const operands *o) {
  compute_huber(o->g, o->x, o->row, 1);
}
static void batch_norm(const operands *o) {
  compute_batch_norm(o->g, o->x, o->row, o->row, o->row, o->row, 1e-5);
}
static void batch_norm_training(const operands *o) {
  compute_node mean, variance;
  compute_batch_norm_training(o->g, o->x, o->row, o->row, 1e-5, &mean, &variance);
}
static void dropout(const operands *o) {
  compute_dropout(o->g, o->x, 0.5, o->seed, 3);
}
static void top_k(const operands *o) {
  compute_top_k(o->g, o->x, 2, 1, false, NULL);
}
static void sort(const operands *o) {
  compute_sort(o->g, o->x, 1, true);
}
static void argsort(const operands *o) {
  compute_argsort(o->g, o->x, 1, true);
}
static void one_hot(const operands *o) {
  compute_one_hot(o->g, o->labels, 3, COMPUTE_F32);
}
static void conv2d(const operands *o) {
  compute_conv2d(o->g, o->image, o->filter, o->row, NULL);
}
static void conv2d_transpose(const operands *o) {
  compute_conv2d_transpose(o->g, o->image, o->filter, o->row, NULL);
}
static void matmul_integer(const operands *o) {
  compute_matmul_integer(o->g, o->bytes, o->bytes, o->byte, o->byte);
}
static void conv2d_integer(const operands *o) {
  compute_conv2d_integer(o->g, o->byte_image, o->byte_image, o->byte, o->byte,
                         &(compute_conv2d_options){.padding = {1}});
}
static void quantized_matmul(const operands *o) {
  compute_quantized_matmul(o->g, o->row, o->packed, o->x, none,
                           &(compute_quantized_options){.bits = 8, .block = 1});
}
static void conv3d(const operands *o) {
  compute_conv3d(o->g, o->volume, o->block, o->row, &(compute_conv3d_options){.padding = {1}});
}
static void conv3d_transpose(const operands *o) {
  compute_conv3d_transpose(o->g, o->volume, o->block, o->row, NULL);
}
static void max_pool3d(const operands *o) {
  compute_max_pool3d(o->g, o->volume, &(compute_pool3d_options){.size = {2, 1, 1}});
}
static void argmax_pool3d(const operands *o) {
  compute_argmax_pool3d(o->g, o->volume,
                        &(compute_pool3d_options){.size = {2, 1, 1}, .dilation = {2, 1, 1}});
}
static void average_pool3d(const operands *o) {
  compute_average_pool3d(o->g, compute_cast(o->g, o->volume, COMPUTE_F16),
                         &(compute_pool3d_options){.size = {2, 1, 1}});
}
static void max_unpool(const operands *o) {
  compute_max_unpool(o->g, o->image, o->places, COMPUTE_SHAPE(1, 4, 3, 4));
}
static void matmul(const operands *o) {
  compute_matmul(o->g, o->row, o->w);
}
static void pad(const operands *o) {
  compute_pad(o->g, o->x, 1, 1, 2, COMPUTE_PAD_CONSTANT, 2);
}
static void upsample(const operands *o) {
  compute_upsample2d(o->g, o->image, 5, 7, COMPUTE_UPSAMPLE_BILINEAR);
}
static void gradients(const operands *o) {
  compute_node found[2];
  compute_gradients(o->g, o->loss, (const compute_node[]){o->w, o->x}, 2, found);
}
static void clip_gradients(const operands *o) {
  compute_node both[] = {o->x, o->row};
  compute_clip_gradients(o->g, both, 2, 1, NULL);
  if (compute_graph_status(o->g)) assert_memory_equal(&both[0], &o->x, sizeof o->x);
}
static void sgd_step(const operands *o) {
  compute_sgd_step(o->g, o->loss, &o->w, 1, &(compute_sgd_options){.momentum = 0.9});
}
static void adam_step(const operands *o) {
  compute_adam_step(o->g, o->loss, &o->w, 1, NULL);
}
static void rmsprop_step(const operands *o) {
  compute_rmsprop_step(o->g, o->loss, &o->w, 1, NULL);
}
static void find_spots(const operands *o) {
  const compute_spot_options options = {.sigma = 1.2};
  compute_node response = none;
  compute_find_spots(o->g, compute_reshape(o->g, o->image, COMPUTE_SHAPE(4, 3, 3)), &options,
                     &response);
  if (compute_graph_status(o->g)) assert_false(compute_node_is_valid(response));
}

static void (*const composed[])(const operands *o) = {
    clamp,          layer_norm,     cross_entropy,    squared_error,
    binary,         huber,          batch_norm,       dropout,
    top_k,          sort,           argsort,          one_hot,
    conv2d,         conv3d,         conv3d_transpose, max_pool3d,
    argmax_pool3d,  average_pool3d, max_unpool,       matmul,
    matmul_integer, conv2d_integer, quantized_matmul, pad,
    upsample,       gradients,      conv2d_transpose, clip_gradients,
    sgd_step,       adam_step,      rmsprop_step,     batch_norm_training,
    find_spots,
};

static operands make_operands(compute_graph *g) {
  operands o = {.g = g};
  o.x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(3, 4));
  o.w = compute_name(g, compute_parameter(g, square), "w");
  o.row = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(4));
  o.labels = compute_input(g, COMPUTE_I32, COMPUTE_SHAPE(3));
  o.image = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(1, 4, 3, 3));
  o.filter = compute_full(g, COMPUTE_F32, COMPUTE_SHAPE(4, 4, 1, 1), 1);
  o.bytes = compute_input(g, COMPUTE_I8, COMPUTE_SHAPE(4, 4));
  o.packed = compute_input(g, COMPUTE_U8, COMPUTE_SHAPE(3, 4));
  o.byte_image = compute_input(g, COMPUTE_I8, COMPUTE_SHAPE(2, 4, 3, 3));
  o.byte = compute_input(g, COMPUTE_I8, COMPUTE_SCALAR);
  o.volume = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(2, 4, 3, 2, 2));
  o.block = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(4, 4, 2, 1, 1));
  o.places = compute_input(g, COMPUTE_I64, COMPUTE_SHAPE(1, 4, 3, 3));
  o.seed = compute_constant(g, COMPUTE_I64, COMPUTE_SCALAR, &(const int64_t){7});
  o.loss = compute_mean_squared_error(g, compute_matmul(g, o.x, o.w), o.x);
  return o;
}

/* The frames of find_spots are a call of their own before it, as is the cast of average_pool3d. */
static size_t own_nodes(size_t call) {
  return composed[call] == find_spots || composed[call] == average_pool3d ? 1 : 0;
}

static void a_call_that_runs_out_of_memory_records_nothing(void **state) {
  (void)state;
  compute_graph *g = compute_graph_create(context);
  const operands o = make_operands(g);
  assert_ok(compute_graph_status(g));
  const size_t before = g->count;
  for (size_t i = 0; i < sizeof composed / sizeof *composed; i++) {
    composed[i](&o);
    assert_ok(compute_graph_status(g));
    const size_t whole = g->count;
    graph_truncate(g, before);
    for (int64_t number = 1;; number++) {
      failing_allocator_arm(number, false);
      composed[i](&o);
      const int64_t failures = failing_allocator_failures();
      failing_allocator_arm(0, false);
      if (failures == 0) break;
      if (compute_graph_status(g) != COMPUTE_OK) {
        assert_in_range(g->count, before, before + own_nodes(i));
        compute_graph_clear_error(g);
        graph_truncate(g, before);
        composed[i](&o);
      }
      assert_ok(compute_graph_status(g));
      assert_int_equal(g->count, whole);
      graph_truncate(g, before);
    }
    graph_truncate(g, before);
  }
  compute_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_failing_allocation_is_reported_and_leaks_nothing),
      cmocka_unit_test(a_call_that_runs_out_of_memory_records_nothing),
  };
  return cmocka_run_group_tests(tests, open_with_allocator, close_and_count);
}
