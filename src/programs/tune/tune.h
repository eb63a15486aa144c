/* SPDX-License-Identifier: MIT */
/* The parts of compute-tune. */
#ifndef TOOLS_TUNE_H
#define TOOLS_TUNE_H

#include <signal.h>

#include "compute/compute.h"
#include "programs/common/option.h"
#include "programs/common/terminal.h"

typedef struct tune_arguments {
  option_line line;
  const char *device, *import_path, *export_path;
  bool list, costs;
  compute_tune_options options;
} tune_arguments;

extern const option_program tune_program;

/* The result for one problem. */
typedef struct tune_row {
  char problem[64];
  double before, after; /* seconds */
  char parameters[256]; /* "" if the default is kept */
} tune_row;

/* The state of a run, for its callback. */
typedef struct tune_report {
  progress_bar bar;
  tune_row *rows; /* finished problems */
  size_t count, capacity;
  bool failed; /* out of memory for a row */
  const volatile sig_atomic_t *interrupted;
} tune_report;

/* The callback for compute_tune; `user` is a tune_report. */
bool tune_progress(void *user, const compute_tune_progress *progress);

/* Returns true if some problem has better parameters now. */
bool tune_found_any(const tune_report *report);

/* Prints the table of results on standard output. */
void tune_print_results(const tune_report *report);

/* Prints the active entries of the tuning file on standard output; only for one device if it is not
 * NULL. Returns 0, or −1 with a message on standard error. */
int tune_list(compute_context *context, const compute_device *device);

/* Measures the costs of `only` or of every device, and prints them. Each device takes at most
 * `limit` seconds (0: no limit). With `dry` it only looks up the costs in effect. */
compute_status tune_costs(compute_context *context, compute_device *only, bool dry, double limit);

#endif
