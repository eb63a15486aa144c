/* SPDX-License-Identifier: MIT */
/* gather, gather_elements, scatter_add, scatter_add_elements: both index types, indices that count
 * from the end, repeated indices, every layout, and invalid indices. */
#include "support/harness/operation.h"
#include "support/harness/test.h"

typedef enum indexed_kind { GATHER, GATHER_ELEMENTS, SCATTER, SCATTER_ELEMENTS } indexed_kind;

typedef struct indexed_case {
  const char *name;
  indexed_kind kind;
  compute_shape x, indices;
  int32_t axis;
  int64_t size;        /* of the indexed axis */
  compute_shape shape; /* SCATTER_ELEMENTS: the result's */
} indexed_case;

static compute_node build_indexed(compute_graph *graph, const compute_node *operands,
                                  const void *user) {
  const indexed_case *c = user;
  const compute_node x = operands[0], indices = operands[1];
  switch (c->kind) {
  case GATHER: return compute_gather(graph, x, indices, c->axis);
  case GATHER_ELEMENTS: return compute_gather_elements(graph, x, indices, c->axis);
  case SCATTER: return compute_scatter_add(graph, x, indices, c->axis, c->size);
  case SCATTER_ELEMENTS: break;
  }
  return compute_scatter_add_elements(graph, x, indices, c->axis, c->shape);
}

static const indexed_case cases[] = {
    {"gather", GATHER, SHAPE(7, 13, 31), SHAPE(5), 1, 13, SCALAR},
    {"gather", GATHER, SHAPE(7, 13, 31), SHAPE(5, 2), 0, 7, SCALAR},
    {"gather", GATHER, SHAPE(7, 13, 31), SHAPE(3, 4), -1, 31, SCALAR},
    {"gather", GATHER, SHAPE(7, 13), SCALAR, 1, 13, SCALAR},
    {"gather", GATHER, SHAPE(11), SHAPE(2, 3, 4), 0, 11, SCALAR},
    {"gather", GATHER, SHAPE(7, 13), SHAPE(0), 0, 7, SCALAR},
    {"gather", GATHER, SHAPE(7, 0), SHAPE(3), 0, 7, SCALAR},
    {"gather", GATHER, SHAPE(1000, 3), SHAPE(501), 0, 1000, SCALAR},
    {"gather_elements", GATHER_ELEMENTS, SHAPE(7, 13, 31), SHAPE(7, 5, 31), 1, 13, SCALAR},
    {"gather_elements", GATHER_ELEMENTS, SHAPE(7, 13, 31), SHAPE(3, 13, 2), 0, 7, SCALAR},
    {"gather_elements", GATHER_ELEMENTS, SHAPE(7, 13), SHAPE(7, 40), -1, 13, SCALAR},
    {"gather_elements", GATHER_ELEMENTS, SHAPE(7, 13), SHAPE(0, 13), 0, 7, SCALAR},
    {"scatter_add", SCATTER, SHAPE(7, 5, 31), SHAPE(5), 1, 13, SCALAR},
    {"scatter_add", SCATTER, SHAPE(40, 3), SHAPE(40), 0, 7, SCALAR},
    {"scatter_add", SCATTER, SHAPE(5, 2, 3), SHAPE(5, 2), 0, 7, SCALAR},
    {"scatter_add", SCATTER, SHAPE(0, 3), SHAPE(0), 0, 4, SCALAR},
    {"scatter_add", SCATTER, SHAPE(4, 3, 11), SHAPE(11), -1, 2, SCALAR},
    {"scatter_add_elements", SCATTER_ELEMENTS, SHAPE(7, 5), SHAPE(7, 5), 1, 13, SHAPE(7, 13)},
    {"scatter_add_elements", SCATTER_ELEMENTS, SHAPE(50, 3), SHAPE(50, 3), 0, 4, SHAPE(4, 3)},
    {"scatter_add_elements", SCATTER_ELEMENTS, SHAPE(3, 5, 2), SHAPE(3, 5, 2), -2, 6,
     SHAPE(7, 6, 2)},
    /* one update for each element: lines of a longer dimension */
    {"scatter_add_elements", SCATTER_ELEMENTS, SHAPE(41, 1, 2), SHAPE(41, 1, 2), 1, 6,
     SHAPE(41, 6, 2)},
    {"scatter_add_elements", SCATTER_ELEMENTS, SHAPE(3, 67, 1, 5), SHAPE(3, 67, 1, 5), 2, 4,
     SHAPE(3, 67, 4, 5)},
    {"scatter_add_elements", SCATTER_ELEMENTS, SHAPE(0, 3), SHAPE(0, 3), 0, 4, SHAPE(4, 3)},
};

static void check_indexed(const indexed_case *c, compute_dtype dtype, compute_dtype index,
                          guarded_layout layout, guarded_layout result) {
  const bool adds = c->kind >= SCATTER;
  /* Storage precision may round a sum once, or at each addition. */
  const double half = dtype == COMPUTE_F16 ? 0x1p-11 : dtype == COMPUTE_BF16 ? 0x1p-8 : 0;
  const double unit = dtype == COMPUTE_F64 ? 0x1p-50 : 0x1p-21;
  operation_case sample = {.name = c->name,
                           .build = build_indexed,
                           .user = c,
                           .operand_count = 2,
                           .result_layout = result,
                           .operation = c->name};
  if (adds) sample.tolerance = (test_tolerance){1, 64 * unit + 64 * half, 0};
  sample.operand[0] = (operation_operand){dtype, c->x, FILL_RANGE, -8, 8, layout};
  sample.operand[1] = (operation_operand){
      index, c->indices, FILL_RANGE, -(double)c->size, (double)c->size - 1, layout};
  operation_check(test_context, &sample);
}

static void every_shape_and_dtype_matches(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *domain = cases[i].kind >= SCATTER ? "number" : "any";
    for (const compute_dtype *dtype = operation_dtypes(domain); *dtype; dtype++) {
      check_indexed(&cases[i], *dtype, COMPUTE_I64, LAYOUT_DENSE, LAYOUT_DENSE);
      check_indexed(&cases[i], *dtype, COMPUTE_I32, LAYOUT_DENSE, LAYOUT_DENSE);
    }
  }
  operation_finish();
}

static void every_layout_matches(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int layout = LAYOUT_STEPPED; layout < LAYOUT_COUNT; layout++)
      check_indexed(&cases[i], COMPUTE_F32, COMPUTE_I64, (guarded_layout)layout,
                    (guarded_layout)(LAYOUT_COUNT - layout));
  operation_finish();
}

/* A run with an index outside its axis fails with COMPUTE_ERROR_INDEX, and only that run. */
static void an_index_outside_fails_the_run_and_only_it(void **state) {
  (void)state;
  static const int64_t bad[] = {7, -8, INT64_MAX, INT64_MIN};
  for (int kind = GATHER; kind <= SCATTER_ELEMENTS; kind++) {
    const indexed_case c = {"", (indexed_kind)kind, SHAPE(7), SHAPE(3), 0, 7, SHAPE(7)};
    const compute_shape x_shape = COMPUTE_SHAPE(kind >= SCATTER ? 3 : 7);
    compute_graph *graph = compute_graph_create(test_context);
    const compute_node nodes[2] = {compute_input(graph, COMPUTE_F32, x_shape),
                                   compute_input(graph, COMPUTE_I64, COMPUTE_SHAPE(3))};
    const compute_node y = build_indexed(graph, nodes, &c);
    compute_plan *plan = test_compile(graph, &y, 1, 0);
    const float values[7] = {1, 2, 3, 4, 5, 6, 7};
    compute_tensor *x = test_tensor(test_context, COMPUTE_F32, x_shape, values);
    compute_tensor *indices =
        test_tensor(test_context, COMPUTE_I64, COMPUTE_SHAPE(3), (int64_t[]){0, -1, 6});
    compute_tensor *out = NULL;
    assert_ok(compute_plan_create_tensor(plan, y, &out));
    const compute_binding bindings[] = {{nodes[0], x}, {nodes[1], indices}, {y, out}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
      const int64_t wrong[3] = {0, bad[i], 6};
      assert_ok(compute_tensor_write(indices, wrong, sizeof wrong));
      assert_fails(compute_run(plan, bindings, 3, NULL), COMPUTE_ERROR_INDEX);
    }
    assert_ok(compute_tensor_write(indices, (int64_t[]){0, -1, 6}, 24));
    assert_ok(compute_run(plan, bindings, 3, NULL));
    assert_true(test_element(out, 0) == 1);
    compute_tensor_release(x);
    compute_tensor_release(indices);
    compute_tensor_release(out);
    compute_plan_release(plan);
    compute_graph_release(graph);
  }
}

/* Sums in scatter_add repeat bit for bit in any order. */
static void repeated_indices_add_up_alike_every_time(void **state) {
  (void)state;
  enum { UPDATES = 20011, BINS = 17 };
  test_values x = test_values_create(COMPUTE_F32, COMPUTE_SHAPE(UPDATES));
  test_values indices = test_values_create(COMPUTE_I32, COMPUTE_SHAPE(UPDATES));
  test_values_fill(&x, FILL_RANGE, -1, 1, 1);
  test_values_fill(&indices, FILL_RANGE, 0, BINS - 1, 2);
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node nodes[2] = {compute_input(graph, COMPUTE_F32, x.shape),
                                 compute_input(graph, COMPUTE_I32, x.shape)};
  const compute_node y = compute_scatter_add(graph, nodes[0], nodes[1], 0, BINS);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *tx = test_tensor(test_context, COMPUTE_F32, x.shape, x.data);
  compute_tensor *ti = test_tensor(test_context, COMPUTE_I32, x.shape, indices.data);
  compute_tensor *ty = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(BINS), NULL);
  float first[BINS], again[BINS];
  for (int i = 0; i < 20; i++) {
    assert_ok(
        compute_run(plan, (compute_binding[]){{nodes[0], tx}, {nodes[1], ti}, {y, ty}}, 3, NULL));
    assert_ok(compute_tensor_read(ty, i == 0 ? first : again, sizeof first));
    if (i > 0) assert_memory_equal(first, again, sizeof first);
  }
  compute_tensor_release(tx);
  compute_tensor_release(ti);
  compute_tensor_release(ty);
  compute_plan_release(plan);
  compute_graph_release(graph);
  test_values_release(&x);
  test_values_release(&indices);
}

/* ---- Scatter into given data --------------------------------------------------------------- */

typedef struct into_case {
  compute_shape data, updates, indices;
  int32_t axis;
  bool elements;
  compute_scatter_mode mode;
} into_case;

static compute_node build_into(compute_graph *graph, const compute_node *x, const void *user) {
  const into_case *c = user;
  return c->elements ? compute_scatter_elements(graph, x[0], x[1], x[2], c->axis, c->mode)
                     : compute_scatter(graph, x[0], x[1], x[2], c->axis, c->mode);
}

static const into_case into_cases[] = {
    {SHAPE(7, 13, 31), SHAPE(7, 5, 31), SHAPE(5), 1, false, COMPUTE_SCATTER_ADD},
    {SHAPE(7, 3), SHAPE(40, 3), SHAPE(40), 0, false, COMPUTE_SCATTER_ADD},
    {SHAPE(7, 3), SHAPE(5, 2, 3), SHAPE(5, 2), 0, false, COMPUTE_SCATTER_ADD},
    {SHAPE(4, 3), SHAPE(0, 3), SHAPE(0), 0, false, COMPUTE_SCATTER_ADD},
    {SHAPE(4, 3), SHAPE(3), SCALAR, 0, false, COMPUTE_SCATTER_ADD},
    {SHAPE(4, 3, 2), SHAPE(4, 3, 11), SHAPE(11), -1, false, COMPUTE_SCATTER_ADD},
    {SHAPE(3), SHAPE(900), SHAPE(900), 0, false, COMPUTE_SCATTER_ADD},
    {SHAPE(7, 13), SHAPE(7, 5), SHAPE(7, 5), 1, true, COMPUTE_SCATTER_ADD},
    {SHAPE(4, 3), SHAPE(50, 3), SHAPE(50, 3), 0, true, COMPUTE_SCATTER_ADD},
    {SHAPE(7, 6, 2), SHAPE(3, 5, 2), SHAPE(3, 5, 2), -2, true, COMPUTE_SCATTER_ADD},
};

static void check_into(into_case c, compute_dtype dtype, guarded_layout layout) {
  const int64_t size = c.data.size[c.axis < 0 ? c.axis + c.data.rank : c.axis];
  const double half = dtype == COMPUTE_F16 ? 0x1p-11 : dtype == COMPUTE_BF16 ? 0x1p-8 : 0;
  const double unit = dtype == COMPUTE_F64 ? 0x1p-50 : 0x1p-21;
  const bool sums = c.mode == COMPUTE_SCATTER_ADD || c.mode == COMPUTE_SCATTER_MUL;
  const double most = c.mode == COMPUTE_SCATTER_MUL ? 1 : 8;
  operation_case sample = {.name = c.elements ? "scatter_elements" : "scatter",
                           .build = build_into,
                           .user = &c,
                           .operand_count = 3,
                           .result_layout = layout,
                           .operation = c.elements ? "scatter_elements" : "scatter"};
  /* All updates along the axis may meet in one element, and each one rounds the sum. */
  double meeting = 1;
  for (int32_t d = 0; d < c.indices.rank; d++)
    if (!c.elements || d == (c.axis < 0 ? c.axis + c.indices.rank : c.axis))
      meeting *= (double)c.indices.size[d];
  if (sums) sample.tolerance = (test_tolerance){1, (64 + meeting) * unit + 64 * half, 0};
  sample.operand[0] = (operation_operand){dtype, c.data, FILL_RANGE, -8, 8, layout};
  sample.operand[1] = (operation_operand){dtype, c.updates, FILL_RANGE, -most, most, layout};
  sample.operand[2] = (operation_operand){COMPUTE_I64,   c.indices,        FILL_RANGE,
                                          -(double)size, (double)size - 1, layout};
  operation_check(test_context, &sample);
}

static void every_mode_matches(void **state) {
  (void)state;
  static const char *const domains[] = {"number", "any", "number", "ordered", "ordered"};
  for (size_t i = 0; i < sizeof into_cases / sizeof *into_cases; i++)
    for (int mode = COMPUTE_SCATTER_ADD; mode <= COMPUTE_SCATTER_MIN; mode++) {
      into_case c = into_cases[i];
      c.mode = (compute_scatter_mode)mode;
      if (mode == COMPUTE_SCATTER_MUL && c.updates.size[0] == 900) continue; /* products are 0 */
      for (const compute_dtype *dtype = operation_dtypes(domains[mode]); *dtype; dtype++)
        check_into(c, *dtype, LAYOUT_DENSE);
      for (int layout = LAYOUT_STEPPED; layout < LAYOUT_COUNT; layout++)
        check_into(c, COMPUTE_F32, (guarded_layout)layout);
    }
  operation_finish();
}

static double joined(compute_scatter_mode mode, double a, double b) {
  switch (mode) {
  case COMPUTE_SCATTER_ADD: return a + b;
  case COMPUTE_SCATTER_MUL: return a * b;
  case COMPUTE_SCATTER_MAX: return a > b ? a : b;
  case COMPUTE_SCATTER_MIN: return a < b ? a : b;
  default: return b;
  }
}

/* Lines with the same indices. Many indices are neighbours: runs of all lengths overlap, and cross
 * from −1 to 0. */
static void check_neighbours(compute_scatter_mode mode, compute_dtype type, int64_t longest) {
  enum { LINES = 6, SIZE = 50, UPDATES = 400 };
  static double expected[LINES][SIZE], updates[LINES][UPDATES];
  int64_t indices[UPDATES];
  test_random random = {.state = (uint64_t)longest};
  for (int64_t i = 0, place = 0, left = 0; i < UPDATES; i++, place++, left--) {
    if (left == 0) {
      place = test_random_integer(&random, -SIZE, SIZE - 1);
      left = test_random_integer(&random, 1, longest);
    }
    if (place == SIZE) place = -SIZE;
    indices[i] = place;
  }
  for (int64_t l = 0; l < LINES; l++) {
    for (int64_t i = 0; i < SIZE; i++) expected[l][i] = 1;
    for (int64_t i = 0; i < UPDATES; i++) {
      double *at = &expected[l][(indices[i] + SIZE) % SIZE];
      updates[l][i] = mode == COMPUTE_SCATTER_MUL
                          ? (double)test_random_integer(&random, 0, 1) * 2 - 1
                          : (double)test_random_integer(&random, -9, 9);
      *at = joined(mode, *at, updates[l][i]);
    }
  }
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node data = compute_full(graph, type, COMPUTE_SHAPE(LINES, SIZE), 1);
  const compute_node u = compute_cast(
      graph, compute_constant(graph, COMPUTE_F64, COMPUTE_SHAPE(LINES, UPDATES), updates), type);
  const compute_node i = compute_input(graph, COMPUTE_I64, COMPUTE_SHAPE(UPDATES));
  const compute_node y = compute_scatter(graph, data, u, i, 1, mode);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *given = test_tensor(test_context, COMPUTE_I64, COMPUTE_SHAPE(UPDATES), indices);
  compute_tensor *out = test_tensor(test_context, type, COMPUTE_SHAPE(LINES, SIZE), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{i, given}, {y, out}}, 2, NULL));
  for (int64_t k = 0; k < LINES * SIZE; k++)
    if (test_element(out, k) != expected[k / SIZE][k % SIZE])
      fail_msg("mode %d, runs of %lld: element %lld is %g instead of %g", (int)mode,
               (long long)longest, (long long)k, test_element(out, k),
               expected[k / SIZE][k % SIZE]);
  compute_tensor_release(given);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void lines_with_the_same_neighbours_match(void **state) {
  (void)state;
  static const compute_dtype types[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_I32, COMPUTE_F16};
  for (int mode = COMPUTE_SCATTER_ADD; mode <= COMPUTE_SCATTER_MIN; mode++)
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
      for (int64_t longest = 1; longest <= 40; longest += 13)
        check_neighbours((compute_scatter_mode)mode, types[t], longest);
}

/* The result overwrites data without later readers: one step fewer, and the same values. */
static void data_of_the_plan_are_written_in_place(void **state) {
  (void)state;
  for (int kept = 0; kept < 2; kept++) {
    compute_graph *graph = compute_graph_create(test_context);
    const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(4)),
                       u = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3)),
                       i = compute_input(graph, COMPUTE_I64, COMPUTE_SHAPE(3));
    const compute_node data = compute_cumulative_sum(graph, x, 0, false, false);
    const compute_node s = compute_scatter(graph, data, u, i, 0, COMPUTE_SCATTER_SET);
    compute_node y = compute_cumulative_sum(graph, s, 0, false, false);
    if (kept) y = compute_add(graph, y, data);
    compute_plan *plan = test_compile(graph, &y, 1, 0);
    compute_plan_info info = {0};
    assert_ok(compute_plan_describe(plan, &info));
    assert_int_equal(info.steps, kept ? 5 : 3);
    compute_tensor *tx =
        test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(4), (float[]){1, 2, 3, 4});
    compute_tensor *tu =
        test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3), (float[]){10, 20, 30});
    compute_tensor *ti =
        test_tensor(test_context, COMPUTE_I64, COMPUTE_SHAPE(3), (int64_t[]){1, -1, 1});
    compute_tensor *ty = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(4), NULL);
    const compute_binding bindings[] = {{x, tx}, {u, tu}, {i, ti}, {y, ty}};
    assert_ok(compute_run(plan, bindings, 4, NULL));
    static const double expected[2][4] = {{1, 31, 37, 57}, {2, 34, 43, 67}};
    for (int k = 0; k < 4; k++) assert_true(test_element(ty, k) == expected[kept][k]);
    compute_tensor_release(tx);
    compute_tensor_release(tu);
    compute_tensor_release(ti);
    compute_tensor_release(ty);
    compute_plan_release(plan);
    compute_graph_release(graph);
  }
}

/* ---- One tensor as input and output -------------------------------------------------------- */

/* A cache [rows, 4]: rows are set at indices, and their sums are read from the new cache. With
 * `late`, the old cache is read afterwards, so the run needs a copy. */
static void check_bound_in_place(bool late, int64_t shift) {
  enum { ROWS = 6 };
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node cache = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(ROWS, 4)),
                     u = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 4)),
                     at = compute_input(graph, COMPUTE_I64, COMPUTE_SHAPE(2));
  const compute_node next = compute_scatter(graph, cache, u, at, 0, COMPUTE_SCATTER_SET);
  compute_node sums = compute_sum(graph, next, COMPUTE_AXES(1), false);
  if (late) sums = compute_add(graph, sums, compute_sum(graph, cache, COMPUTE_AXES(1), false));
  const compute_node outputs[] = {next, sums};
  compute_plan *plan = test_compile(graph, outputs, 2, 0);
  compute_tensor *memory = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(ROWS + 2, 4), NULL);
  compute_tensor *in = NULL, *out = NULL, *ts = NULL, *tu = NULL, *ta = NULL;
  assert_ok(compute_tensor_slice_view(memory, 0, 0, ROWS, 1, &in));
  assert_ok(compute_tensor_slice_view(memory, 0, shift, ROWS, 1, &out));
  float values[(ROWS + 2) * 4], rows[8];
  for (int i = 0; i < (ROWS + 2) * 4; i++) values[i] = (float)i;
  for (int i = 0; i < 8; i++) rows[i] = 100 + (float)i;
  assert_ok(compute_tensor_write(memory, values, sizeof values));
  tu = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 4), rows);
  ta = test_tensor(test_context, COMPUTE_I64, COMPUTE_SHAPE(2), NULL);
  ts = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(ROWS), NULL);
  const compute_binding bindings[] = {
      {cache, in}, {u, tu}, {at, ta}, {next, shift ? out : in}, {sums, ts}};
  for (int64_t run = 0; run < (shift ? 1 : 3); run++) {
    double before[ROWS] = {0};
    for (int i = 0; i < ROWS * 4; i++) before[i / 4] += (double)values[i];
    assert_ok(compute_tensor_write(ta, (int64_t[]){run, run + 2}, 16));
    assert_ok(compute_run(plan, bindings, 5, NULL));
    for (int i = 0; i < 4; i++) {
      values[run * 4 + i] = rows[i];
      values[(run + 2) * 4 + i] = rows[4 + i];
    }
    for (int i = 0; i < ROWS * 4; i++)
      assert_true(test_element(shift ? out : in, i) == (double)values[i]);
    for (int r = 0; r < ROWS; r++) {
      double sum = late ? before[r] : 0;
      for (int i = 0; i < 4; i++) sum += (double)values[r * 4 + i];
      assert_true(test_element(ts, r) == sum);
    }
  }
  compute_tensor *const tensors[] = {memory, in, out, ts, tu, ta};
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) compute_tensor_release(tensors[i]);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void one_tensor_may_be_input_and_output(void **state) {
  (void)state;
  check_bound_in_place(false, 0);
  check_bound_in_place(true, 0);
  check_bound_in_place(false, 1);
  check_bound_in_place(true, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_shape_and_dtype_matches),
      cmocka_unit_test(every_layout_matches),
      cmocka_unit_test(an_index_outside_fails_the_run_and_only_it),
      cmocka_unit_test(every_mode_matches),
      cmocka_unit_test(lines_with_the_same_neighbours_match),
      cmocka_unit_test(data_of_the_plan_are_written_in_place),
      cmocka_unit_test(one_tensor_may_be_input_and_output),
      cmocka_unit_test(repeated_indices_add_up_alike_every_time),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
