/* Where the library keeps what outlives a process: compiled kernels, tuning results. */
#ifndef BASE_CACHE_FOLDER_H
#define BASE_CACHE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* The path of `name` in the cache folder: COMPUTE_CACHE_DIR, or compute in XDG_CACHE_HOME, or
 * .cache/compute in HOME. A path that is not absolute is passed over. NULL when there is no such
 * folder (`reason` says why; it may be NULL), or no host memory (`reason` is then empty).
 * base_release frees it. Nothing is made or opened. */
char *cache_folder_path(const char *name, const char **reason);

/* Makes a folder, and those above it that are missing, for this user alone. Returns 0 or an errno;
 * a folder that is there already is left as it is. */
int cache_folder_make(const char *path);

#endif
