/* SPDX-License-Identifier: MIT */
/* The stand-ins for NVIDIA's libraries of tests/cuda_driver/libraries/ in the test's own process.
 */
#ifndef SUPPORT_CUDA_LIBRARIES_H
#define SUPPORT_CUDA_LIBRARIES_H

#include "compute/compute.h"
#include "support/drivers/cuda_stand_in.h"

typedef struct cuda_library_stand_in {
  stand_in_library_configure_function *configure;
  stand_in_library_count_function *count;
} cuda_library_stand_in;

/* False if the loader does not find a stand-in of that name. */
bool cuda_library_stand_in_open(const char *name, cuda_library_stand_in *library);

extern cuda_stand_in gpu;
extern cuda_library_stand_in blas, dnn;

/* Finds them, and has the backend use them for every product; false if they are not there. */
bool cuda_libraries_begin(void);

/* A disk cache in this folder, or none (as at the beginning), so that everything is tried anew. */
void cuda_libraries_cache(const char *folder);

/* A context with this default device, on a GPU that works; and its end, at which nothing may be
 * left, and nothing have been done that a driver or a library forbids. */
compute_context *cuda_libraries_open(const char *device);
void cuda_libraries_close(compute_context *context);

#endif
