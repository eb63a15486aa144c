/* SPDX-License-Identifier: MIT */
/* Texts for the properties that a context reports, shared by the command-line programs. */
#ifndef TOOLS_DESCRIBE_H
#define TOOLS_DESCRIBE_H

#include <stdbool.h>

#include "compute/compute.h"

/* One bit of compute_device_info.capabilities. */
typedef struct describe_capability {
  uint64_t bit;
  const char *name; /* "unified memory" */
} describe_capability;

/* The table ends with a bit of 0. */
extern const describe_capability describe_capabilities[];

const char *describe_device_type(compute_device_type type);

/* Writes the folder of the caches to `text`: COMPUTE_CACHE_DIR, $XDG_CACHE_HOME/compute or
 * ~/.cache/compute. The text is empty if none of the variables is set. */
void describe_cache_folder(char *text, size_t text_bytes);

/* Returns true if "NAME=value" sets one of the variables that control OpenBLAS or OpenMP. */
bool describe_is_blas_variable(const char *assignment);

#endif
