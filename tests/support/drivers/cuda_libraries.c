/* SPDX-License-Identifier: MIT */
#include "support/drivers/cuda_libraries.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"

cuda_stand_in gpu;
cuda_library_stand_in blas, dnn;

bool cuda_library_stand_in_open(const char *name, cuda_library_stand_in *l) {
  void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  void *configure = handle ? dlsym(handle, STAND_IN_LIBRARY_CONFIGURE) : NULL;
  void *count = handle ? dlsym(handle, STAND_IN_LIBRARY_COUNT) : NULL;
  memcpy(&l->configure, &configure, sizeof configure);
  memcpy(&l->count, &count, sizeof count);
  return configure && count;
}

bool cuda_libraries_begin(void) {
  if (!cuda_stand_in_open(&gpu) || !cuda_library_stand_in_open("libcublasLt.so.13", &blas) ||
      !cuda_library_stand_in_open("libcudnn.so.9", &dnn))
    return false;
  cuda_libraries_cache(NULL);
  return setenv("COMPUTE_TUNING", "gemm:implementation=1", 1) == 0 &&
         setenv("COMPUTE_CUDA_LIBRARIES", "cublas,cudnn", 1) == 0;
}

void cuda_libraries_cache(const char *folder) {
  if (folder) assert_int_equal(setenv("COMPUTE_CACHE_DIR", folder, 1), 0);
  assert_int_equal(folder ? unsetenv("COMPUTE_CACHE_LIMIT") : setenv("COMPUTE_CACHE_LIMIT", "0", 1),
                   0);
}

compute_context *cuda_libraries_open(const char *device) {
  compute_context *context = NULL;
  assert_true(gpu.configure(""));
  assert_ok(compute_open(&context, &(compute_open_options){.device = device}));
  return context;
}

void cuda_libraries_close(compute_context *context) {
  char text[256];
  test_close(context);
  if (gpu.live(text, sizeof text)) fail_msg("left in the driver: %s", text);
  if (gpu.misuse(text, sizeof text)) fail_msg("%s", text);
  assert_int_equal(blas.count("live"), 0);
  assert_int_equal(dnn.count("live"), 0);
}
