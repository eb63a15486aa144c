/* SPDX-License-Identifier: MIT */
/* Running a network on a tensor, with the plan of the last run. */
#include "compute/plan.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"
#include "ml/nn/layer.h"

static const char operation[] = "compute_layer_run";

void layer_forget_plan(compute_layer *layer) {
  compute_plan_release(layer->run.plan);
  layer->run = (layer_plan){0};
}

static bool fits(const layer_plan *run, const compute_tensor *x) {
  return run->plan && run->device == compute_tensor_device(x) && run->dtype == x->dtype &&
         compute_shape_equal(run->shape, x->shape);
}

static compute_status make_plan(compute_layer *layer, const compute_tensor *x) {
  compute_device *device = compute_tensor_device(x);
  layer_plan run = {.device = device, .dtype = x->dtype, .shape = x->shape};
  compute_graph *graph = compute_graph_create(device->context);
  if (!graph) return COMPUTE_ERROR_OUT_OF_MEMORY;
  run.x = compute_input(graph, x->dtype, x->shape);
  run.result = compute_layer_apply(layer, graph, run.x, NULL);
  compute_status status = compute_graph_status(graph);
  const compute_plan_options options = {.device = device, .name = operation};
  if (!status) status = compute_compile(graph, &run.result, 1, &options, &run.plan);
  compute_graph_release(graph);
  if (status) return status;
  layer_forget_plan(layer);
  layer->run = run;
  return COMPUTE_OK;
}

compute_status compute_layer_run(compute_layer *layer, const compute_tensor *x,
                                 compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  compute_tensor *made = NULL;
  REFUSE_INHERITED(layer, context);
  REFUSE_INHERITED(x, buffer->device->context);
  const compute_status missing =
      error_if_null(layer ? layer->context : NULL, operation, layer, x, result);
  if (missing) return missing;
  compute_context *context = compute_tensor_device(x)->context;
  if (layer->context && layer->context != context)
    return error_set(context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "x belongs to another context than the layer's weights");
  compute_status status = fits(&layer->run, x) ? COMPUTE_OK : make_plan(layer, x);
  if (!status) status = compute_plan_create_tensor(layer->run.plan, layer->run.result, &made);
  /* The cast is safe: a run only reads its inputs. */
  if (!status)
    status = compute_run(
        layer->run.plan,
        (compute_binding[]){{layer->run.x, (compute_tensor *)x}, {layer->run.result, made}}, 2,
        NULL);
  if (status)
    compute_tensor_release(made);
  else
    *result = made;
  return status;
}
