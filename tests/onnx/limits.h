/* SPDX-License-Identifier: MIT */
/* A context for models that may request any amount: large requests fail, so that no model takes
 * long. */
#ifndef ONNX_LIMITS_H
#define ONNX_LIMITS_H

#include <stdbool.h>

#include "compute/compute.h"

/* Opens a CPU context with one thread, 256 MB of host memory and 16 MB in its pool. Call it once
 * per process, before any other context is opened. */
bool limits_open(compute_context **context);

#endif
