/* SPDX-License-Identifier: MIT */
/* Whether the names on the command line are of different files. */
#ifndef TOOLS_FIT_FILE_NAMES_H
#define TOOLS_FIT_FILE_NAMES_H

#include "programs/fit/options.h"

/* EXIT_GOOD if no file that the command writes is also one that it reads or writes under another
 * name, and none is "-" but that of --json; otherwise EXIT_USAGE, after a message. Files are
 * compared by device and inode, those that do not exist yet by their folder and name. Side-cars and
 * incomplete files count. `more`: further files that the input consists of. Changes nothing. */
int file_names_check(const fit_arguments *a, const char *const *more, size_t count);

#endif
