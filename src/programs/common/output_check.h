/* SPDX-License-Identifier: MIT */
/* Checks that an output file can be written, before the work begins. */
#ifndef TOOLS_OUTPUT_CHECK_H
#define TOOLS_OUTPUT_CHECK_H

#include "programs/common/option.h"

/* Checks that `path`, the value of `option`, can be created or written. NULL and "-" are also good.
 * Returns EXIT_GOOD, or EXIT_FAILED after a message. Creates and changes nothing, so a later write
 * can still fail. */
int output_check(const option_program *program, const char *option, const char *path);

#endif
