/* SPDX-License-Identifier: MIT */
/* Checks that a file can be written, before the work whose result it is to hold. */
#ifndef TOOLS_OUTPUT_CHECK_H
#define TOOLS_OUTPUT_CHECK_H

#include "programs/common/option.h"

/* EXIT_GOOD if `path`, the value of `option`, can be created or written, or is NULL or "-";
 * otherwise EXIT_FAILED, after a message. Creates and changes nothing, so a later write can still
 * fail. */
int output_check(const option_program *program, const char *option, const char *path);

#endif
