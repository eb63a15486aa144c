/* SPDX-License-Identifier: MIT */
/* Whole reads and writes of a descriptor (interruptions and short counts are dealt with), and the
 * cache folder. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/status.h"

#define FILE_ENDED (-1) /* the file ends before that number of bytes */

/* The status for an errno of a file's: COMPUTE_ERROR_OUT_OF_MEMORY for ENOMEM, else
 * COMPUTE_ERROR_FILE. */
static inline compute_status file_status(int code) {
  return code == ENOMEM ? COMPUTE_ERROR_OUT_OF_MEMORY : COMPUTE_ERROR_FILE;
}

/* 0, FILE_ENDED or an errno. */
int file_read(int descriptor, void *data, size_t bytes);

/* The same from a place in the file, which may be past its end. */
int file_read_at(int descriptor, uint64_t offset, void *data, size_t bytes);

/* 0 or an errno; part of the data may have been written then. */
int file_write(int descriptor, const void *data, size_t bytes);

/* Where the library keeps what outlives a process: compiled kernels, tuning results. */

/* The path of `name` in the cache folder: COMPUTE_CACHE_DIR, or compute in XDG_CACHE_HOME, or
 * .cache/compute in HOME. A path that is not absolute is passed over. NULL when there is no such
 * folder (`reason` says why; it may be NULL), or no host memory (`reason` is then empty).
 * base_release frees it. Nothing is made or opened. */
char *cache_folder_path(const char *name, const char **reason);

/* Makes a folder, and those above it that are missing, for this user alone. Returns 0 or an errno;
 * a folder that is there already is left as it is. */
int cache_folder_make(const char *path);

#endif
