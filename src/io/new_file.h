/* SPDX-License-Identifier: MIT */
/* A file that appears under its name only when it is complete, and errors for file system
 * failures. */
#ifndef IO_NEW_FILE_H
#define IO_NEW_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "compute/status.h"

typedef struct new_file {
  const compute_context *context; /* receives errors, under `operation` */
  const char *operation;
  const char *path;
  char *name; /* temporary name until the file is complete */
  int descriptor;
  uint64_t bytes; /* written so far */
} new_file;

/* Creates a temporary file next to `path`. The strings must outlive it. After a failure, there is
 * nothing to close. */
compute_status new_file_open(const compute_context *context, const char *operation,
                             const char *path, new_file *file);

/* Appends `bytes` bytes. */
compute_status new_file_write(new_file *file, const void *data, size_t bytes);

/* Overwrites bytes that have been written. */
compute_status new_file_write_at(new_file *file, uint64_t offset, const void *data, size_t bytes);

/* Finishes the file. If `status`, the result of all writes, is COMPUTE_OK, the file receives its
 * name. Otherwise removes the file and returns `status`. */
compute_status new_file_close(new_file *file, compute_status status);

/* COMPUTE_ERROR_FILE with the text of the errno `code`: "PATH: cannot WHAT: …". The code FILE_ENDED
 * gives COMPUTE_ERROR_FORMAT. */
compute_status file_error(const compute_context *context, const char *operation, const char *path,
                          const char *what, int code);

/* A name for a message: truncated, and without control characters. */
#define SHOWN_NAME_BYTES 84
const char *file_show_name(const char *name, char text[SHOWN_NAME_BYTES]);

#endif
