/* SPDX-License-Identifier: MIT */
/* The .yaml beside a file of raw pixels or HDF5. */
#ifndef TOOLS_FIT_SIDE_CAR_H
#define TOOLS_FIT_SIDE_CAR_H

#include <stdbool.h>

#include "programs/fit/failure.h"

/* Its path: that of the file, with .yaml in place of the extension. Free it. NULL: out of memory.
 */
char *side_car_path(const char *path);

/* COMPUTE_ERROR_FILE if it exists, without the file whose it would be: it is another's. */
compute_status side_car_check(const char *path, failure *why);

#endif
