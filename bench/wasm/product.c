/* SPDX-License-Identifier: MIT */
/* A product of two square matrices of f32, for product.js. The functions return a status. */
#include <compute/compute.h>

#define EXPORTED __attribute__((used, visibility("default")))

EXPORTED const char *product_instructions(void);
EXPORTED int product_open(int size);
EXPORTED int product_run(int times);
EXPORTED double product_sum(void);

static compute_context *context;
static compute_device_info info;
static compute_plan *plan;
static compute_node x, y;
static compute_tensor *in, *out;

const char *product_instructions(void) {
  return info.isa;
}

int product_open(int size) {
  compute_tensor *weights = NULL;
  const compute_shape shape = COMPUTE_SHAPE(size, size);
  compute_status s = compute_open(&context, &(compute_open_options){.device = "cpu"});
  compute_device *device = compute_default_device(context);
  if (!s) s = compute_device_describe(device, &info);
  if (!s) s = compute_tensor_random(device, COMPUTE_F32, shape, -1, 1, 1, &weights);
  if (!s) s = compute_tensor_random(device, COMPUTE_F32, shape, -1, 1, 2, &in);
  if (!s) s = compute_tensor_create(device, COMPUTE_F32, shape, &out);
  if (s) return (int)s;
  compute_graph *g = compute_graph_create(context);
  x = compute_input(g, COMPUTE_F32, shape);
  y = compute_matmul(g, x, compute_parameter(g, weights));
  s = compute_compile(g, &y, 1, &(compute_plan_options){.device = device}, &plan);
  compute_graph_release(g);
  compute_tensor_release(weights);
  return (int)s;
}

int product_run(int times) {
  compute_status s = COMPUTE_OK;
  for (int i = 0; i < times && !s; i++)
    s = compute_run(plan, (compute_binding[]){{x, in}, {y, out}}, 2, NULL);
  return (int)s;
}

/* The sum of the first row, to compare builds. */
double product_sum(void) {
  static float row[1 << 20];
  const compute_shape shape = compute_tensor_shape(out);
  double sum = 0;
  if (shape.size[0] * shape.size[1] > (int64_t)(sizeof row / sizeof *row)) return -1;
  if (compute_tensor_read(out, row, (size_t)(shape.size[0] * shape.size[1]) * sizeof *row))
    return -1;
  for (int64_t i = 0; i < shape.size[1]; i++) sum += (double)row[i];
  return sum;
}
