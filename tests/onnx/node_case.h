/* SPDX-License-Identifier: MIT */
/* One of ONNX's node tests: a folder with model.onnx, and in test_data_set_0 and so on its inputs
 * and the outputs that are expected. */
#ifndef ONNX_NODE_CASE_H
#define ONNX_NODE_CASE_H

#include <stdbool.h>

#include "compute/compute.h"

enum { REASON_BYTES = 700 };

enum {
  NODE_CASE_CONSTANTS = 1, /* its inputs are initializers of the model */
  NODE_CASE_STRICT = 2     /* nothing may be left to the CPU */
};

typedef enum node_result {
  NODE_FAILS,
  NODE_DRAWS, /* fails by values alone: where they differ, one of both is 0, as with random numbers
                 of another generator that keep an element or drop it */
  NODE_PASSES,
  NODE_PASSES_REWRITTEN /* sequences, optionals and texts at its ports had to be taken apart */
} node_result;

/* Runs the test in `folder`. Unless it passes, `reason` says why. */
node_result node_case_run(compute_context *context, const char *folder, unsigned flags,
                          char reason[REASON_BYTES]);

#endif
