/* What a context has done so far, as a file. */
#ifndef COMPUTE_PROFILE_H
#define COMPUTE_PROFILE_H

#include "compute/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a JSON report of the context to `path`: for each device its name, model and driver, the
 * counters of its pool (compute_pool_statistics) and of its builds (compute_build_statistics), and
 * those of the disk cache. The file is replaced by renaming, so that a reader never sees half of
 * it; a path that is a pipe, a device or a link is written to as it is. Devices of modules that
 * have not been needed yet are left out. COMPUTE_ERROR_FILE, _NULL_POINTER, _OUT_OF_MEMORY.
 * Thread-safe.
 *
 * With COMPUTE_PROFILE=FILE in the environment every context writes this report when it closes. */
COMPUTE_API compute_status compute_profile_write(compute_context *context, const char *path);

#ifdef __cplusplus
}
#endif
#endif
