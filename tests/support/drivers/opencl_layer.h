/* SPDX-License-Identifier: MIT */
/* Opens the layer of tests/opencl_layer/ in the test's process. */
#ifndef SUPPORT_OPENCL_LAYER_H
#define SUPPORT_OPENCL_LAYER_H

#include "opencl_layer/layer.h"

/* A build without an OpenCL device has no layer. */
#ifndef TEST_OPENCL_LAYER
#define TEST_OPENCL_LAYER TEST_SCRATCH_DIR "/nowhere"
#endif

typedef struct opencl_layer {
  layer_arm_function *arm;
  layer_failures_function *failures;
  layer_count_function *count;
  layer_live_function *live;
  layer_lie_function *lie;
} opencl_layer;

/* Opens the layer at `path` and makes the loader use it. Call this before any OpenCL library is
 * loaded. Returns false if there is no such file. */
bool opencl_layer_open(const char *path, opencl_layer *layer);

#endif
