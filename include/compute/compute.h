/* SPDX-License-Identifier: MIT */
/** @file
 * libcompute: tensors and graphs on the fastest device of the machine. Includes all of the public
 * interface except compute/backend.h and compute/backend/, which are for authors of modules.
 * compute/core.h is the part that a first program needs.
 *
 * **Callbacks.** A function that a program passes (to log, allocate, release, read, write, build,
 * record, report progress) must return. It must not leave by longjmp, by a C++ exception, or by
 * ending its thread: locks would stay taken, and compute_close would fail for ever. compute.hpp
 * turns exceptions into statuses. A callback leaves the locale, the signal mask and the
 * floating-point environment as it found them. It runs in the default floating-point environment;
 * on threads of the library all signals are blocked. */
#ifndef COMPUTE_COMPUTE_H
#define COMPUTE_COMPUTE_H

/* The first ring. */
#include "compute/core.h"

/* Further operations and controls. */
#include "compute/call.h"
#include "compute/derivatives.h"
#include "compute/dlpack.h"
#include "compute/fft.h"
#include "compute/eager_array.h"
#include "compute/graph_array.h"
#include "compute/graph_nn.h"
#include "compute/kernel.h"
#include "compute/linalg.h"
#include "compute/random.h"
#include "compute/route.h"
#include "compute/tune.h"
#include "compute/validate.h"

/* One subject each. */
#include "compute/batch.h"
#include "compute/batcher.h"
#include "compute/distributed.h"
#include "compute/fit.h"
#include "compute/graph_group.h"
#include "compute/model.h"
#include "compute/nn.h"
#include "compute/quantize.h"
#include "compute/simulate.h"
#include "compute/spots.h"
#include "compute/train.h"
#include "compute/trees.h"

#endif
