/* SPDX-License-Identifier: MIT */
#include "support/drivers/cuda_stand_in.h"

#include <dlfcn.h>
#include <string.h>

/* dlsym returns functions as object pointers; POSIX guarantees that they fit. */
static bool find(void *library, const char *name, void *function) {
  void *address = dlsym(library, name);
  memcpy(function, &address, sizeof address);
  return address != NULL;
}

bool cuda_stand_in_open(cuda_stand_in *s) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library && find(library, STAND_IN_CONFIGURE, &s->configure) &&
         find(library, STAND_IN_FAILURES, &s->failures) &&
         find(library, STAND_IN_COUNT, &s->count) &&
         find(library, STAND_IN_TOGETHER, &s->together) && find(library, STAND_IN_LIVE, &s->live) &&
         find(library, STAND_IN_MISUSE, &s->misuse);
}

int64_t cuda_stand_in_calls(const cuda_stand_in *stand_in, const char *call) {
  const char *name;
  int64_t sum = 0, count = 0;
  for (uint32_t i = 0; (name = stand_in->count(i, &count)); i++)
    if (call ? strcmp(call, name) == 0 : strcmp(name, "kernel") != 0) sum += count;
  return sum;
}
