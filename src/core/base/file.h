/* SPDX-License-Identifier: MIT */
/* Complete reads and writes of a descriptor (they handle interruptions and short counts), and the
 * cache folder. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/status.h"

#define FILE_ENDED (-1) /* the file ends before the requested bytes */

/* The status for an errno: COMPUTE_ERROR_OUT_OF_MEMORY for ENOMEM, otherwise COMPUTE_ERROR_FILE. */
static inline compute_status file_status(int code) {
  return code == ENOMEM ? COMPUTE_ERROR_OUT_OF_MEMORY : COMPUTE_ERROR_FILE;
}

/* Returns 0, FILE_ENDED or an errno. */
int file_read(int descriptor, void *data, size_t bytes);

/* file_read at an offset in the file, which may be past its end. */
int file_read_at(int descriptor, uint64_t offset, void *data, size_t bytes);

/* Returns 0 or an errno. After an error, part of the data may have been written. */
int file_write(int descriptor, const void *data, size_t bytes);

/* The cache folder holds persistent data: compiled kernels and tuning results. */

/* Returns the path of `name` in the cache folder: COMPUTE_CACHE_DIR, XDG_CACHE_HOME/compute or
 * HOME/.cache/compute. Ignores relative paths. Returns NULL if there is no such folder, with the
 * cause in `reason` (may be NULL). Also returns NULL when out of memory, with an empty `reason`.
 * Free the path with base_release. Creates and opens nothing. */
char *cache_folder_path(const char *name, const char **reason);

/* Creates a folder and its missing parents, for this user only. An existing folder is unchanged.
 * Returns 0 or an errno. */
int cache_folder_make(const char *path);

#endif
