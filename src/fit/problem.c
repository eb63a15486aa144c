/* What stacks and frames share: the problem, checked in the words of a public call, the inputs of
 * an ROI, and the options of their batches. */
#include "fit/problem.h"

#include "base/error.h"
#include "fit/fit.h"
#include "kernel/fit_problem.h"

compute_status fit_problem_take(const compute_context *context, const char *operation,
                                const compute_fit_problem *problem, compute_fit_problem *normal) {
  char reason[256];
  if (!fit_problem_check(problem, reason, sizeof reason))
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "problem.%s", reason);
  if (problem->rows * problem->columns < fit_problem_free_count(problem))
    return error_set(context, COMPUTE_ERROR_SHAPE, operation,
                     "an ROI of %d × %d has fewer pixels than the %d free parameters",
                     (int)problem->rows, (int)problem->columns,
                     (int)fit_problem_free_count(problem));
  *normal = fit_problem_normalize(problem);
  return COMPUTE_OK;
}

/* ---- What stacks and frames share ---------------------------------------------------------- */

int32_t fit_input_width(const compute_fit *fit, int32_t number) {
  const uint32_t bit = UINT32_C(1) << number;
  return bit == COMPUTE_FIT_WITH_CORNERS ? 3
         : bit == COMPUTE_FIT_WITH_SIGMA ? 2
                                         : compute_fit_parameter_count(fit->problem.model);
}

const void *fit_input_array(const compute_fit_run_options *options, int32_t number) {
  const void *const arrays[FIT_INPUTS] = {
      [0] = options->corners, [5] = options->sigma, [6] = options->start,
      [7] = options->lower,   [8] = options->upper,
  };
  return arrays[number];
}

compute_node fit_record(const compute_fit *fit, compute_graph *graph, compute_node pixels,
                        uint32_t inputs, const compute_node *nodes, compute_tensor *const *maps) {
  compute_fit_problem problem = fit->problem;
  compute_node map[FIT_MAP_COUNT] = {{0}};
  problem.inputs |= inputs;
  for (int i = 0; i < FIT_MAP_COUNT; i++)
    if (maps[i] != NULL) map[i] = compute_parameter(graph, maps[i]);
  const compute_fit_nodes all = {.corners = nodes[0],
                                 .offset = map[0],
                                 .gain = map[1],
                                 .variance = map[2],
                                 .mask = map[3],
                                 .sigma = nodes[5],
                                 .start = nodes[6],
                                 .lower = nodes[7],
                                 .upper = nodes[8]};
  return compute_gaussian_fit(graph, pixels, &problem, &all);
}

compute_batch_options fit_batch_options(compute_fit *fit) {
  return (compute_batch_options){.user = fit,
                                 .output_count = 1,
                                 .devices = fit->devices,
                                 .device_count = fit->device_count,
                                 .batch = fit->batch_items,
                                 .slots = fit->slots,
                                 .memory = fit->memory,
                                 .fallback = fit->fallback,
                                 .flags = fit->flags,
                                 .name = fit->name};
}
