/* compute-tune: finds the best parameters for generated kernels on this machine and keeps them. */
#include "tools/tune/tune.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: compute-tune [--device D] [--suite S] [--quick] [--dry-run] [--limit SECONDS]\n"
    "                    [--candidate-limit SECONDS]\n"
    "       compute-tune [--import FILE] [--export FILE] [--list] [--device D]\n"
    "       compute-tune --costs [--device D] [--dry-run] [--limit SECONDS]\n"
    "Measures parameters for the kernels that libcompute generates for a device, checks their\n"
    "results against the CPU's, and keeps those that are faster in the tuning file, where every\n"
    "program finds them. Ctrl-C ends it; what was found until then stays.\n"
    "  --device D             the device; without it, the first that can be tuned\n"
    "  --suite S              kinds of kernels with ',' between (gemm,conv), or all\n"
    "  --quick                few problems and few candidates\n"
    "  --dry-run              measure, but keep nothing\n"
    "  --limit SECONDS        for the whole run\n"
    "  --candidate-limit SECONDS   of running for one set of parameters; 1 without it\n"
    "  --import FILE          take the entries of another tuning file into this one\n"
    "  --export FILE          write the entries in force, of --device D or of all; - for standard\n"
    "                         output\n"
    "  --list                 show them\n"
    "  --costs                measure what launches, copies and the kinds of kernels cost on "
    "device D\n"
    "                         or on all, by which plans are placed automatically; --dry-run only\n"
    "                         shows the figures in force; --limit is for each device, 10 without "
    "it\n"
    "  --help                 this text\n"
    "Exit status: 0; 1 when something failed; 2 for wrong arguments; 130 after Ctrl-C.\n";

enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

typedef struct arguments {
  const char *device, *import_path, *export_path;
  bool list, costs, help;
  compute_tune_options options;
} arguments;

static volatile sig_atomic_t interrupted;

/* Only the first time: whoever presses Ctrl-C twice wants an end at once. */
static void on_interrupt(int signal_number) {
  (void)signal_number;
  interrupted = 1;
  signal(SIGINT, SIG_DFL);
}

/* ---- Arguments ----------------------------------------------------------------------------- */

static bool parse_seconds(const char *text, double *seconds) {
  char *end;
  errno = 0;
  *seconds = strtod(text, &end);
  return errno == 0 && end != text && *end == '\0' && isfinite(*seconds) && *seconds > 0;
}

/* The argument that an option takes goes to *text or, as a number, to *seconds. */
static bool takes_value(arguments *a, const char *option, const char ***text, double **seconds) {
  *text = NULL;
  *seconds = NULL;
  if (!strcmp(option, "--device"))
    *text = &a->device;
  else if (!strcmp(option, "--suite"))
    *text = &a->options.suite;
  else if (!strcmp(option, "--import"))
    *text = &a->import_path;
  else if (!strcmp(option, "--export"))
    *text = &a->export_path;
  else if (!strcmp(option, "--limit"))
    *seconds = &a->options.total_seconds;
  else if (!strcmp(option, "--candidate-limit"))
    *seconds = &a->options.candidate_seconds;
  return *text || *seconds;
}

static bool takes_none(arguments *a, const char *option) {
  bool *flag = !strcmp(option, "--quick")                           ? &a->options.quick
               : !strcmp(option, "--dry-run")                       ? &a->options.dry
               : !strcmp(option, "--list")                          ? &a->list
               : !strcmp(option, "--costs")                         ? &a->costs
               : !strcmp(option, "--help") || !strcmp(option, "-h") ? &a->help
                                                                    : NULL;
  if (flag) *flag = true;
  return flag != NULL;
}

static bool parse_arguments(int argc, char **argv, arguments *a) {
  for (int i = 1; i < argc; i++) {
    const char **text;
    double *seconds;
    if (takes_none(a, argv[i])) continue;
    if (!takes_value(a, argv[i], &text, &seconds)) {
      fprintf(stderr, "compute-tune: unknown argument '%s'; see compute-tune --help\n", argv[i]);
      return false;
    }
    if (i + 1 == argc) {
      fprintf(stderr, "compute-tune: %s needs a value\n", argv[i]);
      return false;
    }
    const char *value = argv[++i];
    if (text) *text = value;
    if (seconds && !parse_seconds(value, seconds)) {
      fprintf(stderr, "compute-tune: %s is a number of seconds above 0, not '%s'\n", argv[i - 1],
              value);
      return false;
    }
  }
  return true;
}

/* ---- What it does -------------------------------------------------------------------------- */

static int fail(const compute_context *context) {
  compute_error error;
  compute_error_get(context, &error);
  fprintf(stderr, "compute-tune: %s%s%s\n", error.message, error.remedy[0] ? "; " : "",
          error.remedy);
  return error.status == COMPUTE_ERROR_INVALID_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
}

static int exchange(compute_context *context, const compute_device *device, const arguments *a) {
  size_t skipped = 0;
  if (a->import_path) {
    if (compute_tuning_import(context, a->import_path, &skipped)) return fail(context);
    if (skipped) fprintf(stderr, "compute-tune: %zu lines of no use were skipped\n", skipped);
  }
  if (a->export_path) {
    const char *path = strcmp(a->export_path, "-") ? a->export_path : "/dev/stdout";
    if (compute_tuning_export(context, path, device)) return fail(context);
  }
  return a->list && tune_list(context, device) ? EXIT_FAILED : EXIT_GOOD;
}

/* On the device asked for, or else on the first that has something to tune. */
static compute_status tune_device(compute_context *context, compute_device *device,
                                  const compute_tune_options *options) {
  compute_status status = COMPUTE_ERROR_UNSUPPORTED;
  if (device) return compute_tune(device, options);
  /* Best first; every refusal until then is a device without generated kernels. */
  for (size_t i = 0; status == COMPUTE_ERROR_UNSUPPORTED; i++) {
    compute_device *next = compute_device_at(context, i);
    if (!next) break;
    status = compute_tune(next, options);
  }
  return status;
}

static int tune(compute_context *context, compute_device *device, arguments *a) {
  const struct sigaction action = {.sa_handler = on_interrupt};
  tune_report report = {.terminal = isatty(STDERR_FILENO) != 0, .interrupted = &interrupted};
  char path[4096] = "";
  a->options.progress = tune_progress;
  a->options.user = &report;
  sigaction(SIGINT, &action, NULL);
  compute_status status = tune_device(context, device, &a->options);
  tune_report_end(&report);
  int result = EXIT_GOOD;
  if (status == COMPUTE_ERROR_CANCELLED) {
    result = EXIT_INTERRUPTED;
  } else if (status == COMPUTE_ERROR_UNSUPPORTED && !device) {
    fprintf(stderr, "compute-tune: no device here runs generated kernels; nothing to tune\n");
    result = EXIT_FAILED;
  } else if (status) {
    result = fail(context);
  }
  tune_print_results(&report);
  compute_tuning_path(context, path, sizeof path);
  if (tune_found_any(&report) && !a->options.dry) printf("kept in %s\n", path);
  if (report.failed) fprintf(stderr, "compute-tune: no memory for all results\n");
  free(report.rows);
  return result;
}

static int run(arguments *a) {
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
  static arguments a;
  if (!parse_arguments(argc, argv, &a)) return EXIT_USAGE;
  if (a.help) {
    fputs(help, stdout);
    return EXIT_GOOD;
  }
  return run(&a);
}
