/* SPDX-License-Identifier: MIT */
/* One of ONNX's node tests: a folder with model.onnx. test_data_set_0 etc. contain its inputs and
 * expected outputs. */
#ifndef ONNX_NODE_CASE_H
#define ONNX_NODE_CASE_H

#include <stdbool.h>

#include "compute/compute.h"

enum { REASON_BYTES = 700 };

enum {
  NODE_CASE_CONSTANTS = 1, /* inputs become initializers of the model */
  NODE_CASE_STRICT = 2     /* no work may fall back to the CPU */
};

typedef enum node_result {
  NODE_FAILS,
  NODE_DRAWS, /* only values differ, and one of each pair is 0: other random draws */
  NODE_PASSES
} node_result;

/* Runs the test in `folder`. Unless it passes, `reason` has the cause. */
node_result node_case_run(compute_context *context, const char *folder, unsigned flags,
                          char reason[REASON_BYTES]);

#endif
