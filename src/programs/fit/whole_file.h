/* SPDX-License-Identifier: MIT */
/* Text files that are whole or not there: written as PATH.incomplete, made durable, then renamed.
 * What is there and is no regular file, such as a pipe or a link, is written in place. */
#ifndef TOOLS_FIT_WHOLE_FILE_H
#define TOOLS_FIT_WHOLE_FILE_H

#include <stdio.h>

#include "programs/fit/failure.h"

typedef struct whole_file {
  FILE *stream; /* to print to */
  char *path, *temporary;
} whole_file;

/* COMPUTE_ERROR_FILE, or _OUT_OF_MEMORY; then nothing has to be closed. */
compute_status whole_file_open(whole_file *f, const char *path, failure *why);

/* Gives the file its name, unless `written`, how the printing went, or the stream itself says that
 * something failed: then nothing is left, and what was there before stays. Frees everything. */
compute_status whole_file_close(whole_file *f, compute_status written, failure *why);

/* Makes a file that a library has written durable. */
compute_status whole_file_sync(const char *path, failure *why);

#endif
