/* SPDX-License-Identifier: MIT */
/* A file that appears under its name only when it is complete, and the words for what the system
 * says of a file. */
#ifndef IO_NEW_FILE_H
#define IO_NEW_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "compute/status.h"

typedef struct new_file {
  const compute_context *context; /* errors go there, under `operation` */
  const char *operation;
  const char *path;
  char *name; /* that it has until it is complete */
  int descriptor;
  uint64_t bytes; /* written so far */
} new_file;

/* Makes a file beside `path`. The strings must outlive it. On failure nothing is to be closed. */
compute_status new_file_open(const compute_context *context, const char *operation,
                             const char *path, new_file *file);

/* At its end. */
compute_status new_file_write(new_file *file, const void *data, size_t bytes);

/* Over what has been written already. */
compute_status new_file_write_at(new_file *file, uint64_t offset, const void *data, size_t bytes);

/* Ends it: gives it its name if `status`, of all that was written, is COMPUTE_OK; else removes it
 * and returns `status`. */
compute_status new_file_close(new_file *file, compute_status status);

/* COMPUTE_ERROR_FILE with the text of `code`, an errno: "PATH: cannot WHAT: …". FILE_ENDED is
 * COMPUTE_ERROR_FORMAT. */
compute_status file_error(const compute_context *context, const char *operation, const char *path,
                          const char *what, int code);

/* A name as it can be shown in a message: cut, and without control characters. */
#define SHOWN_NAME_BYTES 84
const char *file_show_name(const char *name, char text[SHOWN_NAME_BYTES]);

#endif
