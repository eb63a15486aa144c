/* SPDX-License-Identifier: MIT */
/* A graph stores a caller's values exactly, or refuses them. Also the rules for lists of axes,
 * ranges and indices. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "compute/graph_nn.h"
#include "support/harness/test.h"

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

static void renew(void) {
  compute_graph_release(graph);
  graph = compute_graph_create(test_context);
  assert_non_null(graph);
}

/* Compiles and runs a graph of the node with these inputs, and reads its result. */
static void evaluate(compute_node y, const compute_binding *inputs, size_t count, void *result,
                     size_t bytes) {
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *output;
  compute_binding bindings[4];
  assert_ok(compute_plan_create_tensor(plan, y, &output));
  bindings[0] = (compute_binding){y, output};
  for (size_t i = 0; i < count; i++) bindings[1 + i] = inputs[i];
  assert_ok(compute_run(plan, bindings, 1 + count, NULL));
  assert_ok(compute_tensor_read(output, result, bytes));
  compute_tensor_release(output);
  compute_plan_release(plan);
}

#define EVALUATE(y, result)               evaluate(y, NULL, 0, result, sizeof(result))
#define EVALUATE_WITH(y, x, data, result) evaluate_with(y, x, data, result, sizeof(result))

static void evaluate_with(compute_node y, compute_node x, const void *data, void *result,
                          size_t bytes) {
  compute_tensor *tensor =
      test_tensor(test_context, compute_node_dtype(graph, x), compute_node_shape(graph, x), data);
  evaluate(y, &(compute_binding){x, tensor}, 1, result, bytes);
  compute_tensor_release(tensor);
}

/* ---- Integers, exactly --------------------------------------------------------------------- */

static const int64_t exact[] = {
    INT64_MIN,     INT64_MIN + 1, -((INT64_C(1) << 53) + 1), -1, 0, 1, (INT64_C(1) << 53) + 1,
    INT64_MAX - 1, INT64_MAX};
enum { EXACT = sizeof exact / sizeof *exact };

static void every_i64_arrives(void **state) {
  (void)state;
  for (int i = 0; i < EXACT; i++) {
    int64_t scalar[1], full[3], sum[2], padded[4];
    const int64_t zeros[2] = {0, 0};
    renew();
    const compute_node x = compute_input(graph, COMPUTE_I64, COMPUTE_SHAPE(2));
    EVALUATE(compute_scalar_i64(graph, COMPUTE_I64, exact[i]), scalar);
    EVALUATE(compute_full_i64(graph, COMPUTE_I64, COMPUTE_SHAPE(3), exact[i]), full);
    EVALUATE_WITH(compute_add(graph, x, compute_scalar_i64(graph, COMPUTE_I64, exact[i])), x, zeros,
                  sum);
    EVALUATE_WITH(compute_pad_i64(graph, x, 0, 1, 1, COMPUTE_PAD_CONSTANT, exact[i]), x, zeros,
                  padded);
    assert_true(scalar[0] == exact[i]);
    for (int k = 0; k < 3; k++) assert_true(full[k] == exact[i]);
    for (int k = 0; k < 2; k++) assert_true(sum[k] == exact[i]);
    assert_true(padded[0] == exact[i] && padded[3] == exact[i] && padded[1] == 0 && padded[2] == 0);
    compute_tensor *tensor;
    assert_ok(compute_tensor_full_i64(compute_default_device(test_context), COMPUTE_I64,
                                      COMPUTE_SHAPE(3), exact[i], &tensor));
    assert_ok(compute_tensor_read(tensor, full, sizeof full));
    for (int k = 0; k < 3; k++) assert_true(full[k] == exact[i]);
    compute_tensor_release(tensor);
  }
}

static void limits_of_clamp_are_exact(void **state) {
  (void)state;
  const int64_t low = -((INT64_C(1) << 53) + 1), high = (INT64_C(1) << 60) + 1;
  const int64_t values[] = {INT64_MIN, low - 1, low, low + 1, 0, high - 1, high, high + 1};
  const int64_t expected[] = {low, low, low, low + 1, 0, high - 1, high, high};
  int64_t found[8];
  const compute_node x = compute_input(graph, COMPUTE_I64, COMPUTE_SHAPE(8));
  EVALUATE_WITH(compute_clamp_i64(graph, x, low, high), x, values, found);
  assert_memory_equal(found, expected, sizeof found);
  EVALUATE_WITH(compute_clamp_i64(graph, x, INT64_MIN, INT64_MAX), x, values, found);
  assert_memory_equal(found, values, sizeof found);
  EVALUATE_WITH(compute_clamp(graph, x, -INFINITY, 1e300), x, values, found);
  assert_memory_equal(found, values, sizeof found);

  compute_tensor *t = test_tensor(test_context, COMPUTE_I64, COMPUTE_SHAPE(8), values), *y;
  assert_ok(compute_tensor_clamp_i64(t, low, high, &y));
  assert_ok(compute_tensor_read(y, found, sizeof found));
  assert_memory_equal(found, expected, sizeof found);
  compute_tensor_release(y);
  compute_tensor_release(t);
}

static void limits_beyond_the_dtype_do_not_limit(void **state) {
  (void)state;
  const uint8_t bytes[] = {0, 1, 200, 255};
  const float floats[] = {-INFINITY, -FLT_MAX, 0, INFINITY};
  uint8_t byte[4];
  float number[4];
  const compute_node u = compute_input(graph, COMPUTE_U8, COMPUTE_SHAPE(4));
  const compute_node f = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(4));
  EVALUATE_WITH(compute_clamp(graph, u, -5, 1000), u, bytes, byte);
  assert_memory_equal(byte, bytes, sizeof byte);
  EVALUATE_WITH(compute_clamp_i64(graph, u, INT64_MIN, 1), u, bytes, byte);
  assert_memory_equal(byte, ((uint8_t[]){0, 1, 1, 1}), sizeof byte);
  EVALUATE_WITH(compute_clamp(graph, f, -1e300, 1e300), f, floats, number);
  assert_memory_equal(number, floats, sizeof number);
  assert_ok(compute_graph_status(graph));
}

/* ---- Refused values ------------------------------------------------------------------------ */

typedef struct held_row {
  compute_dtype dtype;
  double held[6], refused[8]; /* lists, ended by 12345 */
} held_row;

#define END 12345

static const held_row held_rows[] = {
    {COMPUTE_F64, {(double)NAN, INFINITY, DBL_MAX, 5e-324, 0.1, END}, {END}},
    {COMPUTE_F32,
     {(double)NAN, -INFINITY, (double)FLT_MAX, 1e-60, 0.1, END},
     {1e39, -DBL_MAX, END}},
    {COMPUTE_F16, {(double)NAN, INFINITY, 65519, -65519, 1e-9, END}, {65520, -65520, 1e6, END}},
    {COMPUTE_BF16, {(double)NAN, INFINITY, 3.38e38, 0.1, END}, {3.4e38, -1e39, END}},
    {COMPUTE_I64,
     {-0x1p63, 0x1p53, 0x1.fffffffffffffp62, -0.0, END},
     {0x1p63, -0x1.0000000000001p63, 0.5, (double)NAN, INFINITY, -INFINITY, END}},
    {COMPUTE_I32,
     {INT32_MIN, INT32_MAX, -1, END},
     {-2147483649., 2147483648., 2147483647.5, -7.9, (double)NAN, INFINITY, END}},
    {COMPUTE_U16, {0, 65535, END}, {-1, 65536, 1e-300, (double)NAN, END}},
    {COMPUTE_I8, {-128, 127, END}, {-129, 128, 0.5, (double)NAN, END}},
    {COMPUTE_I16, {-32768, 32767, END}, {-32769, 32768, 0.5, (double)NAN, END}},
    {COMPUTE_U32, {0, 4294967295, END}, {-1, 4294967296, 0.5, (double)NAN, END}},
    {COMPUTE_U64, {0, 0x1p63, 0x1.fffffffffffffp63, END}, {-1, 0x1p64, 0.5, (double)NAN, END}},
    {COMPUTE_U8, {0, 255, END}, {-1, 256, 255.5, -0x1p-1074, (double)NAN, -INFINITY, END}},
    {COMPUTE_BOOL, {0, 1, -0.0, END}, {2, -1, 0.5, (double)NAN, END}},
};

static void check_full(compute_dtype dtype, double value, bool held) {
  compute_tensor *tensor = NULL;
  const compute_shape shape = COMPUTE_SHAPE(3);
  for (int form = 0; form < 3; form++) {
    renew();
    const compute_node x = compute_input(graph, dtype, shape);
    const compute_node y = form == 0 ? compute_scalar(graph, dtype, value)
                           : form == 1
                               ? compute_full(graph, dtype, shape, value)
                               : compute_pad(graph, x, 0, 1, 0, COMPUTE_PAD_CONSTANT, value);
    assert_int_equal(compute_node_is_valid(y), held);
    if (held) continue;
    assert_fails(compute_graph_status(graph), COMPUTE_ERROR_INVALID_ARGUMENT);
    test_check_message(test_context, "value is ");
    test_check_message(test_context, compute_dtype_name(dtype));
  }
  const compute_status status =
      compute_tensor_full(compute_default_device(test_context), dtype, shape, value, &tensor);
  assert_int_equal(status, held ? COMPUTE_OK : COMPUTE_ERROR_INVALID_ARGUMENT);
  compute_tensor_release(tensor);
}

static void a_value_that_the_dtype_cannot_hold_is_refused(void **state) {
  (void)state;
  for (size_t r = 0; r < sizeof held_rows / sizeof *held_rows; r++) {
    const held_row *row = &held_rows[r];
    for (int i = 0; row->held[i] != END; i++) check_full(row->dtype, row->held[i], true);
    for (int i = 0; row->refused[i] != END; i++) check_full(row->dtype, row->refused[i], false);
  }
}

static void an_integer_is_held_exactly_or_refused(void **state) {
  (void)state;
  static const struct {
    compute_dtype dtype;
    int64_t value;
    bool held;
  } rows[] = {{COMPUTE_F64, INT64_C(1) << 53, true},
              {COMPUTE_F64, (INT64_C(1) << 53) + 1, false},
              {COMPUTE_F64, INT64_MIN, true},
              {COMPUTE_F64, INT64_MAX, false},
              {COMPUTE_F32, (1 << 24) + 2, true},
              {COMPUTE_F32, (1 << 24) + 1, false},
              {COMPUTE_F16, 2048, true},
              {COMPUTE_F16, 2049, false},
              {COMPUTE_F16, 65504, true},
              {COMPUTE_F16, 65536, false},
              {COMPUTE_F16, INT64_MAX, false},
              {COMPUTE_BF16, 257, false},
              {COMPUTE_BF16, INT64_MIN, true},
              {COMPUTE_I32, INT32_MIN, true},
              {COMPUTE_I32, (int64_t)INT32_MIN - 1, false},
              {COMPUTE_U16, 65535, true},
              {COMPUTE_U16, 65536, false},
              {COMPUTE_I8, -128, true},
              {COMPUTE_I8, 128, false},
              {COMPUTE_I16, -32769, false},
              {COMPUTE_U32, 4294967295, true},
              {COMPUTE_U32, 4294967296, false},
              {COMPUTE_U64, INT64_MAX, true},
              {COMPUTE_U64, -1, false},
              {COMPUTE_U8, 255, true},
              {COMPUTE_U8, -1, false},
              {COMPUTE_U8, 256, false},
              {COMPUTE_BOOL, 1, true},
              {COMPUTE_BOOL, 2, false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    compute_tensor *tensor = NULL;
    renew();
    assert_int_equal(compute_node_is_valid(compute_scalar_i64(graph, rows[i].dtype, rows[i].value)),
                     rows[i].held);
    if (!rows[i].held) {
      assert_fails(compute_graph_status(graph), COMPUTE_ERROR_INVALID_ARGUMENT);
      test_check_message(test_context, "scalar_i64: value is ");
    }
    assert_int_equal(compute_tensor_full_i64(compute_default_device(test_context), rows[i].dtype,
                                             COMPUTE_SHAPE(2), rows[i].value, &tensor),
                     rows[i].held ? COMPUTE_OK : COMPUTE_ERROR_INVALID_ARGUMENT);
    compute_tensor_release(tensor);
  }
}

/* The call must fail with this status and message. The next call gets a new graph. */
#define REFUSED(status, message, call)                                                             \
  do {                                                                                             \
    renew();                                                                                       \
    assert_false(compute_node_is_valid(call));                                                     \
    assert_fails(compute_graph_status(graph), status);                                             \
    test_check_message(test_context, message);                                                     \
  } while (0)
#define INPUT(dtype, ...) compute_input(graph, dtype, COMPUTE_SHAPE(__VA_ARGS__))

static void limits_without_a_value_between_are_refused(void **state) {
  (void)state;
  const compute_status invalid = COMPUTE_ERROR_INVALID_ARGUMENT;
  REFUSED(invalid, "clamp: no u8 value lies in 300 … 400",
          compute_clamp(graph, INPUT(COMPUTE_U8, 2), 300, 400));
  REFUSED(invalid, "clamp: no u8 value lies in -9 … -1",
          compute_clamp_i64(graph, INPUT(COMPUTE_U8, 2), -9, -1));
  REFUSED(invalid, "clamp: no i64 value lies in 9.22337e+18 … inf",
          compute_clamp(graph, INPUT(COMPUTE_I64, 2), 0x1p63, INFINITY));
  REFUSED(invalid, "clamp: no i64 value lies in 3 … 2",
          compute_clamp_i64(graph, INPUT(COMPUTE_I64, 2), 3, 2));
  REFUSED(invalid, "clamp: no f16 value lies in 70000 … 80000",
          compute_clamp(graph, INPUT(COMPUTE_F16, 2), 70000, 80000));
  REFUSED(invalid, "clamp: no i32 value lies in nan … 1",
          compute_clamp(graph, INPUT(COMPUTE_I32, 2), (double)NAN, 1));
  REFUSED(invalid, "clamp: low is 16777217, which f32 cannot hold exactly",
          compute_clamp_i64(graph, INPUT(COMPUTE_F32, 2), (1 << 24) + 1, INT64_MAX));
}

/* ---- Axes ---------------------------------------------------------------------------------- */

static void a_reduction_along_no_axes_is_its_operand(void **state) {
  (void)state;
  typedef compute_node reduction(compute_graph *, compute_node, compute_axes, bool);
  static reduction *const reductions[] = {compute_sum, compute_mean, compute_prod, compute_max,
                                          compute_min};
  static const float values[6] = {-0.0f, 1, -2, 3.5f, 1e38f, -7};
  float found[6];
  for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++) {
    for (int keep = 0; keep < 2; keep++) {
      renew();
      const compute_node x = INPUT(COMPUTE_F32, 2, 3);
      const compute_node y = reductions[i](graph, x, COMPUTE_NO_AXES, keep);
      assert_true(compute_shape_equal(compute_node_shape(graph, y), COMPUTE_SHAPE(2, 3)));
      EVALUATE_WITH(y, x, values, found);
      assert_memory_equal(found, values, sizeof found);

      /* Its gradient equals the operand's gradient. */
      compute_node gradient;
      const compute_node loss =
          compute_sum(graph, compute_square(graph, y), COMPUTE_ALL_AXES, false);
      assert_ok(compute_gradients(graph, loss, &x, 1, &gradient));
      EVALUATE_WITH(gradient, x, values, found);
      for (int k = 0; k < 6; k++) assert_true(found[k] == 2 * values[k]);
    }
  }
  /* The maximum of a tensor without elements along no axes has no elements, and is valid. */
  renew();
  assert_ok(compute_graph_status(graph));
  const compute_node none = compute_max(graph, INPUT(COMPUTE_F32, 0, 3), COMPUTE_NO_AXES, false);
  assert_true(compute_node_is_valid(none));
}

static void no_axes_are_neither_all_nor_a_mistake(void **state) {
  (void)state;
  static const float values[6] = {1, 2, 3, 4, 5, 6};
  float all[1], order[6];
  compute_tensor *t = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 3), values), *y;
  /* The eager calls cache plans by their attributes, so both lists are tested in turn. */
  for (int i = 0; i < 2; i++) {
    assert_ok(compute_tensor_sum(t, COMPUTE_ALL_AXES, false, &y));
    assert_ok(compute_tensor_read(y, all, sizeof all));
    assert_true(all[0] == 21);
    compute_tensor_release(y);
    assert_ok(compute_tensor_sum(t, COMPUTE_NO_AXES, false, &y));
    assert_ok(compute_tensor_read(y, order, sizeof order));
    assert_memory_equal(order, values, sizeof order);
    compute_tensor_release(y);
  }
  assert_ok(compute_tensor_transpose(t, COMPUTE_NO_AXES, &y));
  assert_true(compute_shape_equal(compute_tensor_shape(y), COMPUTE_SHAPE(2, 3)));
  compute_tensor_release(y);
  assert_ok(compute_tensor_transpose_view(t, COMPUTE_NO_AXES, &y));
  assert_true(compute_shape_equal(compute_tensor_shape(y), COMPUTE_SHAPE(2, 3)));
  compute_tensor_release(y);
  compute_tensor_release(t);
  REFUSED(COMPUTE_ERROR_SHAPE, "sum: a list of -1 axes; it may have 0 … 8, or be COMPUTE_NO_AXES",
          compute_sum(graph, INPUT(COMPUTE_F32, 2, 3), (compute_axes){.count = -1}, false));
  REFUSED(COMPUTE_ERROR_DTYPE, "mean: needs a float dtype",
          compute_mean(graph, INPUT(COMPUTE_I32, 2, 3), COMPUTE_NO_AXES, false));
}

/* ---- Ranges -------------------------------------------------------------------------------- */

static void a_range_lies_in_its_axis_and_may_be_empty_at_the_end(void **state) {
  (void)state;
  static const struct {
    int64_t start, count, step;
    compute_status status;
    const char *message;
  } rows[] = {
      {0, 5, 1, COMPUTE_OK, ""},
      {5, 0, 1, COMPUTE_OK, ""},
      {-5, 5, 1, COMPUTE_OK, ""},
      {-1, 1, INT64_MAX, COMPUTE_OK, ""},
      {-5, 0, 9, COMPUTE_OK, ""},
      {6, 0, 1, COMPUTE_ERROR_SHAPE, "start 6 is outside an axis of 5; it must be in -5 … 5"},
      {-6, 0, 1, COMPUTE_ERROR_SHAPE, "start -6 is outside an axis of 5; it must be in -5 … 5"},
      {INT64_MIN, 1, 1, COMPUTE_ERROR_SHAPE, "is outside an axis of 5"},
      {INT64_MAX, 0, 1, COMPUTE_ERROR_SHAPE, "is outside an axis of 5"},
      {5, 1, 1, COMPUTE_ERROR_SHAPE, "1 elements from 5 in steps of 1 do not fit an axis of 5"},
      {-2, 3, 1, COMPUTE_ERROR_SHAPE, "3 elements from -2 in steps of 1 do not fit an axis of 5"},
      {0, 2, INT64_MAX, COMPUTE_ERROR_SHAPE, "do not fit an axis of 5"},
      {0, 0, 0, COMPUTE_ERROR_INVALID_ARGUMENT, "count 0 and step 0"},
      {4, 2, -1, COMPUTE_ERROR_INVALID_ARGUMENT, "and step at least 1"},
      {0, -1, 1, COMPUTE_ERROR_INVALID_ARGUMENT, "count must be at least 0"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const int64_t start = rows[i].start, count = rows[i].count, step = rows[i].step;
    compute_tensor *t = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(5), NULL), *view;
    for (int form = 0; form < 3; form++) {
      compute_status status;
      renew();
      if (form == 0) {
        compute_slice(graph, INPUT(COMPUTE_F32, 5), 0, start, count, step);
        status = compute_graph_status(graph);
      } else if (form == 1 && count >= 0) {
        compute_embed(graph, INPUT(COMPUTE_F32, count), 0, 5, start, step);
        status = compute_graph_status(graph);
      } else {
        status = compute_tensor_slice_view(t, 0, start, count, step, &view);
        compute_tensor_release(view);
      }
      const bool is_view = form == 2 || (form == 1 && count < 0);
      assert_int_equal(status, is_view && rows[i].status ? COMPUTE_ERROR_SHAPE : rows[i].status);
      if (rows[i].status) test_check_message(test_context, rows[i].message);
    }
    compute_tensor_release(t);
  }
}

/* ---- Indices ------------------------------------------------------------------------------- */

/* −1 is the last index, −size the first. The gradients scatter by the same indices. */
static void negative_indices_count_from_the_end(void **state) {
  (void)state;
  static const float x[6] = {1, 2, 3, 4, 5, 6};
  static const int64_t places[4] = {-1, 0, -3, 2};
  float four[4], six[6];
  const compute_node data = INPUT(COMPUTE_F32, 2, 3), two = INPUT(COMPUTE_F32, 2, 2);
  const compute_node at = compute_constant(graph, COMPUTE_I64, COMPUTE_SHAPE(2, 2), places);
  const compute_node list = compute_constant(graph, COMPUTE_I64, COMPUTE_SHAPE(2), places);
  EVALUATE_WITH(compute_gather(graph, data, list, 1), data, x, four);
  assert_memory_equal(four, ((float[]){3, 1, 6, 4}), sizeof four);
  EVALUATE_WITH(compute_gather_elements(graph, data, at, 1), data, x, four);
  assert_memory_equal(four, ((float[]){3, 1, 4, 6}), sizeof four);
  EVALUATE_WITH(compute_scatter_add(graph, two, list, 1, 3), two, x, six);
  assert_memory_equal(six, ((float[]){2, 0, 1, 4, 0, 3}), sizeof six);
  EVALUATE_WITH(compute_scatter_add_elements(graph, two, at, 1, COMPUTE_SHAPE(2, 3)), two, x, six);
  assert_memory_equal(six, ((float[]){2, 0, 1, 3, 0, 4}), sizeof six);
}

static void an_index_outside_fails_the_run(void **state) {
  (void)state;
  static const int32_t outside[] = {3, -4, INT32_MAX, INT32_MIN};
  static const float x[6] = {0};
  for (size_t i = 0; i < 4; i++) {
    for (int form = 0; form < 4; form++) {
      renew();
      const compute_node data = INPUT(COMPUTE_F32, 2, 3), at = INPUT(COMPUTE_I32, 2, 1);
      const compute_node one = INPUT(COMPUTE_F32, 2, 1),
                         list = compute_reshape(graph, at, COMPUTE_SHAPE(2));
      const compute_node y =
          form == 0   ? compute_gather(graph, data, list, 1)
          : form == 1 ? compute_gather_elements(graph, data, at, 1)
          : form == 2 ? compute_scatter_add(
                            graph, compute_broadcast(graph, one, COMPUTE_SHAPE(2, 2)), list, 1, 3)
                      : compute_scatter_add_elements(graph, one, at, 1, COMPUTE_SHAPE(2, 3));
      compute_plan *plan = test_compile(graph, &y, 1, 0);
      compute_tensor *output, *indices, *source;
      const compute_node from = form < 2 ? data : one;
      assert_ok(compute_plan_create_tensor(plan, y, &output));
      indices = test_tensor(test_context, COMPUTE_I32, COMPUTE_SHAPE(2, 1),
                            (const int32_t[]){0, outside[i]});
      source = test_tensor(test_context, COMPUTE_F32, compute_node_shape(graph, from), x);
      const compute_binding bindings[] = {{y, output}, {at, indices}, {from, source}};
      const compute_status status = compute_run(plan, bindings, 3, NULL);
      assert_int_equal(status, COMPUTE_ERROR_INDEX);
      compute_tensor_release(source);
      compute_tensor_release(indices);
      compute_tensor_release(output);
      compute_plan_release(plan);
    }
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, create_graph, release_graph)
  const struct CMUnitTest tests[] = {
      TEST(every_i64_arrives),
      TEST(limits_of_clamp_are_exact),
      TEST(limits_beyond_the_dtype_do_not_limit),
      TEST(a_value_that_the_dtype_cannot_hold_is_refused),
      TEST(an_integer_is_held_exactly_or_refused),
      TEST(limits_without_a_value_between_are_refused),
      TEST(a_reduction_along_no_axes_is_its_operand),
      TEST(no_axes_are_neither_all_nor_a_mistake),
      TEST(a_range_lies_in_its_axis_and_may_be_empty_at_the_end),
      TEST(negative_indices_count_from_the_end),
      TEST(an_index_outside_fails_the_run),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
