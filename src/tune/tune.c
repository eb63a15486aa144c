/* The public interface of the tuner: what the caller may ask for. */
#include "compute/tune.h"

#include <math.h>

#include "base/error.h"
#include "device/device.h"
#include "tune/tuner.h"

static const char operation[] = "compute_tune";

static compute_status check_options(const compute_context *context,
                                    const compute_tune_options *options) {
  if (options->suite && !problem_suite_valid(options->suite)) {
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "options.suite is '%.100s'; suites are map, copy, reduce, row, gemm and all",
                     options->suite);
  }
  if (!isfinite(options->candidate_seconds) || options->candidate_seconds < 0 ||
      !isfinite(options->total_seconds) || options->total_seconds < 0) {
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "limits must be 0 or more seconds, not %g and %g", options->candidate_seconds,
                     options->total_seconds);
  }
  for (size_t i = 0; i < sizeof options->reserved / sizeof *options->reserved; i++) {
    if (options->reserved[i] != 0)
      return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                       "options.reserved[%zu] is not zero", i);
  }
  return COMPUTE_OK;
}

static compute_status check_device(const compute_device *device) {
  const compute_context *context = device->context;
  if (!device->backend->device_target || !device->backend->kernel_prepare_tuned) {
    return error_set(context, COMPUTE_ERROR_UNSUPPORTED, operation,
                     "%s runs no generated kernels, so there is nothing to tune",
                     device->info.name);
  }
  if (!context->cpu) {
    return error_set_native(context, COMPUTE_ERROR_UNSUPPORTED, 0, operation,
                            "let the cpu module be loaded",
                            "without a CPU device no results can be checked");
  }
  return COMPUTE_OK;
}

typedef struct choice {
  const char *suite;
  bool quick;
} choice;

/* The index-th of the rows chosen. */
static bool chosen_problem(void *user, size_t index, tune_problem *problem) {
  const choice *c = user;
  for (size_t row = 0; problem_build(row, problem); row++)
    if (problem_chosen(row, c->suite, c->quick) && index-- == 0) return true;
  return false;
}

compute_status compute_tune(compute_device *device, const compute_tune_options *options) {
  static const compute_tune_options defaults;
  if (!device) {
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "device is NULL");
  }
  if (!options) options = &defaults;
  compute_status status = check_options(device->context, options);
  if (!status) status = check_device(device);
  if (status) return status;
  choice chosen = {options->suite ? options->suite : "all", options->quick};
  tuner_work work = {.problem = chosen_problem, .user = &chosen, .clock = measure_real_clock};
  for (size_t row = 0; row < problem_count(); row++)
    work.count += problem_chosen(row, chosen.suite, chosen.quick);
  return tuner_run(device, options, &work);
}
