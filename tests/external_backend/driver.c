/* SPDX-License-Identifier: MIT */
/* Uses the external module through the public interface: finds it, computes on it, makes it refuse,
 * and falls back. The exit status is 0 if every check passes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/compute.h"

#define COUNT 1000

static int failures;

static void check(int good, const char *what) {
  if (good) return;
  failures++;
  fprintf(stderr, "failed: %s (last error: %s)\n", what, compute_error_message(NULL));
}

#define CHECK(condition) check((condition), #condition)
#define CHECK_OK(call)   check((call) == COMPUTE_OK, #call)

static float x_values[COUNT], y_values[COUNT];

static const compute_probe *probe_named(const compute_context *context, const char *name) {
  const compute_probe *probe;
  for (size_t i = 0; (probe = compute_probe_at(context, i)) != NULL; i++) {
    if (strcmp(probe->name, name) == 0) return probe;
  }
  return NULL;
}

static void the_module_is_found(compute_context *context, compute_device *device) {
  const compute_probe *probe = probe_named(context, "external");
  compute_device_info info;
  CHECK(probe && probe->state == COMPUTE_PROBE_LOADED);
  CHECK(probe && strcmp(probe->version, "7.5") == 0 && probe->device_count == 1);
  CHECK_OK(compute_device_describe(device, &info));
  CHECK(strcmp(info.name, "external:0") == 0);
  CHECK(info.type == COMPUTE_DEVICE_ACCELERATOR && info.priority > 0);
  CHECK(compute_default_device(context) == device); /* it ranks above the CPU */
}

/* relu(x * 2 + y); with `use_exp`, exp of this value. */
static compute_node build(compute_graph *graph, compute_node *x, compute_node *y, int use_exp) {
  const compute_shape shape = COMPUTE_SHAPE(COUNT);
  *x = compute_input(graph, COMPUTE_F32, shape);
  *y = compute_input(graph, COMPUTE_F32, shape);
  compute_node two = compute_scalar(graph, COMPUTE_F32, 2);
  compute_node sum = compute_add(graph, compute_mul(graph, *x, two), *y);
  compute_node result = compute_relu(graph, sum);
  return use_exp ? compute_exp(graph, result) : result;
}

static void results_check(compute_tensor *result, int use_exp) {
  static float got[COUNT];
  CHECK_OK(compute_tensor_read(result, got, sizeof got));
  int wrong = 0;
  for (int i = 0; i < COUNT; i++) {
    const double value = fmax(x_values[i] * 2.0 + y_values[i], 0);
    const double expected = use_exp ? exp(value) : value;
    wrong += !(fabs(got[i] - expected) <= 1e-5 * fabs(expected) + 1e-6);
  }
  CHECK(wrong == 0);
}

static void a_graph_runs(compute_context *context, compute_device *device, int use_exp,
                         int use_queue) {
  compute_graph *graph = compute_graph_create(context);
  compute_node x, y, result = build(graph, &x, &y, use_exp);
  compute_plan *plan = NULL;
  compute_plan_info info = {0};
  const compute_plan_options options = {.device = device, .fallback = COMPUTE_FALLBACK_SILENT};
  CHECK_OK(compute_compile(graph, &result, 1, &options, &plan));
  CHECK_OK(compute_plan_describe(plan, &info));
  CHECK(use_exp ? info.fallbacks > 0 : info.fallbacks == 0);

  compute_tensor *tx = NULL, *ty = NULL, *out = NULL;
  const compute_shape shape = COMPUTE_SHAPE(COUNT);
  CHECK_OK(compute_tensor_from_host(device, COMPUTE_F32, shape, x_values, &tx));
  CHECK_OK(compute_tensor_from_host(device, COMPUTE_F32, shape, y_values, &ty));
  CHECK_OK(compute_tensor_create(device, COMPUTE_F32, shape, &out));
  const compute_binding bindings[] = {{x, tx}, {y, ty}, {result, out}};
  compute_queue *queue = NULL;
  if (use_queue) CHECK_OK(compute_queue_create(device, &queue));
  for (int round = 0; round < 3; round++) {
    CHECK_OK(compute_run(plan, bindings, 3, queue));
    compute_event *event = NULL;
    if (queue) CHECK_OK(compute_event_record(queue, &event));
    if (queue && round == 1) CHECK_OK(compute_event_wait(event));
    if (queue && round != 1) CHECK_OK(compute_queue_wait(queue));
    compute_event_release(event);
    results_check(out, use_exp);
  }
  compute_queue_release(queue);
  compute_tensor_release(out);
  compute_tensor_release(ty);
  compute_tensor_release(tx);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void a_strict_plan_fails_with_the_modules_reason(compute_context *context,
                                                        compute_device *device) {
  compute_graph *graph = compute_graph_create(context);
  compute_node x, y, result = build(graph, &x, &y, 1);
  compute_plan *plan = NULL;
  const compute_plan_options options = {.device = device, .fallback = COMPUTE_FALLBACK_STRICT};
  CHECK(compute_compile(graph, &result, 1, &options, &plan) == COMPUTE_ERROR_UNSUPPORTED);
  CHECK(strstr(compute_error_message(context), "only adds and multiplies f32") != NULL);
  compute_graph_release(graph);
}

static void too_much_memory_is_an_error(compute_device *device) {
  compute_tensor *tensor = NULL;
  CHECK(compute_tensor_create(device, COMPUTE_U8, COMPUTE_SHAPE(INT64_C(1) << 40), &tensor) ==
        COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
  CHECK(tensor == NULL);
}

static void a_module_that_refuses_to_start_is_explained(void) {
  compute_context *context = NULL;
  setenv("COMPUTE_CPU_ISA", "scalar", 1);
  CHECK_OK(compute_open(&context, NULL));
  const compute_probe *probe = probe_named(context, "external");
  CHECK(probe && probe->state == COMPUTE_PROBE_MISSING_LIBRARY);
  CHECK(probe && strstr(probe->detail, "libexternal.so.1"));
  CHECK(probe && strcmp(probe->remedy, "install libexternal") == 0);
  compute_device *device = NULL;
  CHECK(compute_device_by_name(context, "external", &device) == COMPUTE_ERROR_NO_DEVICE);
  CHECK(strstr(compute_error_message(context), "missing library") != NULL);
  CHECK_OK(compute_close(context));
  unsetenv("COMPUTE_CPU_ISA");
}

int main(void) {
  for (int i = 0; i < COUNT; i++) {
    x_values[i] = (float)(i % 17) / 8 - 1;
    y_values[i] = (float)(i % 23) / 16 - 0.5f;
  }
  compute_context *context = NULL;
  compute_device *device = NULL;
  CHECK_OK(compute_open(&context, NULL));
  CHECK_OK(compute_device_by_name(context, "external", &device));
  if (failures) return 1;
  the_module_is_found(context, device);
  for (int mode = 0; mode < 4; mode++) a_graph_runs(context, device, mode & 1, mode & 2);
  a_strict_plan_fails_with_the_modules_reason(context, device);
  too_much_memory_is_an_error(device);
  CHECK_OK(compute_close(context));
  a_module_that_refuses_to_start_is_explained();
  return failures ? 1 : 0;
}
