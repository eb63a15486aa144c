/* SPDX-License-Identifier: MIT */
/* compute-tune: finds the best parameters for generated kernels on this machine and saves them. */
#include "programs/tune/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t interrupted;

/* Only the first Ctrl-C interrupts the run. A second one ends the program at once. */
static void on_interrupt(int signal_number) {
  (void)signal_number;
  interrupted = 1;
  signal(SIGINT, SIG_DFL);
}

/* ---- Actions ------------------------------------------------------------------------------- */

static int fail(const compute_context *context) {
  compute_error error;
  compute_error_get(context, &error);
  option_say(&tune_program, "%s", error.message);
  if (error.remedy[0]) fprintf(stderr, "  %s\n", error.remedy);
  return error.status == COMPUTE_ERROR_INVALID_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
}

static int exchange(compute_context *context, const compute_device *device,
                    const tune_arguments *a) {
  size_t skipped = 0;
  if (a->import_path) {
    if (compute_tuning_import(context, a->import_path, &skipped)) return fail(context);
    if (skipped)
      option_say(&tune_program, "%zu invalid line%s skipped", skipped,
                 skipped == 1 ? " was" : "s were");
  }
  if (a->export_path) {
    const char *path = strcmp(a->export_path, "-") ? a->export_path : "/dev/stdout";
    if (compute_tuning_export(context, path, device)) return fail(context);
  }
  return a->list && tune_list(context, device) ? EXIT_FAILED : EXIT_GOOD;
}

/* Tunes the requested device, or the first device with generated kernels. */
static compute_status tune_device(compute_context *context, compute_device *device,
                                  const compute_tune_options *options) {
  compute_status status = COMPUTE_ERROR_UNSUPPORTED;
  if (device) return compute_tune(device, options);
  /* The best device is first. A device without generated kernels refuses. */
  for (size_t i = 0; status == COMPUTE_ERROR_UNSUPPORTED; i++) {
    compute_device *next = compute_device_at(context, i);
    if (!next) break;
    status = compute_tune(next, options);
  }
  return status;
}

static int tune(compute_context *context, compute_device *device, tune_arguments *a) {
  const struct sigaction action = {.sa_handler = on_interrupt};
  tune_report report = {.bar = progress_begin(false, 0), .interrupted = &interrupted};
  char path[4096] = "";
  a->options.progress = tune_progress;
  a->options.user = &report;
  sigaction(SIGINT, &action, NULL);
  compute_status status = tune_device(context, device, &a->options);
  progress_hide(&report.bar);
  int result = EXIT_GOOD;
  if (status == COMPUTE_ERROR_CANCELLED) {
    result = EXIT_INTERRUPTED;
  } else if (status == COMPUTE_ERROR_UNSUPPORTED && !device) {
    option_say(&tune_program, "no device runs generated kernels; nothing to tune");
    result = EXIT_FAILED;
  } else if (status) {
    result = fail(context);
  }
  tune_print_results(&report);
  compute_tuning_path(context, path, sizeof path);
  if (tune_found_any(&report) && !a->options.dry) printf("kept in %s\n", path);
  if (report.failed) option_say(&tune_program, "out of memory: some results are missing above");
  free(report.rows);
  return result;
}

static int run(tune_arguments *a) {
  compute_context *context = NULL;
  compute_device *device = NULL;
  if (compute_open(&context, NULL)) return fail(NULL);
  int result = EXIT_GOOD;
  if (a->device && compute_device_by_name(context, a->device, &device))
    result = fail(context);
  else if (a->costs)
    result = tune_costs(context, device, a->options.dry, a->options.total_seconds) ? fail(context)
                                                                                   : EXIT_GOOD;
  else if (a->import_path || a->export_path || a->list)
    result = exchange(context, device, a);
  else
    result = tune(context, device, a);
  if (fflush(stdout) && result == EXIT_GOOD) {
    perror("compute-tune: standard output");
    result = EXIT_FAILED;
  }
  compute_close(context);
  return result;
}

int main(int argc, char **argv) {
  static tune_arguments a;
  int status;
  return option_read(&tune_program, argc, argv, &a, &status) ? run(&a) : status;
}
