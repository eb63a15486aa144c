/* SPDX-License-Identifier: MIT */
/* A context for models that may ask for anything: what needs much memory fails, so that none takes
 * long. */
#ifndef ONNX_LIMITS_H
#define ONNX_LIMITS_H

#include <stdbool.h>

#include "compute/compute.h"

/* Opens a context of the CPU with one thread, 256 MB of host memory and 16 MB in its pool. Once in
 * a process, before any other context. */
bool limits_open(compute_context **context);

#endif
