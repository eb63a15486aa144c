/* SPDX-License-Identifier: MIT */
/* Checks that the names on the command line refer to different files. */
#ifndef TOOLS_FIT_FILE_NAMES_H
#define TOOLS_FIT_FILE_NAMES_H

#include "programs/fit/options.h"

/* Returns EXIT_GOOD if no output file is also an input or another output under a different name,
 * and only --json may be "-". Otherwise returns EXIT_USAGE after a message. Files are compared by
 * device and inode; files that do not exist yet by folder and name. Side-cars and incomplete files
 * are included. `more`: further files of the input. Changes nothing. */
int file_names_check(const fit_arguments *a, const char *const *more, size_t count);

#endif
