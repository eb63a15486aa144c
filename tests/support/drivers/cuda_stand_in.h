/* SPDX-License-Identifier: MIT */
/* Opens the stand-in driver of tests/cuda_driver/ in the test's process. */
#ifndef SUPPORT_CUDA_STAND_IN_H
#define SUPPORT_CUDA_STAND_IN_H

#include "cuda_driver/stand_in.h"

typedef struct cuda_stand_in {
  stand_in_configure_function *configure;
  stand_in_failures_function *failures;
  stand_in_count_function *count;
  stand_in_together_function *together;
  stand_in_live_function *live;
  stand_in_misuse_function *misuse;
} cuda_stand_in;

/* Returns false if the loader's libcuda.so.1 is not the stand-in. */
bool cuda_stand_in_open(cuda_stand_in *stand_in);

/* Counts the calls of `call` since the last orders; NULL counts all calls. */
int64_t cuda_stand_in_calls(const cuda_stand_in *stand_in, const char *call);

#endif
