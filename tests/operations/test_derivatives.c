/* SPDX-License-Identifier: MIT */
/* Second and third derivatives of every differentiable operation, in f64, compared with difference
 * quotients of the plan's own lower derivatives. tests/operations/test_gradients.c does the same for
 * the first.
 *
 * Each sample gives a loss with a different weight for each element. Its derivative along a random
 * direction is a scalar again; the gradient of that is a Hessian–vector product, and so on. The
 * rows come from ops.def and tests/operations.def: an operation without a row fails. */
#include <math.h>
#include <string.h>

#include "compute/derivatives.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"
#include "support/samples/elementwise.h"
#include "support/samples/operation_samples.h"

enum { ORDERS = 3 };

static struct { size_t samples, compared, forward, repeated; } done;

typedef struct subject {
  const operation_case *sample;
  compute_graph *graph;
  size_t count; /* of operands */
  compute_node x[OPERATION_MAX_OPERANDS];
  test_values values[OPERATION_MAX_OPERANDS];
  compute_tensor *tensors[OPERATION_MAX_OPERANDS];
  size_t variables, operand[OPERATION_MAX_OPERANDS]; /* the float operands */
  compute_node of[OPERATION_MAX_OPERANDS];
  compute_node direction[ORDERS][OPERATION_MAX_OPERANDS]; /* constants */
  compute_node scalar[ORDERS + 1];                        /* loss, and its derivatives along them */
  compute_node gradient[ORDERS + 1][OPERATION_MAX_OPERANDS];
  compute_node forward; /* scalar[1] by compute_jvp */
} subject;

static compute_node noise(compute_graph *graph, compute_node like, double low, uint64_t seed) {
  test_values values =
      test_values_create(compute_node_dtype(graph, like), compute_node_shape(graph, like));
  test_values_fill(&values, FILL_RANGE, low, 1.5, seed);
  const compute_node made = compute_constant(graph, values.dtype, values.shape, values.data);
  test_values_release(&values);
  return made;
}

static compute_node dot(compute_graph *graph, compute_node a, compute_node b) {
  return compute_sum(graph, compute_mul(graph, a, b), COMPUTE_ALL_AXES, false);
}

static compute_node dots(subject *s, const compute_node *a, const compute_node *b) {
  compute_node sum = dot(s->graph, a[0], b[0]);
  for (size_t i = 1; i < s->variables; i++)
    sum = compute_add(s->graph, sum, dot(s->graph, a[i], b[i]));
  return sum;
}

static void fail_of(const subject *s, const char *where) {
  fail_msg("%s, %s: %s", s->sample->name, where, compute_error_message(test_context));
}

static void prepare(subject *s, const operation_case *sample) {
  *s = (subject){.sample = sample, .count = sample->operand_count};
  s->graph = compute_graph_create(test_context);
  assert_non_null(s->graph);
  for (size_t i = 0; i < s->count; i++) {
    const operation_operand *o = &sample->operand[i];
    s->values[i] = test_values_create(o->dtype, o->shape);
    test_values_fill(&s->values[i], o->fill, o->low, o->high, 31 * (i + 1));
    s->tensors[i] = test_tensor(test_context, o->dtype, o->shape, s->values[i].data);
    s->x[i] = compute_input(s->graph, o->dtype, o->shape);
    if (o->dtype != COMPUTE_F64) continue;
    s->operand[s->variables] = i;
    s->of[s->variables++] = s->x[i];
  }
  assert_true(s->variables > 0);
  const compute_node y = sample->build(s->graph, s->x, sample->user);
  if (compute_graph_status(s->graph)) fail_of(s, "the operation");
  const compute_node weights = noise(s->graph, y, 0.5, 99);
  s->scalar[0] = dot(s->graph, y, weights);
  for (int k = 0; k < ORDERS; k++) {
    for (size_t i = 0; i < s->variables; i++)
      s->direction[k][i] = noise(s->graph, s->of[i], -1.5, 1000 * (uint64_t)(k + 1) + i);
    if (compute_gradients(s->graph, s->scalar[k], s->of, s->variables, s->gradient[k]))
      fail_of(s, "its derivatives");
    s->scalar[k + 1] = dots(s, s->gradient[k], s->direction[k]);
  }
  compute_node forward = {0};
  if (compute_jvp(s->graph, &y, 1, s->of, s->direction[0], s->variables, &forward))
    fail_of(s, "compute_jvp");
  s->forward = dot(s->graph, forward, weights);
}

static void release(subject *s) {
  for (size_t i = 0; i < s->count; i++) {
    compute_tensor_release(s->tensors[i]);
    test_values_release(&s->values[i]);
  }
  compute_graph_release(s->graph);
}

/* Runs a plan with one output. */
static test_values run(const subject *s, const compute_plan *plan, compute_node output) {
  compute_binding bindings[OPERATION_MAX_OPERANDS + 1];
  const compute_shape shape = compute_node_shape(s->graph, output);
  for (size_t i = 0; i < s->count; i++) bindings[i] = (compute_binding){s->x[i], s->tensors[i]};
  test_values result = test_values_create(COMPUTE_F64, shape);
  bindings[s->count] =
      (compute_binding){output, test_tensor(test_context, COMPUTE_F64, shape, NULL)};
  assert_ok(compute_run(plan, bindings, s->count + 1, NULL));
  assert_ok(compute_tensor_read(bindings[s->count].tensor, result.data, result.bytes));
  compute_tensor_release(bindings[s->count].tensor);
  return result;
}

static test_values value(const subject *s, compute_node output) {
  compute_plan *plan = test_compile(s->graph, &output, 1, 0);
  const test_values result = run(s, plan, output);
  compute_plan_release(plan);
  return result;
}

/* The scalar of `plan` with an element moved by `step`. */
static double moved(subject *s, const compute_plan *plan, int order, size_t operand,
                    int64_t element, double step) {
  test_values *x = &s->values[operand];
  const double middle = test_values_get(x, element);
  test_values_set(x, element, middle + step);
  assert_ok(compute_tensor_write(s->tensors[operand], x->data, x->bytes));
  test_values result = run(s, plan, s->scalar[order]);
  const double scalar = test_values_get(&result, 0);
  test_values_release(&result);
  test_values_set(x, element, middle);
  assert_ok(compute_tensor_write(s->tensors[operand], x->data, x->bytes));
  return scalar;
}

/* The central quotient of fourth order: (8 (f(h) − f(−h)) − f(2h) + f(−2h)) / 12 h. */
static double quotient(subject *s, const compute_plan *plan, int order, size_t operand,
                       int64_t element) {
  const double h = 2e-5;
  const double near =
      moved(s, plan, order, operand, element, h) - moved(s, plan, order, operand, element, -h);
  const double far = moved(s, plan, order, operand, element, 2 * h) -
                     moved(s, plan, order, operand, element, -2 * h);
  return (8 * near - far) / (12 * h);
}

static void compare(subject *s, int order) {
  compute_plan *plan = test_compile(s->graph, &s->scalar[order], 1, 0);
  for (size_t v = 0; v < s->variables; v++) {
    test_values found = value(s, s->gradient[order][v]);
    double largest = 0;
    for (int64_t i = 0; i < found.count; i++)
      largest = fmax(largest, fabs(test_values_get(&found, i)));
    for (int64_t i = 0; i < found.count; i++) {
      const double got = test_values_get(&found, i);
      const double expected = quotient(s, plan, order, s->operand[v], i);
      done.compared++;
      if (!(fabs(got - expected) <= 2e-7 + 2e-6 * largest + 1e-6 * fabs(expected)))
        fail_msg("%s: derivative %d by operand %zu [%lld]: got %.12g, difference quotient %.12g",
                 s->sample->name, order + 1, s->operand[v], (long long)i, got, expected);
    }
    test_values_release(&found);
  }
  compute_plan_release(plan);
}

/* Forward and backward products are the same number. */
static void compare_forward(const subject *s) {
  test_values forward = value(s, s->forward), backward = value(s, s->scalar[1]);
  const double a = test_values_get(&forward, 0), b = test_values_get(&backward, 0);
  if (!(fabs(a - b) <= 1e-11 * (1 + fabs(b))))
    fail_msg("%s: %.15g forward, %.15g backward", s->sample->name, a, b);
  done.forward++;
  test_values_release(&forward);
  test_values_release(&backward);
}

/* The same gradients if the operation is computed again, as a stretch before a checkpoint. */
static void compare_repeated(subject *s) {
  compute_node gradients[2][OPERATION_MAX_OPERANDS] = {{{0}}};
  for (int k = 0; k < 2; k++) {
    const compute_node y = s->sample->build(s->graph, s->x, s->sample->user);
    compute_node z = compute_tanh(s->graph, y);
    if (k == 1) z = compute_checkpoint(s->graph, z);
    const compute_node loss = dot(s->graph, compute_square(s->graph, z), noise(s->graph, y, 0, 5));
    if (compute_gradients(s->graph, loss, s->of, s->variables, gradients[k]))
      fail_of(s, "its gradient through a checkpoint");
  }
  for (size_t v = 0; v < s->variables; v++) {
    test_values kept = value(s, gradients[0][v]), again = value(s, gradients[1][v]);
    for (int64_t i = 0; i < kept.count; i++, done.repeated++) {
      const double a = test_values_get(&again, i), b = test_values_get(&kept, i);
      if (!(fabs(a - b) <= 1e-12 * (1 + fabs(b))))
        fail_msg("%s: operand %zu [%lld]: %.15g with a checkpoint, %.15g without", s->sample->name,
                 s->operand[v], (long long)i, a, b);
    }
    test_values_release(&kept);
    test_values_release(&again);
  }
}

static void check(const operation_case *sample) {
  static size_t number;
  if (test_seed() && !test_takes(0, number++)) return;
  subject s;
  prepare(&s, sample);
  for (int order = 1; order < ORDERS; order++) compare(&s, order);
  compare_forward(&s);
  compare_repeated(&s);
  release(&s);
  done.samples++;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Away from the ends of the range, where the quotient itself has no digits. */
static void every_elementwise_operation(void **state) {
  (void)state;
  static const compute_shape shapes[3][3] = {{SHAPE(2, 3), SHAPE(2, 3), SHAPE(2, 3)},
                                             {SHAPE(2, 3), SHAPE(3), SHAPE(2, 1)},
                                             {SHAPE(2, 1), SHAPE(1, 3), SCALAR}};
  const elementwise_row *row;
  for (size_t i = 0; (row = elementwise_at(i)) != NULL; i++) {
    if (!row->differentiable) continue;
    const double from = fmax(row->low, -2.5), to = fmin(row->high, 3), span = to - from;
    for (size_t k = 0; k < 3; k++) {
      operation_case sample = {.name = row->name,
                               .build = elementwise_build,
                               .user = row,
                               .operand_count = (size_t)row->arity};
      for (size_t a = 0; a < sample.operand_count; a++)
        sample.operand[a] = (operation_operand){
            COMPUTE_F64,      shapes[k][a], FILL_DISTINCT, from + (0.1 + 0.013 * (double)a) * span,
            to - 0.07 * span, LAYOUT_DENSE};
      if (row->arity == 3) {
        sample.operand[0].dtype = COMPUTE_BOOL;
        sample.operand[0].fill = FILL_RANGE;
      }
      check(&sample);
    }
  }
}

static void every_other_operation(void **state) {
  (void)state;
  const operation_sample *row;
  for (size_t i = 0; (row = operation_sample_at(i)) != NULL; i++) {
    if (!(row->uses & OPERATION_DERIVATIVE)) continue;
    operation_case sample = operation_sample_derivative(row);
    /* Round numbers lie on its corners. */
    if (!strcmp(row->operation, "clamp")) sample.operand[0].high += 0.0171;
    check(&sample);
  }
}

/* ---- Functions of the caller ----------------------------------------------------------------- */

/* y = sin x and z = x³, elementwise; their gradients are nodes. */
static compute_status call_both(void *user, const compute_call_arguments *a, int32_t part,
                                int32_t parts) {
  (void)user;
  (void)part;
  (void)parts;
  const double *x = a->inputs[0].data;
  for (int64_t i = 0; i < a->inputs[0].count; i++) {
    ((double *)a->outputs[0].data)[i] = sin(x[i]);
    ((double *)a->outputs[1].data)[i] = x[i] * x[i] * x[i];
  }
  return COMPUTE_OK;
}

static compute_status gradient_of_both(void *user, compute_graph *graph, const compute_node *inputs,
                                       const compute_node *outputs, const compute_node *upstream,
                                       compute_node *given) {
  (void)user;
  (void)outputs;
  const compute_node three = compute_scalar(graph, COMPUTE_F64, 3);
  const compute_node square = compute_mul(graph, compute_square(graph, inputs[0]), three);
  given[0] = compute_add(graph, compute_mul(graph, upstream[0], compute_cos(graph, inputs[0])),
                         compute_mul(graph, upstream[1], square));
  return COMPUTE_OK;
}

static compute_node build_call(compute_graph *graph, const compute_node *x, const void *user) {
  (void)user;
  const compute_call_output outputs[2] = {{COMPUTE_F64, compute_node_shape(graph, x[0])},
                                          {COMPUTE_F64, compute_node_shape(graph, x[0])}};
  compute_node y[2] = {{0}};
  compute_call(graph, call_both, NULL, x, 1, outputs, 2,
               &(compute_call_options){.flags = COMPUTE_CALL_PURE, .gradient = gradient_of_both},
               y);
  return compute_mul(graph, y[0], y[1]);
}

static void calls_with_gradients(void **state) {
  (void)state;
  const operation_case sample = {
      .name = "call",
      .build = build_call,
      .operand = {{COMPUTE_F64, SHAPE(5), FILL_DISTINCT, -1, 1.5, LAYOUT_DENSE}},
      .operand_count = 1};
  check(&sample);
}

/* ---- Completeness ---------------------------------------------------------------------------- */

/* find_spots takes no f64. It is composed of other operations, through which its gradient flows. */
static bool has_row(const char *operation) {
  const operation_sample *row;
  const elementwise_row *element;
  if (!strcmp(operation, "find_spots") || !strncmp(operation, "call", 4)) return true;
  for (size_t i = 0; (element = elementwise_at(i)) != NULL; i++)
    if (!strcmp(element->name, operation)) return true;
  for (size_t i = 0; (row = operation_sample_at(i)) != NULL; i++)
    if (row->uses & OPERATION_DERIVATIVE && !strcmp(row->operation, operation)) return true;
  return false;
}

static void no_operation_is_forgotten(void **state) {
  (void)state;
  compute_operation_info info;
  size_t differentiable = 0;
  for (size_t i = 0; !compute_operation_at(i, &info); i++) {
    if (!info.differentiable) continue;
    differentiable++;
    if (!has_row(info.name))
      fail_msg("%s has no row DERIVATIVE in tests/operations.def", info.name);
  }
  print_message("%zu differentiable operations; %zu samples, %zu second and third derivatives "
                "compared with quotients, %zu forward products with backward ones, %zu gradients "
                "through checkpoints\n",
                differentiable, done.samples, done.compared, done.forward, done.repeated);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_elementwise_operation),
      cmocka_unit_test(every_other_operation),
      cmocka_unit_test(calls_with_gradients),
      cmocka_unit_test(no_operation_is_forgotten),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
