/* SPDX-License-Identifier: MIT */
/* Complete reads and writes of a descriptor (handling interruptions and short counts), and the
 * cache folder. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/status.h"

#define FILE_ENDED (-1) /* the file ends before that number of bytes */

/* The status for a file's errno: COMPUTE_ERROR_OUT_OF_MEMORY for ENOMEM, else
 * COMPUTE_ERROR_FILE. */
static inline compute_status file_status(int code) {
  return code == ENOMEM ? COMPUTE_ERROR_OUT_OF_MEMORY : COMPUTE_ERROR_FILE;
}

/* 0, FILE_ENDED or an errno. */
int file_read(int descriptor, void *data, size_t bytes);

/* The same from an offset in the file, which may be past its end. */
int file_read_at(int descriptor, uint64_t offset, void *data, size_t bytes);

/* 0 or an errno; part of the data may have been written then. */
int file_write(int descriptor, const void *data, size_t bytes);

/* The folder of persistent data: compiled kernels, tuning results. */

/* The path of `name` in the cache folder: COMPUTE_CACHE_DIR, or compute in XDG_CACHE_HOME, or
 * .cache/compute in HOME. A path that is not absolute is ignored. NULL when there is no such folder
 * (`reason` says why; it may be NULL), or no host memory (`reason` is then empty). Free it with
 * base_release. Nothing is created or opened. */
char *cache_folder_path(const char *name, const char **reason);

/* Creates a folder and its missing parents, for this user only. Returns 0 or an errno; an existing
 * folder is unchanged. */
int cache_folder_make(const char *path);

#endif
