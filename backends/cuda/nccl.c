/* SPDX-License-Identifier: MIT */
/* Opens NCCL for communicator.c. */
#include "nccl.h"

#include "vendor.h"

typedef nccl_functions functions_of;
static const library_row rows[] = {NCCL_FUNCTIONS(CUDA_LIBRARY_ROW)};
static nccl_functions functions[CUDA_LIBRARY_NAMES];

static size_t version(const void *of) {
  int32_t number = 0;
  return ((const nccl_functions *)of)->version(&number) == NCCL_OK ? (size_t)number : 0;
}

/* NCCL has no per-device handle. */
static int32_t create(const void *of, void **handle) {
  *handle = (void *)(uintptr_t)of;
  return NCCL_OK;
}

static int32_t destroy(const void *of, void *handle) {
  (void)of;
  (void)handle;
  return NCCL_OK;
}

const cuda_library_kind nccl_kind = {.title = "NCCL",
                                     .choice = "nccl",
                                     .names = {"libnccl.so.2"},
                                     .oldest = NCCL_OLDEST,
                                     CUDA_LIBRARY_FIELDS};
