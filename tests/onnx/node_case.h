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

/* Runs the test in `folder`. False if it fails: `reason` says why. */
bool node_case_run(compute_context *context, const char *folder, unsigned flags,
                   char reason[REASON_BYTES]);

#endif
