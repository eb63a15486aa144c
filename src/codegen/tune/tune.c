/* SPDX-License-Identifier: MIT */
/* The public calls of the tuner: run the suite, find the tuning file, and exchange entries between
 * machines. */
#include "compute/tune.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "codegen/tune/tuner.h"
#include "codegen/tune/tuning.h"
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"

/* ---- Tuning -------------------------------------------------------------------------------- */

static const char operation_tune[] = "compute_tune";

static compute_status check_options(const compute_context *context,
                                    const compute_tune_options *options) {
  char suites[256];
  if (options->suite && !problem_suite_valid(options->suite)) {
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_tune,
                     "options.suite is '%.100s'; suites are %s and all", options->suite,
                     problem_suites(suites, sizeof suites));
  }
  if (!isfinite(options->candidate_seconds) || options->candidate_seconds < 0 ||
      !isfinite(options->total_seconds) || options->total_seconds < 0) {
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_tune,
                     "limits must be 0 or more seconds, not %g and %g", options->candidate_seconds,
                     options->total_seconds);
  }
  return error_if_reserved(context, operation_tune, "options", options->reserved);
}

static compute_status check_device(const compute_device *device) {
  const compute_context *context = device->context;
  if (!device->backend->device_target || !device->backend->kernel_prepare_tuned) {
    return error_set(context, COMPUTE_ERROR_UNSUPPORTED, operation_tune,
                     "%s runs no generated kernels, so there is nothing to tune",
                     device->info.name);
  }
  if (!context->cpu) {
    return error_set_native(context, COMPUTE_ERROR_UNSUPPORTED, 0, operation_tune,
                            "load the cpu module",
                            "results cannot be checked without a CPU device");
  }
  return COMPUTE_OK;
}

typedef struct choice {
  const char *suite;
  bool quick;
} choice;

/* Builds the index-th of the chosen rows. */
static bool chosen_problem(void *user, size_t index, tune_problem *problem) {
  const choice *c = user;
  for (size_t row = 0; problem_build(row, problem); row++)
    if (problem_chosen(row, c->suite, c->quick) && index-- == 0) return true;
  return false;
}

compute_status compute_tune(compute_device *device, const compute_tune_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(device, context);
  static const compute_tune_options defaults;
  if (!device) {
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation_tune, "device is NULL");
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

/* ---- The file ------------------------------------------------------------------------------ */

compute_status compute_tuning_path(compute_context *context, char *path, size_t bytes) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_tuning_path";
  const compute_status missing = error_if_null(context, operation, context, path);
  if (missing) return missing;
  const char *stored = tuning_store_path(tuning_of(context));
  const size_t length = strlen(stored);
  if (length >= bytes) {
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "the path needs %zu bytes; the buffer has %zu", length + 1, bytes);
  }
  memcpy(path, stored, length + 1);
  return COMPUTE_OK;
}

/* ---- Export -------------------------------------------------------------------------------- */

static compute_status write_entries(const tuning_contents *contents, const char *identity,
                                    FILE *file) {
  for (size_t i = 0; i < contents->count; i++) {
    const tuning_entry *entry = &contents->entries[i];
    char line[ENTRY_LINE_BYTES];
    if (!entry->identity || (identity && strcmp(entry->identity, identity) != 0)) continue;
    const size_t length = entry_print(entry, line);
    if (fwrite(line, 1, length, file) != length) return COMPUTE_ERROR_FILE;
  }
  return COMPUTE_OK;
}

static compute_status export_to(const compute_context *context, const char *path,
                                const tuning_contents *contents, const char *identity) {
  static const char operation[] = "compute_tuning_export";
  FILE *file = fopen(path, "we");
  compute_status status = file ? write_entries(contents, identity, file) : COMPUTE_ERROR_FILE;
  int problem = errno;
  if (file && fclose(file) != 0 && !status) {
    problem = errno;
    status = COMPUTE_ERROR_FILE;
  }
  if (!status) return COMPUTE_OK;
  return error_set_native(context, status, problem, operation, NULL, "cannot write '%.300s': %s",
                          path, strerror(problem));
}

/* The identity of a device. NULL if it has none; then no entry matches it. */
static const char *device_identity(const compute_device *device, char *text) {
  compute_target target = {.struct_size = sizeof target};
  if (!device->backend->device_target ||
      device->backend->device_target(device->handle, &target) != COMPUTE_OK)
    return NULL;
  return entry_identity(&target, text);
}

compute_status compute_tuning_export(compute_context *context, const char *path,
                                     const compute_device *device) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_tuning_export";
  const compute_status missing = error_if_null(context, operation, context, path);
  if (missing) return missing;
  if (device && device->context != context) {
    return error_set(context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "the device belongs to another context");
  }
  char identity[ENTRY_IDENTITY_BYTES] = "", reason[TUNING_REASON_BYTES] = "";
  const char *own = device ? device_identity(device, identity) : NULL;
  const char *from = tuning_store_path(tuning_of(context));
  tuning_contents contents = {0};
  compute_status status = *from ? tuning_file_read(from, true, &contents, reason) : COMPUTE_OK;
  if (!status) status = tuning_file_drop_replaced(&contents, reason);
  if (status)
    error_set(context, status, operation, "%s", reason);
  else
    status = export_to(context, path, &contents, device && !own ? "" : own);
  tuning_file_release(&contents);
  return status;
}

/* ---- Import -------------------------------------------------------------------------------- */

static bool is_known(const tuning_contents *known, const tuning_entry *entry) {
  for (size_t i = 0; i < known->count; i++) {
    const tuning_entry *other = &known->entries[i];
    if (other->identity && !strcmp(other->identity, entry->identity) &&
        !strcmp(other->kernel_class, entry->kernel_class))
      return !memcmp(&other->tuning, &entry->tuning, sizeof entry->tuning) &&
             other->nanoseconds == entry->nanoseconds;
  }
  return false;
}

/* Writes the effective entries of `from` that `known` lacks, as lines in one block of memory. */
static compute_status collect(const tuning_contents *from, const tuning_contents *known,
                              char **lines, size_t *bytes, char *reason) {
  void *text = NULL;
  size_t capacity = 0;
  *bytes = 0;
  for (size_t i = 0; i < from->count; i++) {
    const tuning_entry *entry = &from->entries[i];
    if (!entry->identity || is_known(known, entry)) continue;
    if (base_grow(&text, &capacity, *bytes + ENTRY_LINE_BYTES, 1)) {
      base_release(text);
      snprintf(reason, TUNING_REASON_BYTES, "not enough host memory for the entries");
      return COMPUTE_ERROR_OUT_OF_MEMORY;
    }
    *bytes += entry_print(entry, (char *)text + *bytes);
  }
  *lines = text;
  return COMPUTE_OK;
}

static compute_status import_from(compute_context *context, const char *path, tuning_contents *from,
                                  tuning_contents *known, char *reason) {
  const char *to = tuning_store_path(tuning_of(context));
  char *lines = NULL;
  size_t bytes = 0;
  compute_status status = tuning_file_read(path, false, from, reason);
  if (!status) status = tuning_file_drop_replaced(from, reason);
  if (!status && *to) status = tuning_file_read(to, true, known, reason);
  if (!status) status = tuning_file_drop_replaced(known, reason);
  if (!status) status = collect(from, known, &lines, &bytes, reason);
  if (!status && bytes > 0) status = tuning_store_append(tuning_of(context), lines, bytes, reason);
  base_release(lines);
  return status;
}

compute_status compute_tuning_import(compute_context *context, const char *path, size_t *skipped) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_tuning_import";
  if (skipped) *skipped = 0;
  const compute_status missing = error_if_null(context, operation, context, path);
  if (missing) return missing;
  tuning_contents from = {0}, known = {0};
  char reason[TUNING_REASON_BYTES] = "";
  compute_status status = import_from(context, path, &from, &known, reason);
  if (skipped) *skipped = from.damaged + from.foreign;
  tuning_file_release(&from);
  tuning_file_release(&known);
  return status ? error_set(context, status, operation, "%s", reason) : COMPUTE_OK;
}
