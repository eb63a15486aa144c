/* SPDX-License-Identifier: MIT */
/* One small kernel of each kind and of each variant of the generator, on the device under test. It
 * is for slow and strict devices such as oclgrind, which checks every load and store. All results
 * are compared with the reference; memory around the tensors is guarded.
 *
 * With SMALL_KERNELS_PLAIN=n, only the n-th sample runs, once, on buffers that are written as a
 * whole and never reused. The exit status is 77 past the last sample. oclgrind needs this to find
 * uninitialised values: it forgets everything before a buffer's last write from the host.
 * SMALL_KERNELS_ONLY=text runs the samples with that text in their name. */
#include <stdlib.h>
#include <string.h>

#include "support/harness/operation.h"
#include "support/reference/reference.h"
#include "support/harness/test.h"

/* ---- Graphs -------------------------------------------------------------------------------- */

/* x · y + row, limited: loads with strides 1 and 0, and a constant. */
static compute_node chain(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_relu(g, compute_add(g, compute_mul(g, x[0], x[1]), x[2]));
}

static compute_node widen(compute_graph *g, const compute_node *x, const void *user) {
  const compute_dtype *dtype = user;
  return compute_cast(g, x[0], *dtype);
}

static compute_node noise(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_random_uniform(g, COMPUTE_F32, COMPUTE_SHAPE(3, 11), x[0], 1);
}

static compute_node turn(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_transpose(g, x[0], COMPUTE_ALL_AXES);
}

static compute_node join(compute_graph *g, const compute_node *x, const void *user) {
  const int32_t *axis = user;
  return compute_concat(g, x, 2, *axis);
}

static compute_node sum(compute_graph *g, const compute_node *x, const void *user) {
  const int32_t *axis = user;
  const compute_axes all = COMPUTE_ALL_AXES, one = {.count = 1, .axis = {*axis}};
  return compute_sum(g, compute_square(g, x[0]), *axis < 0 ? all : one, false);
}

static compute_node find_largest(compute_graph *g, const compute_node *x, const void *user) {
  const int32_t *axis = user;
  return compute_argmax(g, x[0], *axis, false);
}

static compute_node softmax(compute_graph *g, const compute_node *x, const void *user) {
  const int32_t *axis = user;
  return compute_softmax(g, x[0], *axis);
}

static compute_node normalize(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_normalize(g, x[0], 1e-5);
}

static compute_node product(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_matmul(g, x[0], x[1]);
}

static compute_node product_turned(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_matmul(g, compute_transpose(g, x[0], COMPUTE_AXES(1, 0)), x[1]);
}

static compute_node dense(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_gelu(g, compute_add(g, compute_matmul(g, x[0], x[1]), x[2]));
}

static compute_node pick(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_gather(g, x[0], x[1], 0);
}

static compute_node pick_elements(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_gather_elements(g, x[0], x[1], 1);
}

static compute_node scatter(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_scatter_add(g, x[0], x[1], 0, 5);
}

/* ---- Samples ------------------------------------------------------------------------------- */

static const int32_t axes[] = {0, 1, -1};
static const compute_dtype f64 = COMPUTE_F64, f16 = COMPUTE_F16, bf16 = COMPUTE_BF16;

typedef struct small_case {
  const char *name;
  compute_node (*build)(compute_graph *, const compute_node *, const void *);
  const void *user;
  size_t count;
  compute_shape shape[3];
  compute_dtype dtype; /* NONE: f32 */
  double index;        /* limit of the indices in the second operand; 0: no indices */
  guarded_layout layout, result;
} small_case;

static const small_case cases[] = {
    {"map", chain, NULL, 3, .shape = {SHAPE(5, 37), SHAPE(5, 37), SHAPE(37)}},
    {"map, strided", chain, NULL, 3, .shape = {SHAPE(5, 7), SHAPE(5, 1), SHAPE(7)},
     .layout = LAYOUT_STEPPED, .result = LAYOUT_TRANSPOSED},
    {"map, long", chain, NULL, 3, .shape = {SHAPE(2053), SHAPE(1), SHAPE(2053)}},
    {"cast to f64", widen, &f64, 1, .shape = {SHAPE(19)}},
    {"cast to f16", widen, &f16, 1, .shape = {SHAPE(19)}},
    {"cast to bf16", widen, &bf16, 1, .shape = {SHAPE(19)}},
    {"random", noise, NULL, 1, .shape = {SCALAR}, .dtype = COMPUTE_I64},
    {"copy", turn, NULL, 1, .shape = {SHAPE(13)}, .layout = LAYOUT_STEPPED},
    {"transpose", turn, NULL, 1, .shape = {SHAPE(35, 41)}},
    {"transpose of bytes", turn, NULL, 1, .shape = {SHAPE(35, 18)}, .dtype = COMPUTE_U8},
    {"concat", join, &axes[1], 2, .shape = {SHAPE(3, 5), SHAPE(3, 2)}},
    {"sum of columns", sum, &axes[0], 1, .shape = {SHAPE(67, 9)}},
    {"sum of rows", sum, &axes[1], 1, .shape = {SHAPE(5, 301)}},
    {"sum of all", sum, &axes[2], 1, .shape = {SHAPE(3, 1511)}},
    {"sum of all i32", sum, &axes[2], 1, .shape = {SHAPE(3, 67)}, .dtype = COMPUTE_I32},
    {"sum of all f16", sum, &axes[2], 1, .shape = {SHAPE(3, 67)}, .dtype = COMPUTE_F16},
    {"argmax of rows", find_largest, &axes[1], 1, .shape = {SHAPE(3, 150)}},
    {"argmax of columns", find_largest, &axes[0], 1, .shape = {SHAPE(70, 3)}},
    {"softmax", softmax, &axes[1], 1, .shape = {SHAPE(3, 33)}},
    {"softmax, long rows", softmax, &axes[1], 1, .shape = {SHAPE(2, 1100)}},
    {"softmax of columns", softmax, &axes[0], 1, .shape = {SHAPE(17, 3)}},
    {"normalize", normalize, NULL, 1, .shape = {SHAPE(3, 70)}},
    {"matmul", product, NULL, 2, .shape = {SHAPE(33, 18), SHAPE(18, 35)}},
    {"matmul, small", product, NULL, 2, .shape = {SHAPE(3, 5), SHAPE(5, 2)}},
    {"matmul, vector", product, NULL, 2, .shape = {SHAPE(1, 40), SHAPE(40, 9)}},
    {"matmul, batched", product, NULL, 2, .shape = {SHAPE(2, 7, 9), SHAPE(2, 9, 5)}},
    {"matmul, transposed", product_turned, NULL, 2, .shape = {SHAPE(19, 7), SHAPE(19, 11)}},
    {"matmul, i32", product, NULL, 2, .shape = {SHAPE(7, 9), SHAPE(9, 5)}, .dtype = COMPUTE_I32},
    {"matmul, f16", product, NULL, 2, .shape = {SHAPE(17, 19), SHAPE(19, 18)},
     .dtype = COMPUTE_F16},
    {"matmul, f64", product, NULL, 2, .shape = {SHAPE(17, 9), SHAPE(9, 18)}, .dtype = COMPUTE_F64},
    {"gelu(matmul + bias)", dense, NULL, 3, .shape = {SHAPE(9, 17), SHAPE(17, 10), SHAPE(10)}},
    {"gather", pick, NULL, 2, .shape = {SHAPE(7, 5), SHAPE(4)}, .index = 7},
    {"gather_elements", pick_elements, NULL, 2, .shape = {SHAPE(3, 7), SHAPE(3, 4)}, .index = 7},
    {"scatter_add", scatter, NULL, 2, .shape = {SHAPE(9, 3), SHAPE(9)}, .index = 5},
    {"scatter_add of f16", scatter, NULL, 2, .shape = {SHAPE(9, 3), SHAPE(9)}, .dtype = COMPUTE_F16,
     .index = 5},
};

/* ---- Without guards ------------------------------------------------------------------------ */

typedef struct plain_run {
  const operation_case *sample;
  compute_graph *graph;
  compute_node nodes[3], result;
  test_values values[3], expected;
} plain_run;

static int64_t count_wrong(const plain_run *run, const test_values *actual) {
  int64_t wrong = 0;
  double error;
  for (int64_t i = 0; i < actual->count; i++)
    wrong += !reference_matches(actual, &run->expected, i, &run->sample->tolerance, &error);
  return wrong;
}

static void run_plain_plan(const plain_run *run) {
  const size_t count = run->sample->operand_count;
  compute_plan *plan = NULL;
  const compute_plan_options options = {.fallback = COMPUTE_FALLBACK_STRICT};
  compute_binding bindings[4];
  assert_ok(compute_compile(run->graph, &run->result, 1, &options, &plan));
  for (size_t i = 0; i < count; i++)
    bindings[i] =
        (compute_binding){run->nodes[i], test_tensor(test_context, run->values[i].dtype,
                                                     run->values[i].shape, run->values[i].data)};
  bindings[count].node = run->result;
  assert_ok(compute_plan_create_tensor(plan, run->result, &bindings[count].tensor));
  assert_ok(compute_run(plan, bindings, count + 1, NULL));
  test_values actual = test_values_create(compute_node_dtype(run->graph, run->result),
                                          compute_node_shape(run->graph, run->result));
  assert_ok(compute_tensor_read(bindings[count].tensor, actual.data, actual.bytes));
  const int64_t wrong = count_wrong(run, &actual);
  if (wrong > 0) fail_msg("%s: %d elements differ", run->sample->name, (int)wrong);
  for (size_t i = 0; i <= count; i++) compute_tensor_release(bindings[i].tensor);
  test_values_release(&actual);
  compute_plan_release(plan);
}

static void run_plain(compute_context *context, const operation_case *sample) {
  plain_run run = {.sample = sample, .graph = compute_graph_create(context)};
  for (size_t i = 0; i < sample->operand_count; i++) {
    const operation_operand *operand = &sample->operand[i];
    run.nodes[i] = compute_input(run.graph, operand->dtype, operand->shape);
    run.values[i] = test_values_create(operand->dtype, operand->shape);
    test_values_fill(&run.values[i], operand->fill, operand->low, operand->high, i + 1);
  }
  run.result = sample->build(run.graph, run.nodes, sample->user);
  run.expected = reference_run(run.graph, run.nodes, run.values, sample->operand_count, run.result);
  run_plain_plan(&run);
  test_values_release(&run.expected);
  for (size_t i = 0; i < sample->operand_count; i++) test_values_release(&run.values[i]);
  compute_graph_release(run.graph);
}

/* ---- All samples --------------------------------------------------------------------------- */

static void check(const small_case *c, void (*run)(compute_context *, const operation_case *)) {
  const compute_dtype dtype = c->dtype ? c->dtype : COMPUTE_F32;
  const double half = dtype == COMPUTE_F16 ? 0x1p-10 : 0;
  operation_case sample = {
      .name = c->name,
      .build = c->build,
      .user = c->user,
      .operand_count = c->count,
      .result_layout = c->result,
      .tolerance = {.ulp = 4, .atol = 1e-4 + 8 * half, .rtol = 1e-5 + 4 * half}};
  for (size_t i = 0; i < c->count; i++)
    sample.operand[i] = (operation_operand){dtype, c->shape[i], FILL_RANGE,
                                            -2,    2,           i == 0 ? c->layout : LAYOUT_DENSE};
  if (c->index > 0) {
    sample.operand[1].dtype = COMPUTE_I64;
    sample.operand[1].low = -c->index;
    sample.operand[1].high = c->index - 1;
  }
  run(test_context, &sample);
}

static void small_kernels_are_right(void **state) {
  (void)state;
  const char *only = getenv("SMALL_KERNELS_ONLY");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (!only || strstr(cases[i].name, only)) check(&cases[i], operation_check);
  operation_finish();
}

static void one_small_kernel_is_right(void **state) {
  (void)state;
  const size_t index = strtoul(getenv("SMALL_KERNELS_PLAIN"), NULL, 10);
  check(&cases[index], run_plain);
}

/* The only kernel that writes a fault word: an index out of range. */
static void a_wrong_index_is_noticed(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(5, 3));
  const compute_node i = compute_input(graph, COMPUTE_I32, COMPUTE_SHAPE(2));
  const compute_node y = compute_gather(graph, x, i, 0);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  const float values[15] = {0};
  compute_tensor *tx = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(5, 3), values);
  compute_tensor *ti = test_tensor(test_context, COMPUTE_I32, COMPUTE_SHAPE(2), (int32_t[]){1, 5});
  compute_tensor *ty = NULL;
  assert_ok(compute_plan_create_tensor(plan, y, &ty));
  const compute_binding bindings[] = {{x, tx}, {i, ti}, {y, ty}};
  assert_fails(compute_run(plan, bindings, 3, NULL), COMPUTE_ERROR_INDEX);
  compute_tensor_release(tx);
  compute_tensor_release(ti);
  compute_tensor_release(ty);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_kernels_are_right),
      cmocka_unit_test(a_wrong_index_is_noticed),
  };
  const struct CMUnitTest single[] = {cmocka_unit_test(one_small_kernel_is_right)};
  const char *index = getenv("SMALL_KERNELS_PLAIN");
  if (!index) return cmocka_run_group_tests(tests, test_group_open, test_group_close);
  if (strtoul(index, NULL, 10) >= sizeof cases / sizeof *cases) return 77;
  return cmocka_run_group_tests(single, test_group_open, test_group_close);
}
