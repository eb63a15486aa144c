/* SPDX-License-Identifier: MIT */
/* The .yaml file beside raw pixels or HDF5. */
#ifndef TOOLS_FIT_SIDE_CAR_H
#define TOOLS_FIT_SIDE_CAR_H

#include <stdbool.h>

#include "programs/fit/failure.h"

/* The path of the side-car: the file's path with .yaml in place of the extension. The caller frees
 * it. NULL: out of memory. */
char *side_car_path(const char *path);

/* COMPUTE_ERROR_FILE if the side-car exists but the file at `path` does not: then it belongs to
 * another file. */
compute_status side_car_check(const char *path, failure *why);

#endif
