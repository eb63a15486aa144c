/* SPDX-License-Identifier: MIT */
/* The parsed command line of compute-conformance. */
#ifndef BACKEND_OPTIONS_H
#define BACKEND_OPTIONS_H

#include "programs/common/option.h"

typedef struct options {
  option_line line; /* its operand is the device */
  const char *module, *filter, *expect, *write_expect, *json, *hooks;
  int64_t seed;
  bool list, verbose, quick, full, quiet;
} options;

extern const option_program conformance_program;

#endif
