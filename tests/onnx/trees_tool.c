/* SPDX-License-Identifier: MIT */
/* For tree_files.py: computes the trees of a file of XGBoost or LightGBM.
 *
 *   trees_tool MODEL X.npy SUMS.npy PREDICTIONS.npy */
#include <stdio.h>
#include <string.h>

#include "compute/compute.h"

static int fail(const compute_context *context, const char *what) {
  fprintf(stderr, "%s: %s\n", what, compute_error_message(context));
  return 1;
}

static int compute(compute_device *device, compute_context *context,
                   const compute_tree_model *model, compute_tensor *x, bool sums,
                   const char *path) {
  compute_graph *g = compute_graph_create(context);
  const compute_node input = compute_input(g, compute_tensor_dtype(x), compute_tensor_shape(x));
  const compute_node y = compute_tree_model_record(g, input, model, sums);
  compute_plan *plan = NULL;
  compute_tensor *result = NULL;
  int failed = 0;
  if (compute_compile(g, &y, 1, &(compute_plan_options){.device = device}, &plan) ||
      compute_tensor_create(device, compute_node_dtype(g, y), compute_node_shape(g, y), &result) ||
      compute_run(plan, (compute_binding[]){{input, x}, {y, result}}, 2, NULL) ||
      compute_npy_write(result, path))
    failed = fail(context, "compute");
  compute_tensor_release(result);
  compute_plan_release(plan);
  compute_graph_release(g);
  return failed;
}

int main(int argc, char **argv) {
  compute_context *context;
  if (argc != 5) {
    fprintf(stderr, "usage: trees_tool MODEL X.npy SUMS.npy PREDICTIONS.npy\n");
    return 2;
  }
  if (compute_open(&context, NULL)) return fail(NULL, "open");
  compute_device *device = compute_default_device(context);
  compute_tree_model *model = NULL;
  compute_tree_model_info info;
  compute_tensor *x = NULL;
  int failed = 0;
  if (compute_tree_model_load(context, argv[1], &model) ||
      compute_tree_model_describe(model, &info) || compute_npy_read(device, argv[2], &x))
    failed = fail(context, "load");
  if (!failed)
    printf("%s %s %lld %lld %lld\n", info.format, info.objective, (long long)info.features,
           (long long)info.targets, (long long)info.trees);
  for (int i = 3; i < 5 && !failed; i++)
    failed = compute(device, context, model, x, i == 3, argv[i]);
  compute_tensor_release(x);
  compute_tree_model_release(model);
  compute_close(context);
  return failed;
}
