/* SPDX-License-Identifier: MIT */
/* Text files that are complete or absent: written as PATH.incomplete, made durable, then renamed.
 * An existing path that is not a regular file, such as a pipe or a link, is written in place. */
#ifndef TOOLS_FIT_WHOLE_FILE_H
#define TOOLS_FIT_WHOLE_FILE_H

#include <stdio.h>

#include "programs/fit/failure.h"

typedef struct whole_file {
  FILE *stream; /* to print to */
  char *path, *temporary;
} whole_file;

/* COMPUTE_ERROR_FILE or _OUT_OF_MEMORY; after an error there is nothing to close. */
compute_status whole_file_open(whole_file *f, const char *path, failure *why);

/* Gives the file its name. If `written` (the status of the printing) or the stream has an error,
 * the new file is removed and an existing file stays unchanged. Frees everything. */
compute_status whole_file_close(whole_file *f, compute_status written, failure *why);

/* Makes a file that a library has written durable. */
compute_status whole_file_sync(const char *path, failure *why);

#endif
