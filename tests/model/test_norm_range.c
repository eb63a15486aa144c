/* SPDX-License-Identifier: MIT */
/* Roots of sums of powers are right even if f32 cannot hold the powers: for numbers from 1e-38 to
 * 1e37. The same holds for their gradients. */
#include <math.h>

#include "compute/compute.h"
#include "model/message_writer.h"

enum { COUNT = 4 };

static const double shape_of_x[COUNT] = {1, -2, 3, 4.5};
static const float scales[] = {2e37f, 1e30f, 1e20f, 1, 1e-20f, 1e-30f, 1e-37f};

typedef double (*formula)(const double *x, int i);

static double power_sum(const double *x, double p, double middle) {
  double sum = 0;
  for (int i = 0; i < COUNT; i++) sum += pow(fabs(x[i] - middle), p);
  return sum;
}

static double l2(const double *x, int i) {
  (void)i;
  return sqrt(power_sum(x, 2, 0));
}

static double scaled_l2(const double *x, int i) {
  return x[i] / l2(x, i);
}

static double l3(const double *x, int i) {
  (void)i;
  return cbrt(power_sum(x, 3, 0));
}

static double root_mean_square(const double *x, int i) {
  return x[i] / sqrt(power_sum(x, 2, 0) / COUNT + (double)1e-5f);
}

static double deviation(const double *x, int i) {
  const double mean = (x[0] + x[1] + x[2] + x[3]) / COUNT;
  return (x[i] - mean) / (sqrt(power_sum(x, 2, mean) / COUNT) + 1e-9);
}

static double layer(const double *x, int i) {
  const double mean = (x[0] + x[1] + x[2] + x[3]) / COUNT;
  return (x[i] - mean) / sqrt(power_sum(x, 2, mean) / COUNT + (double)1e-5f);
}

typedef struct operator_case {
  const char *name, *sizes;
  int results;
  bool scale; /* has a second input, all ones */
  formula formula;
} operator_case;

static const operator_case cases[] = {{"ReduceL2", "1,4", 1, false, l2},
                                      {"LpNormalization", "1,4", COUNT, false, scaled_l2},
                                      {"GlobalLpPool", "1,1,4", 1, false, l3},
                                      {"RMSNormalization", "1,4", COUNT, true, root_mean_square},
                                      {"MeanVarianceNormalization", "1,4", COUNT, false, deviation},
                                      {"LayerNormalization", "1,4", COUNT, true, layer}};

static compute_model *load(const operator_case *c, void **data) {
  static const float ones[COUNT] = {1, 1, 1, 1};
  proto graph = {0}, model = {0};
  proto node = node_message("n", c->name, c->scale ? "x,g" : "x", "y");
  if (c->formula == l3) put_integer_attribute(&node, "p", 3);
  if (c->formula == deviation) put_list_attribute(&node, "axes", (const int64_t[]){1}, 1);
  put_message(&graph, GRAPH_NODE, node);
  put_text(&graph, 2, "main");
  if (c->scale) put_message(&graph, GRAPH_INITIALIZER, vector_message("g", ones, COUNT));
  put_typed(&graph, GRAPH_INPUT, "x", c->sizes);
  put_values(&graph, GRAPH_OUTPUT, "y");
  put_integer(&model, 1, 11);
  put_message(&model, MODEL_GRAPH, graph);
  put_message(&model, 8, opset_message("", 23));
  compute_model *loaded = NULL;
  assert_ok(compute_model_load_memory(test_context, model.data, model.bytes, NULL, &loaded));
  *data = model.data;
  return loaded;
}

static void check(const operator_case *c, compute_model *model, float scale) {
  float x[COUNT], y[COUNT];
  double wide[COUNT];
  for (int i = 0; i < COUNT; i++) wide[i] = (double)(x[i] = (float)shape_of_x[i] * scale);
  const compute_shape shape =
      c->formula == l3 ? COMPUTE_SHAPE(1, 1, COUNT) : COMPUTE_SHAPE(1, COUNT);
  const compute_model_binding in = {"x", test_tensor(test_context, COMPUTE_F32, shape, x)};
  compute_model_binding out = {"y", NULL};
  assert_ok(compute_model_run(model, &in, 1, &out, 1));
  assert_ok(compute_tensor_read(out.tensor, y, (size_t)c->results * sizeof *y));
  for (int i = 0; i < c->results; i++) {
    const double expected = c->formula(wide, i);
    if (!(fabs((double)y[i] - expected) <= 1e-5 * fabs(expected)))
      fail_msg("%s of numbers of %g: %g instead of %g", c->name, (double)scale, (double)y[i],
               expected);
  }
  compute_tensor_release(in.tensor);
  compute_tensor_release(out.tensor);
}

static const float weights[COUNT] = {0.5f, -1, 0.25f, 2};

/* The derivative of the weighted sum of the results, by central differences. */
static double slope(const operator_case *c, const double *x, int i) {
  double sum = 0;
  for (int side = -1; side <= 1; side += 2) {
    double moved[COUNT];
    memcpy(moved, x, sizeof moved);
    moved[i] += side * 1e-5 * x[i];
    for (int j = 0; j < c->results; j++) sum += side * (double)weights[j] * c->formula(moved, j);
  }
  return sum / (2e-5 * x[i]);
}

static void check_gradient(const operator_case *c, compute_model *model, float scale) {
  float x[COUNT], dx[COUNT];
  double wide[COUNT], most = 0;
  for (int i = 0; i < COUNT; i++) wide[i] = (double)(x[i] = (float)shape_of_x[i] * scale);
  for (int i = 0; i < COUNT; i++) most = fmax(most, fabs(slope(c, wide, i)));
  if (most < 1e-36 || most > 1e36) return; /* f32 holds few digits of the gradient, or none */
  const compute_shape shape =
      c->formula == l3 ? COMPUTE_SHAPE(1, 1, COUNT) : COMPUTE_SHAPE(1, COUNT);
  compute_graph *graph = compute_graph_create(test_context);
  const compute_model_value in = {"x", compute_input(graph, COMPUTE_F32, shape)};
  compute_model_value out = {.name = "y"};
  assert_ok(compute_model_record(model, graph, &in, 1, &out, 1));
  const compute_node by = compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(c->results), weights);
  compute_node y = compute_reshape(graph, out.node, COMPUTE_SHAPE(c->results)), gradient;
  y = compute_sum(graph, compute_mul(graph, y, by), COMPUTE_ALL_AXES, false);
  assert_ok(compute_gradients(graph, y, &in.node, 1, &gradient));
  compute_plan *plan = NULL;
  assert_ok(compute_compile(graph, &gradient, 1, NULL, &plan));
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  assert_true(info.steps <= 10); /* a gradient through the largest element would need more steps */
  compute_tensor *from = test_tensor(test_context, COMPUTE_F32, shape, x);
  compute_tensor *to = test_tensor(test_context, COMPUTE_F32, shape, NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{in.node, from}, {gradient, to}}, 2, NULL));
  assert_ok(compute_tensor_read(to, dx, sizeof dx));
  for (int i = 0; i < COUNT; i++)
    if (!(fabs((double)dx[i] - slope(c, wide, i)) <= 1e-4 * most))
      fail_msg("gradient of %s of numbers of %g: %g instead of %g", c->name, (double)scale,
               (double)dx[i], slope(c, wide, i));
  compute_plan_release(plan);
  compute_graph_release(graph);
  compute_tensor_release(from);
  compute_tensor_release(to);
}

static void check_all(void (*check_one)(const operator_case *, compute_model *, float)) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    void *data;
    compute_model *model = load(&cases[i], &data);
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++)
      check_one(&cases[i], model, scales[s]);
    compute_model_release(model);
    free(data);
  }
}

static void powers_may_leave_the_range(void **state) {
  (void)state;
  check_all(check);
}

static void gradients_may_leave_it_too(void **state) {
  (void)state;
  check_all(check_gradient);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(powers_may_leave_the_range),
                                     cmocka_unit_test(gradients_may_leave_it_too)};
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
