/* SPDX-License-Identifier: MIT */
#include "support/drivers/opencl_layer.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* dlsym returns functions as object pointers; POSIX guarantees that they fit. */
static bool find(void *library, const char *name, void *function) {
  void *address = dlsym(library, name);
  memcpy(function, &address, sizeof address);
  return address != NULL;
}

bool opencl_layer_open(const char *path, opencl_layer *layer) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return library && find(library, LAYER_ARM, &layer->arm) &&
         find(library, LAYER_FAILURES, &layer->failures) &&
         find(library, LAYER_COUNT, &layer->count) && find(library, LAYER_LIVE, &layer->live) &&
         find(library, LAYER_LIE, &layer->lie) && setenv("OPENCL_LAYERS", path, 1) == 0;
}
