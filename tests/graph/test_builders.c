/* SPDX-License-Identifier: MIT */
/* Nodes made by builders: shapes, dtypes, attributes, and their storage. */
#include "support/harness/test.h"

#include <string.h>

#include "graph/node/graph.h"

static compute_graph *graph;

static int create_graph(void **state) {
  (void)state;
  graph = compute_graph_create(test_context);
  return graph ? 0 : -1;
}

static int release_graph(void **state) {
  (void)state;
  compute_graph_release(graph);
  return 0;
}

static compute_node input(compute_shape shape) {
  return compute_input(graph, COMPUTE_F32, shape);
}

static compute_node integers(compute_shape shape) {
  return compute_input(graph, COMPUTE_I64, shape);
}

static const graph_node *stored(compute_node node) {
  assert_ok(compute_graph_status(graph));
  assert_true(compute_node_is_valid(node));
  return &graph->nodes[node.id - 1];
}

static void expect(compute_node node, compute_dtype dtype, compute_shape shape) {
  char actual[128], expected[128];
  assert_ok(compute_graph_status(graph));
  compute_shape_text(compute_node_shape(graph, node), actual, sizeof actual);
  compute_shape_text(shape, expected, sizeof expected);
  assert_string_equal(actual, expected);
  assert_string_equal(compute_dtype_name(compute_node_dtype(graph, node)),
                      compute_dtype_name(dtype));
}

static void expect_f32(compute_node node, compute_shape shape) {
  expect(node, COMPUTE_F32, shape);
}

/* ---- Handles, names, sources --------------------------------------------------------------- */

static void nodes_are_stored_in_order_with_normalised_shapes(void **state) {
  (void)state;
  compute_shape shape = COMPUTE_SHAPE(2, 3);
  shape.size[5] = 99;
  compute_node a = compute_input(graph, COMPUTE_F32, shape), b = compute_neg(graph, a);
  assert_int_equal(a.id, 1);
  assert_int_equal(b.id, 2);
  assert_int_equal(a.graph, b.graph);
  assert_int_equal(stored(a)->shape.size[5], 0);
  assert_int_equal(stored(b)->input_count, 1);
  assert_int_equal(stored(b)->inputs[0], 0);
}

static void the_invalid_node_has_no_shape_and_no_dtype(void **state) {
  (void)state;
  assert_false(compute_node_is_valid((compute_node){0}));
  assert_int_equal(compute_node_dtype(graph, (compute_node){0}), COMPUTE_DTYPE_NONE);
  assert_int_equal(compute_node_shape(graph, (compute_node){0}).rank, 0);
  assert_int_equal(compute_node_dtype(NULL, (compute_node){1, 1}), COMPUTE_DTYPE_NONE);
  assert_null(compute_graph_context(NULL));
  assert_ptr_equal(compute_graph_context(graph), test_context);
  assert_null(compute_parameter_tensor(graph, input(COMPUTE_SCALAR)));
}

static void a_name_can_be_given_and_replaced(void **state) {
  (void)state;
  compute_node x = input(COMPUTE_SCALAR);
  assert_int_equal(compute_name(graph, x, "first").id, x.id);
  assert_string_equal(stored(x)->name, "first");
  compute_name(graph, x, "second");
  assert_string_equal(stored(x)->name, "second");
}

static void parameters_keep_their_tensor_and_are_found_in_order(void **state) {
  (void)state;
  const float values[] = {1, 2};
  compute_tensor *one = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2), values);
  compute_tensor *two = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1, 2), values);
  input(COMPUTE_SCALAR);
  compute_node p = compute_parameter(graph, one);
  compute_neg(graph, p);
  compute_node q = compute_parameter(graph, two);
  compute_tensor_release(one);
  compute_tensor_release(two);
  expect_f32(q, COMPUTE_SHAPE(1, 2));
  assert_ptr_equal(compute_parameter_tensor(graph, p), one);
  assert_int_equal(compute_parameter_at(graph, 0).id, p.id);
  assert_int_equal(compute_parameter_at(graph, 1).id, q.id);
  assert_false(compute_node_is_valid(compute_parameter_at(graph, 2)));
  assert_false(compute_node_is_valid(compute_parameter_at(NULL, 0)));
}

static void constants_are_copied_and_full_ones_take_one_element(void **state) {
  (void)state;
  float values[] = {1, 2, 3};
  compute_node c = compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(3), values);
  values[1] = 9;
  const float *copy = stored(c)->constant;
  assert_true(copy[1] == 2.0f);
  assert_false(stored(c)->uniform);
  compute_node full = compute_full(graph, COMPUTE_I32, COMPUTE_SHAPE(1 << 20, 1 << 20), -7);
  expect(full, COMPUTE_I32, COMPUTE_SHAPE(1 << 20, 1 << 20));
  assert_true(stored(full)->uniform);
  assert_int_equal(*(const int32_t *)stored(full)->constant, -7);
  expect(compute_scalar(graph, COMPUTE_F16, 0.5), COMPUTE_F16, COMPUTE_SCALAR);
  expect_f32(compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(0, 3), NULL), COMPUTE_SHAPE(0, 3));
}

static void bool_constants_are_zero_or_one(void **state) {
  (void)state;
  const unsigned char values[] = {0, 2, 255};
  compute_node c = compute_constant(graph, COMPUTE_BOOL, COMPUTE_SHAPE(3), values);
  const unsigned char expected[] = {0, 1, 1};
  assert_memory_equal(stored(c)->constant, expected, sizeof expected);
}

static void index_and_random_have_the_shape_asked_for(void **state) {
  (void)state;
  compute_node i = compute_index(graph, COMPUTE_I32, COMPUTE_SHAPE(2, 5), -1);
  expect(i, COMPUTE_I32, COMPUTE_SHAPE(2, 5));
  assert_int_equal(stored(i)->attributes.axis, 1);
  compute_node seed = compute_scalar(graph, COMPUTE_I64, 3);
  compute_node r = compute_random_uniform(graph, COMPUTE_BF16, COMPUTE_SHAPE(4), seed, 12);
  expect(r, COMPUTE_BF16, COMPUTE_SHAPE(4));
  assert_int_equal(stored(r)->attributes.stream, 12);
  assert_int_equal(stored(r)->inputs[0], seed.id - 1);
}

/* ---- Elementwise --------------------------------------------------------------------------- */

static void elementwise_operands_broadcast_without_nodes_of_their_own(void **state) {
  (void)state;
  compute_node a = input(COMPUTE_SHAPE(3, 1)), b = input(COMPUTE_SHAPE(2, 1, 4));
  const size_t before = graph->count;
  compute_node y = compute_add(graph, a, b);
  expect_f32(y, COMPUTE_SHAPE(2, 3, 4));
  assert_int_equal(graph->count, before + 1);
  expect_f32(compute_mul(graph, a, compute_scalar(graph, COMPUTE_F32, 2)), COMPUTE_SHAPE(3, 1));
  expect_f32(compute_mul(graph, input(COMPUTE_SHAPE(0, 3)), input(COMPUTE_SHAPE(1, 3))),
             COMPUTE_SHAPE(0, 3));
}

static void comparisons_give_bool_and_others_keep_the_dtype(void **state) {
  (void)state;
  compute_node i = integers(COMPUTE_SHAPE(3)), x = input(COMPUTE_SHAPE(3));
  compute_node less = compute_less(graph, i, i);
  expect(less, COMPUTE_BOOL, COMPUTE_SHAPE(3));
  expect(compute_equal(graph, less, less), COMPUTE_BOOL, COMPUTE_SHAPE(3));
  expect(compute_is_nan(graph, x), COMPUTE_BOOL, COMPUTE_SHAPE(3));
  expect(compute_logical_xor(graph, less, less), COMPUTE_BOOL, COMPUTE_SHAPE(3));
  expect(compute_abs(graph, i), COMPUTE_I64, COMPUTE_SHAPE(3));
  expect(compute_select(graph, less, i, compute_scalar(graph, COMPUTE_I64, 0)), COMPUTE_I64,
         COMPUTE_SHAPE(3));
  expect(compute_cast(graph, x, COMPUTE_U8), COMPUTE_U8, COMPUTE_SHAPE(3));
}

static void select_broadcasts_its_condition(void **state) {
  (void)state;
  compute_node condition = compute_input(graph, COMPUTE_BOOL, COMPUTE_SHAPE(2, 1));
  expect_f32(compute_select(graph, condition, input(COMPUTE_SHAPE(3)), input(COMPUTE_SCALAR)),
             COMPUTE_SHAPE(2, 3));
}

static void attributes_of_scaled_operations_are_kept(void **state) {
  (void)state;
  compute_node x = input(COMPUTE_SHAPE(3));
  assert_true(stored(compute_leaky_relu(graph, x, 0.25))->attributes.scalar == 0.25);
  assert_true(stored(compute_elu(graph, x, 1.5))->attributes.scalar == 1.5);
  assert_true(stored(compute_normalize(graph, x, 1e-5))->attributes.scalar == 1e-5);
}

static void clamp_takes_the_integers_inside_its_limits(void **state) {
  (void)state;
  compute_node y = compute_clamp(graph, integers(COMPUTE_SHAPE(3)), 0.5, 2.5);
  expect(y, COMPUTE_I64, COMPUTE_SHAPE(3));
  const graph_node *upper = &graph->nodes[stored(y)->inputs[1]];
  const graph_node *raised = &graph->nodes[stored(y)->inputs[0]];
  assert_int_equal(*(const int64_t *)upper->constant, 2);
  assert_int_equal(*(const int64_t *)graph->nodes[raised->inputs[1]].constant, 1);
}

/* ---- Shape --------------------------------------------------------------------------------- */

static void transpose_reorders_or_reverses(void **state) {
  (void)state;
  compute_node x = input(COMPUTE_SHAPE(2, 3, 4));
  compute_node y = compute_transpose(graph, x, COMPUTE_AXES(2, -3, 1));
  expect_f32(y, COMPUTE_SHAPE(4, 2, 3));
  assert_int_equal(stored(y)->attributes.order[1], 0);
  expect_f32(compute_transpose(graph, x, COMPUTE_ALL_AXES), COMPUTE_SHAPE(4, 3, 2));
  expect_f32(compute_transpose(graph, input(COMPUTE_SCALAR), COMPUTE_ALL_AXES), COMPUTE_SCALAR);
}

static void reshape_works_one_size_out(void **state) {
  (void)state;
  compute_node x = input(COMPUTE_SHAPE(2, 3, 4));
  expect_f32(compute_reshape(graph, x, COMPUTE_SHAPE(6, -1)), COMPUTE_SHAPE(6, 4));
  expect_f32(compute_reshape(graph, x, COMPUTE_SHAPE(24)), COMPUTE_SHAPE(24));
  expect_f32(compute_reshape(graph, input(COMPUTE_SCALAR), COMPUTE_SHAPE(1, -1)),
             COMPUTE_SHAPE(1, 1));
  expect_f32(compute_reshape(graph, input(COMPUTE_SHAPE(0, 3)), COMPUTE_SHAPE(3, -1)),
             COMPUTE_SHAPE(3, 0));
  expect_f32(compute_reshape(graph, input(COMPUTE_SHAPE(1, 1)), COMPUTE_SCALAR), COMPUTE_SCALAR);
}

static void slices_and_embeds_count_from_either_end(void **state) {
  (void)state;
  compute_node x = input(COMPUTE_SHAPE(2, 9));
  compute_node y = compute_slice(graph, x, -1, 1, 3, 3);
  expect_f32(y, COMPUTE_SHAPE(2, 3));
  assert_int_equal(stored(y)->attributes.axis, 1);
  assert_int_equal(stored(compute_slice(graph, x, 1, -2, 2, 1))->attributes.start, 7);
  expect_f32(compute_slice(graph, x, 1, 9, 0, 1), COMPUTE_SHAPE(2, 0));
  expect_f32(compute_slice(graph, x, 1, 8, 1, INT64_MAX), COMPUTE_SHAPE(2, 1));
  compute_node z = compute_embed(graph, y, 1, 9, 1, 3);
  expect_f32(z, COMPUTE_SHAPE(2, 9));
  assert_int_equal(stored(z)->attributes.step, 3);
  expect_f32(compute_embed(graph, input(COMPUTE_SHAPE(0)), 0, 5, 0, 1), COMPUTE_SHAPE(5));
}

static void broadcast_and_concat(void **state) {
  (void)state;
  expect_f32(compute_broadcast(graph, input(COMPUTE_SHAPE(3, 1)), COMPUTE_SHAPE(2, 3, 4)),
             COMPUTE_SHAPE(2, 3, 4));
  expect_f32(compute_broadcast(graph, input(COMPUTE_SHAPE(1)), COMPUTE_SHAPE(0)), COMPUTE_SHAPE(0));
  const compute_node parts[] = {input(COMPUTE_SHAPE(2, 3)), input(COMPUTE_SHAPE(2, 0)),
                                input(COMPUTE_SHAPE(2, 5))};
  compute_node y = compute_concat(graph, parts, 3, -1);
  expect_f32(y, COMPUTE_SHAPE(2, 8));
  assert_int_equal(stored(y)->input_count, 3);
  expect_f32(compute_concat(graph, parts, 1, 0), COMPUTE_SHAPE(2, 3));
}

/* ---- Products, reductions, rows ------------------------------------------------------------ */

static void matmul_follows_numpy(void **state) {
  (void)state;
  const struct {
    compute_shape a, b, y;
  } cases[] = {
      {COMPUTE_SHAPE(2, 3), COMPUTE_SHAPE(3, 4), COMPUTE_SHAPE(2, 4)},
      {COMPUTE_SHAPE(3), COMPUTE_SHAPE(3, 4), COMPUTE_SHAPE(4)},
      {COMPUTE_SHAPE(2, 3), COMPUTE_SHAPE(3), COMPUTE_SHAPE(2)},
      {COMPUTE_SHAPE(3), COMPUTE_SHAPE(3), COMPUTE_SCALAR},
      {COMPUTE_SHAPE(5, 1, 2, 3), COMPUTE_SHAPE(7, 3, 4), COMPUTE_SHAPE(5, 7, 2, 4)},
      {COMPUTE_SHAPE(5, 2, 3), COMPUTE_SHAPE(3), COMPUTE_SHAPE(5, 2)},
      {COMPUTE_SHAPE(3), COMPUTE_SHAPE(5, 3, 4), COMPUTE_SHAPE(5, 4)},
      {COMPUTE_SHAPE(2, 0), COMPUTE_SHAPE(0, 4), COMPUTE_SHAPE(2, 4)},
      {COMPUTE_SHAPE(0, 3), COMPUTE_SHAPE(3, 4), COMPUTE_SHAPE(0, 4)},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    expect_f32(compute_matmul(graph, input(cases[i].a), input(cases[i].b)), cases[i].y);
  }
  for (size_t i = 0; i < graph->count; i++) {
    const graph_node *node = &graph->nodes[i];
    if (node->op != OP_matmul) continue;
    assert_true(graph->nodes[node->inputs[0]].shape.rank >= 2);
    assert_true(graph->nodes[node->inputs[1]].shape.rank >= 2);
  }
  expect(compute_matmul(graph, integers(COMPUTE_SHAPE(2, 3)), integers(COMPUTE_SHAPE(3, 1))),
         COMPUTE_I64, COMPUTE_SHAPE(2, 1));
}

static void reductions_drop_or_keep_axes(void **state) {
  (void)state;
  compute_node x = input(COMPUTE_SHAPE(2, 3, 4));
  compute_node y = compute_sum(graph, x, COMPUTE_AXES(-1, 0), false);
  expect_f32(y, COMPUTE_SHAPE(3));
  assert_int_equal(stored(y)->attributes.axes_mask, 5);
  expect_f32(compute_mean(graph, x, COMPUTE_AXES(1), true), COMPUTE_SHAPE(2, 1, 4));
  expect_f32(compute_prod(graph, x, COMPUTE_ALL_AXES, false), COMPUTE_SCALAR);
  expect_f32(compute_max(graph, x, COMPUTE_ALL_AXES, true), COMPUTE_SHAPE(1, 1, 1));
  expect_f32(compute_min(graph, input(COMPUTE_SCALAR), COMPUTE_ALL_AXES, false), COMPUTE_SCALAR);
  expect(compute_argmax(graph, x, -1, false), COMPUTE_I64, COMPUTE_SHAPE(2, 3));
  y = compute_argmin(graph, x, 1, true);
  expect(y, COMPUTE_I64, COMPUTE_SHAPE(2, 1, 4));
  assert_int_equal(stored(y)->attributes.axis, 1);
  assert_int_equal(stored(y)->attributes.axes_mask, 2);
}

static void reductions_of_nothing_are_allowed_where_they_have_a_value(void **state) {
  (void)state;
  compute_node x = input(COMPUTE_SHAPE(0, 3));
  expect_f32(compute_sum(graph, x, COMPUTE_AXES(0), false), COMPUTE_SHAPE(3));
  expect_f32(compute_mean(graph, x, COMPUTE_ALL_AXES, false), COMPUTE_SCALAR);
  expect_f32(compute_max(graph, x, COMPUTE_AXES(1), false), COMPUTE_SHAPE(0));
  expect_f32(compute_max(graph, input(COMPUTE_SHAPE(0, 0)), COMPUTE_AXES(1), false),
             COMPUTE_SHAPE(0));
}

static void row_operations_keep_the_shape(void **state) {
  (void)state;
  compute_node x = input(COMPUTE_SHAPE(2, 3));
  assert_int_equal(stored(compute_softmax(graph, x, -2))->attributes.axis, 0);
  expect_f32(compute_log_softmax(graph, x, 1), COMPUTE_SHAPE(2, 3));
  compute_node y = compute_normalize(graph, x, 0);
  assert_int_equal(stored(y)->attributes.axis, 1);
  expect_f32(compute_layer_norm(graph, x, input(COMPUTE_SHAPE(3)), (compute_node){0}, 1e-5),
             COMPUTE_SHAPE(2, 3));
  y = compute_layer_norm(graph, x, (compute_node){0}, (compute_node){0}, 1e-5);
  assert_int_equal(stored(y)->op, OP_normalize);
}

/* ---- Indexing, losses, state --------------------------------------------------------------- */

static void gather_and_scatter_undo_each_others_shapes(void **state) {
  (void)state;
  compute_node x = input(COMPUTE_SHAPE(2, 5, 3)), i = integers(COMPUTE_SHAPE(4, 6));
  compute_node y = compute_gather(graph, x, i, -2);
  expect_f32(y, COMPUTE_SHAPE(2, 4, 6, 3));
  assert_int_equal(stored(y)->attributes.axis, 1);
  compute_node z = compute_scatter_add(graph, y, i, 1, 5);
  expect_f32(z, COMPUTE_SHAPE(2, 5, 3));
  expect_f32(compute_scatter_add(graph, y, i, -2, 5), COMPUTE_SHAPE(2, 5, 3));
  expect_f32(compute_gather(graph, x, integers(COMPUTE_SCALAR), 0), COMPUTE_SHAPE(5, 3));
  expect_f32(compute_scatter_add(graph, input(COMPUTE_SHAPE(5, 3)), integers(COMPUTE_SCALAR), 0, 2),
             COMPUTE_SHAPE(2, 5, 3));

  compute_node j = integers(COMPUTE_SHAPE(2, 9, 1));
  y = compute_gather_elements(graph, x, j, 1);
  expect_f32(y, COMPUTE_SHAPE(2, 9, 1));
  expect_f32(compute_scatter_add_elements(graph, y, j, 1, COMPUTE_SHAPE(2, 5, 3)),
             COMPUTE_SHAPE(2, 5, 3));
}

static void losses_are_scalars(void **state) {
  (void)state;
  expect_f32(compute_cross_entropy(graph, input(COMPUTE_SHAPE(8, 10)), integers(COMPUTE_SHAPE(8))),
             COMPUTE_SCALAR);
  expect_f32(
      compute_mean_squared_error(graph, input(COMPUTE_SHAPE(8, 1)), input(COMPUTE_SHAPE(1, 3))),
      COMPUTE_SCALAR);
}

static void assignments_and_groups_have_no_value(void **state) {
  (void)state;
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2), NULL);
  compute_tensor *other = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2), NULL);
  compute_node p = compute_parameter(graph, tensor), q = compute_parameter(graph, other);
  compute_tensor_release(tensor);
  compute_tensor_release(other);
  compute_node a = compute_assign(graph, p, compute_neg(graph, p));
  assert_int_equal(compute_node_dtype(graph, a), COMPUTE_DTYPE_NONE);
  assert_int_equal(stored(a)->inputs[0], p.id - 1);
  compute_node inner = compute_group(graph, &a, 1);
  const compute_node both[] = {inner, compute_assign(graph, q, p)};
  compute_node outer = compute_group(graph, both, 2);
  assert_int_equal(stored(outer)->input_count, 2);
  assert_int_equal(compute_node_dtype(graph, outer), COMPUTE_DTYPE_NONE);
}

static void the_table_of_operations_can_be_read(void **state) {
  (void)state;
  compute_operation_info info;
  size_t count = 0;
  bool add = false, argmax = false;
  for (; compute_operation_at(count, &info) == COMPUTE_OK; count++) {
    assert_true(strlen(info.name) > 0 && strlen(info.text) > 0 && strlen(info.category) > 0);
    if (!strcmp(info.name, "add")) {
      add = true;
      assert_string_equal(info.category, "elementwise");
      assert_string_equal(info.domain, "number");
      assert_true(info.differentiable);
    }
    if (!strcmp(info.name, "argmax")) {
      argmax = true;
      assert_string_equal(info.category, "reduction");
      assert_false(info.differentiable);
    }
  }
  assert_true(add && argmax);
  assert_int_equal(count, OP_COUNT - 1);
  assert_fails(compute_operation_at(count, &info), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_operation_at(0, NULL), COMPUTE_ERROR_NULL_POINTER);
}

#define GRAPH_TEST(test) cmocka_unit_test_setup_teardown(test, create_graph, release_graph)

int main(void) {
  const struct CMUnitTest tests[] = {
      GRAPH_TEST(nodes_are_stored_in_order_with_normalised_shapes),
      GRAPH_TEST(the_invalid_node_has_no_shape_and_no_dtype),
      GRAPH_TEST(a_name_can_be_given_and_replaced),
      GRAPH_TEST(parameters_keep_their_tensor_and_are_found_in_order),
      GRAPH_TEST(constants_are_copied_and_full_ones_take_one_element),
      GRAPH_TEST(bool_constants_are_zero_or_one),
      GRAPH_TEST(index_and_random_have_the_shape_asked_for),
      GRAPH_TEST(elementwise_operands_broadcast_without_nodes_of_their_own),
      GRAPH_TEST(comparisons_give_bool_and_others_keep_the_dtype),
      GRAPH_TEST(select_broadcasts_its_condition),
      GRAPH_TEST(attributes_of_scaled_operations_are_kept),
      GRAPH_TEST(clamp_takes_the_integers_inside_its_limits),
      GRAPH_TEST(transpose_reorders_or_reverses),
      GRAPH_TEST(reshape_works_one_size_out),
      GRAPH_TEST(slices_and_embeds_count_from_either_end),
      GRAPH_TEST(broadcast_and_concat),
      GRAPH_TEST(matmul_follows_numpy),
      GRAPH_TEST(reductions_drop_or_keep_axes),
      GRAPH_TEST(reductions_of_nothing_are_allowed_where_they_have_a_value),
      GRAPH_TEST(row_operations_keep_the_shape),
      GRAPH_TEST(gather_and_scatter_undo_each_others_shapes),
      GRAPH_TEST(losses_are_scalars),
      GRAPH_TEST(assignments_and_groups_have_no_value),
      GRAPH_TEST(the_table_of_operations_can_be_read),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
