/* SPDX-License-Identifier: MIT */
/* Error messages of compute-run. */
#include <stdio.h>

#include "programs/run/run.h"

int run_fail(const compute_context *context) {
  compute_error error;
  compute_error_get(context, &error);
  option_say(&run_program, "%s", error.message);
  if (error.remedy[0]) fprintf(stderr, "  %s\n", error.remedy);
  return EXIT_FAILED;
}

int run_out_of_memory(void) {
  option_say(&run_program, "out of memory");
  return EXIT_FAILED;
}
