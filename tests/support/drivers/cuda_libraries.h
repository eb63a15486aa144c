/* SPDX-License-Identifier: MIT */
/* Opens the stand-ins for NVIDIA's libraries (tests/cuda_driver/libraries/) in the test's
 * process. */
#ifndef SUPPORT_CUDA_LIBRARIES_H
#define SUPPORT_CUDA_LIBRARIES_H

#include "compute/compute.h"
#include "support/drivers/cuda_stand_in.h"

typedef struct cuda_library_stand_in {
  stand_in_library_configure_function *configure;
  stand_in_library_count_function *count;
} cuda_library_stand_in;

/* Returns false if the loader finds no stand-in with that name. */
bool cuda_library_stand_in_open(const char *name, cuda_library_stand_in *library);

extern cuda_stand_in gpu;
extern cuda_library_stand_in blas, dnn;

/* Finds the stand-ins and makes the backend use them for every product. Returns false if they are
 * absent. */
bool cuda_libraries_begin(void);

/* Sets the disk cache's folder. NULL, the initial state, means no disk cache: every candidate is
 * tried again. */
void cuda_libraries_cache(const char *folder);

/* Opens a context with this default device, on a GPU without faults. The close function checks that
 * nothing is left, and that no call broke a rule of the driver or of a library. */
compute_context *cuda_libraries_open(const char *device);
void cuda_libraries_close(compute_context *context);

#endif
