/* The check of src/kernel in the words of a public call. */
#include "fit/problem.h"

#include "base/error.h"
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
