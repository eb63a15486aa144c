/* SPDX-License-Identifier: MIT */
/* Operations that move elements without arithmetic: transpose, reshape, slice, broadcast, concat,
 * embed, index. For every dtype and every memory layout, results must be exact. */
#include "support/harness/operation.h"
#include "support/harness/test.h"

typedef enum movement { TRANSPOSE, RESHAPE, SLICE, BROADCAST, CONCAT, EMBED, NEST } movement;

typedef struct movement_case {
  const char *name;
  movement kind;
  compute_shape from, to; /* `to`: result of RESHAPE and BROADCAST, second part of CONCAT */
  compute_axes order;
  int32_t axis;
  int64_t start, count, step; /* EMBED: count is the length of the result's axis */
} movement_case;

static const movement_case cases[] = {
    {"transpose", TRANSPOSE, SHAPE(7, 31), .order = {0}},
    {"transpose", TRANSPOSE, SHAPE(7, 13, 31), .order = AXES(0, 2, 1)},
    {"transpose", TRANSPOSE, SHAPE(7, 13, 31), .order = AXES(2, 0, 1)},
    {"transpose", TRANSPOSE, SHAPE(7, 13, 31), .order = AXES(-2, -3, -1)},
    {"transpose", TRANSPOSE, SHAPE(67, 129), .order = AXES(1, 0)},
    {"transpose", TRANSPOSE, SHAPE(2, 3, 2, 3, 2, 3, 2, 3), .order = AXES(7, 0, 5, 2, 3, 4, 1, 6)},
    {"transpose", TRANSPOSE, SCALAR, .order = {0}},
    {"transpose", TRANSPOSE, SHAPE(3, 0, 5), .order = {0}},
    {"reshape", RESHAPE, SHAPE(7, 13, 31), .to = SHAPE(91, 31)},
    {"reshape", RESHAPE, SHAPE(7, 13, 31), .to = SHAPE(31, 7, -1)},
    {"reshape", RESHAPE, SHAPE(1, 1), .to = SCALAR},
    {"reshape", RESHAPE, SCALAR, .to = SHAPE(1, 1, 1)},
    {"reshape", RESHAPE, SHAPE(0, 5), .to = SHAPE(3, 0)},
    {"slice", SLICE, SHAPE(7, 13, 31), .axis = 1, .start = 2, .count = 5, .step = 2},
    {"slice", SLICE, SHAPE(7, 13, 31), .axis = -1, .start = -3, .count = 3, .step = 1},
    {"slice", SLICE, SHAPE(7, 13, 31), .axis = 0, .start = 6, .count = 1, .step = 1},
    {"slice", SLICE, SHAPE(7, 13), .axis = 0, .start = 7, .count = 0, .step = 1},
    {"slice", SLICE, SHAPE(1000), .axis = 0, .start = 1, .count = 333, .step = 3},
    {"broadcast", BROADCAST, SHAPE(13, 1), .to = SHAPE(7, 13, 31)},
    {"broadcast", BROADCAST, SHAPE(31), .to = SHAPE(7, 13, 31)},
    {"broadcast", BROADCAST, SCALAR, .to = SHAPE(5, 3)},
    {"broadcast", BROADCAST, SHAPE(1), .to = SHAPE(0)},
    {"broadcast", BROADCAST, SHAPE(7, 1, 31), .to = SHAPE(7, 13, 31)},
    {"concat", CONCAT, SHAPE(7, 13, 31), .to = SHAPE(7, 5, 31), .axis = 1},
    {"concat", CONCAT, SHAPE(7, 13), .to = SHAPE(7, 1), .axis = -1},
    {"concat", CONCAT, SHAPE(7, 13), .to = SHAPE(11, 13), .axis = 0},
    {"concat", CONCAT, SHAPE(0, 13), .to = SHAPE(3, 13), .axis = 0},
    {"concat", CONCAT, SHAPE(0), .to = SHAPE(0), .axis = 0},
    {"embed", EMBED, SHAPE(7, 5, 31), .axis = 1, .start = 2, .count = 13, .step = 2},
    {"embed", EMBED, SHAPE(7, 5), .axis = -1, .start = 0, .count = 5, .step = 1},
    {"embed", EMBED, SHAPE(5, 3), .axis = 0, .start = 4, .count = 9, .step = 1},
    {"embed", EMBED, SHAPE(0, 3), .axis = 0, .start = 0, .count = 4, .step = 1},
    {"view of a view", NEST, SHAPE(7, 13, 32), .axis = 0, .start = 1, .count = 5, .step = 1},
};

/* slice → transpose → reshape (which cannot be a view) → broadcast. */
static compute_node build_nest(compute_graph *graph, compute_node x, const movement_case *c) {
  compute_node y = compute_slice(graph, x, c->axis, c->start, c->count, c->step);
  y = compute_transpose(graph, y, COMPUTE_AXES(2, 0, 1));
  y = compute_reshape(graph, y, COMPUTE_SHAPE(8, 1, -1));
  y = compute_slice(graph, y, 2, 3, 50, 2);
  return compute_broadcast(graph, y, COMPUTE_SHAPE(8, 3, 50));
}

static compute_node build_movement(compute_graph *graph, const compute_node *operands,
                                   const void *user) {
  const movement_case *c = user;
  const compute_node parts[3] = {operands[0], operands[1], operands[0]};
  switch (c->kind) {
  case TRANSPOSE: return compute_transpose(graph, operands[0], c->order);
  case RESHAPE: return compute_reshape(graph, operands[0], c->to);
  case SLICE: return compute_slice(graph, operands[0], c->axis, c->start, c->count, c->step);
  case BROADCAST: return compute_broadcast(graph, operands[0], c->to);
  case CONCAT: return compute_concat(graph, parts, 3, c->axis);
  case EMBED: return compute_embed(graph, operands[0], c->axis, c->count, c->start, c->step);
  case NEST: break;
  }
  return build_nest(graph, operands[0], c);
}

static void check_movements(guarded_layout operand, guarded_layout result) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (const compute_dtype *dtype = operation_dtypes("any"); *dtype; dtype++) {
      operation_case sample = {.name = cases[i].name,
                               .build = build_movement,
                               .user = &cases[i],
                               .operand_count = cases[i].kind == CONCAT ? 2 : 1,
                               .result_layout = result,
                               .operation = cases[i].kind == NEST ? NULL : cases[i].name};
      sample.operand[0] =
          (operation_operand){*dtype, cases[i].from, FILL_SPECIAL, -100, 100, operand};
      sample.operand[1] =
          (operation_operand){*dtype, cases[i].to, FILL_SPECIAL, -100, 100, operand};
      operation_check(test_context, &sample);
    }
  }
  operation_finish();
}

static void dense_elements_arrive_where_they_should(void **state) {
  (void)state;
  check_movements(LAYOUT_DENSE, LAYOUT_DENSE);
}

static void strided_operands_are_read_through_their_strides(void **state) {
  (void)state;
  check_movements(LAYOUT_STEPPED, LAYOUT_PADDED);
  check_movements(LAYOUT_TRANSPOSED, LAYOUT_DENSE);
}

static void strided_results_are_written_through_their_strides(void **state) {
  (void)state;
  check_movements(LAYOUT_WRAPPED, LAYOUT_TRANSPOSED);
  check_movements(LAYOUT_PADDED, LAYOUT_STEPPED);
}

/* index has no operand: x − x + index gives the harness one. */
static compute_node build_index(compute_graph *graph, const compute_node *operands,
                                const void *user) {
  const int32_t *axis = user;
  const compute_shape shape = compute_node_shape(graph, operands[0]);
  const compute_dtype dtype = compute_node_dtype(graph, operands[0]);
  return compute_add(graph, operands[0], compute_index(graph, dtype, shape, *axis));
}

static void index_counts_along_its_axis(void **state) {
  (void)state;
  for (int32_t axis = -3; axis < 3; axis++) {
    for (const compute_dtype *dtype = operation_dtypes("number"); *dtype; dtype++) {
      operation_case sample = {.name = "index",
                               .build = build_index,
                               .user = &axis,
                               .operand_count = 1,
                               .tolerance = operation_tolerance(*dtype, 1),
                               .operation = "index"};
      sample.operand[0] =
          (operation_operand){*dtype, SHAPE(7, 13, 31), FILL_RANGE, 0, 8, LAYOUT_DENSE};
      operation_check(test_context, &sample);
    }
  }
  operation_finish();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dense_elements_arrive_where_they_should),
      cmocka_unit_test(strided_operands_are_read_through_their_strides),
      cmocka_unit_test(strided_results_are_written_through_their_strides),
      cmocka_unit_test(index_counts_along_its_axis),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
