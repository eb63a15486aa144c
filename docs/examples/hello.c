/* SPDX-License-Identifier: MIT */
/* y = gelu(x · w + b) on the fastest device of this machine.
 *
 *   cc hello.c $(pkg-config --cflags --libs compute) -o hello && ./hello          */
#include <compute/compute.h>
#include <stdio.h>

int main(void) {
  compute_context *context = NULL;
  compute_tensor *weights = NULL, *bias = NULL, *images = NULL, *out = NULL;
  compute_plan *plan = NULL;
  compute_status s = compute_open(&context, NULL); /* finds modules and devices */
  if (s) return fprintf(stderr, "hello: %s\n", compute_error_message(NULL)), 1;
  compute_device *device = compute_default_device(context);
  s = compute_tensor_random(device, COMPUTE_F32, COMPUTE_SHAPE(784, 10), -.1, .1, 1, &weights);
  if (!s) s = compute_tensor_random(device, COMPUTE_F32, COMPUTE_SHAPE(10), -.1, .1, 2, &bias);
  if (!s) s = compute_tensor_random(device, COMPUTE_F32, COMPUTE_SHAPE(64, 784), 0, 1, 3, &images);

  /* Builder calls need no checks: compute_compile returns the first error. */
  compute_graph *g = compute_graph_create(context);
  compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(64, 784));
  compute_node w = compute_parameter(g, weights), b = compute_parameter(g, bias);
  compute_node y = compute_gelu(g, compute_add(g, compute_matmul(g, x, w), b));
  if (!s) s = compute_compile(g, &y, 1, &(compute_plan_options){.device = device}, &plan);
  if (!s) s = compute_plan_create_tensor(plan, y, &out);
  if (!s) s = compute_run(plan, (compute_binding[]){{x, images}, {y, out}}, 2, NULL);

  float result[64][10];
  compute_device_info info = {.name = "none"};
  if (!s) s = compute_tensor_read(out, result, sizeof result);
  if (!s) s = compute_device_describe(device, &info);
  if (s) {
    fprintf(stderr, "hello: %s\n", compute_error_message(NULL));
  } else {
    printf("gelu(x · w + b) on device %s, %s\nfirst row:", info.name, info.model);
    for (int i = 0; i < 10; i++) printf(" %.4f", (double)result[0][i]);
    printf("\n");
  }
  compute_plan_release(plan);
  compute_graph_release(g);
  compute_tensor_release(weights), compute_tensor_release(bias);
  compute_tensor_release(images), compute_tensor_release(out);
  compute_close(context);
  return s ? 1 : 0;
}
