/* SPDX-License-Identifier: MIT */
/* The layer of tests/opencl_layer/ in the test's own process. */
#ifndef SUPPORT_OPENCL_LAYER_H
#define SUPPORT_OPENCL_LAYER_H

#include "opencl_layer/layer.h"

/* Tests that were configured without an OpenCL device find no layer. */
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

/* Opens the layer at `path` and makes the loader use it too: before anything of OpenCL is loaded.
 * False if there is no such file. */
bool opencl_layer_open(const char *path, opencl_layer *layer);

#endif
