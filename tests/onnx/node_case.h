/* SPDX-License-Identifier: MIT */
/* One of ONNX's node tests: a folder with model.onnx, and in test_data_set_0 and so on its inputs
 * and the outputs that are expected. */
#ifndef ONNX_NODE_CASE_H
#define ONNX_NODE_CASE_H

#include <stdbool.h>

#include "compute/compute.h"

enum { REASON_BYTES = 700 };

/* Runs the test in `folder`. With `constants` its inputs are initializers of the model. False if it
 * fails: `reason` says why. */
bool node_case_run(compute_context *context, const char *folder, bool constants,
                   char reason[REASON_BYTES]);

#endif
