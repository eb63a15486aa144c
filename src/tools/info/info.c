/* compute-info: what libcompute finds on this machine, and why it does not find the rest.
 *
 * It opens a context as any program would. When that fails because of the default device that the
 * environment asks for, it tries again without that wish, so that the modules and devices can be
 * shown beside the error; the exit status tells of the error all the same. */
#include "tools/info/info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/describe.h"

static const char help[] =
    "usage: compute-info [--json] [--help]\n"
    "Lists libcompute's backend modules (loaded or why not), devices, environment variables and\n"
    "cache folder.\n"
    "  --json    the same as one JSON object\n"
    "  --help    this text\n"
    "Exit status: 0; 1 when no device, or not the default device asked for, can be used;\n"
    "2 for wrong arguments.\n";

static compute_status open_context(info_report *report) {
  compute_status status = compute_open(&report->context, NULL);
  if (!status) return status;
  compute_error_get(NULL, &report->error);
  const char *asked = compute_variable_value("COMPUTE_DEVICE");
  char *wish = asked ? strdup(asked) : NULL;
  if (wish) {
    unsetenv("COMPUTE_DEVICE");
    compute_open(&report->context, NULL);
    setenv("COMPUTE_DEVICE", wish, 1);
  }
  free(wish);
  return status;
}

int main(int argc, char **argv) {
  bool json = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--json")) {
      json = true;
    } else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
      fputs(help, stdout);
      return 0;
    } else {
      fprintf(stderr, "compute-info: unknown argument '%s'; see compute-info --help\n", argv[i]);
      return 2;
    }
  }

  static info_report report;
  compute_status status = open_context(&report);
  describe_cache_folder(report.cache_folder, sizeof report.cache_folder);
  int failed = 0;
  if (json)
    failed = info_print_json(&report);
  else
    info_print_text(&report);
  if (fflush(stdout)) failed = -1;
  if (failed) fprintf(stderr, "compute-info: the report could not be written\n");
  compute_close(report.context);
  return status || failed ? 1 : 0;
}
