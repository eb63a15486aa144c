/* SPDX-License-Identifier: MIT */
/** @file
 * libcompute: tensors and graphs on the fastest device of the machine. Includes all of the public
 * interface except backend.h and its includes, which are for authors of backends.
 *
 * **Callbacks.** A function that a program passes (to log, allocate, release, read, write, build,
 * record, report progress) must return. It must not leave by longjmp, by a C++ exception, or by
 * ending its thread: locks would stay taken, and compute_close would fail for ever. compute.hpp
 * turns exceptions into statuses. A callback leaves the locale, the signal mask and the
 * floating-point environment as it found them. It runs in the default floating-point environment;
 * on threads of the library all signals are blocked. */
#ifndef COMPUTE_COMPUTE_H
#define COMPUTE_COMPUTE_H

#include "compute/status.h"
#include "compute/dtype.h"
#include "compute/device.h"
#include "compute/tensor.h"
#include "compute/dlpack.h"
#include "compute/eager.h"
#include "compute/graph.h"
#include "compute/graph_nn.h"
#include "compute/call.h"
#include "compute/plan.h"
#include "compute/route.h"
#include "compute/batch.h"
#include "compute/model.h"
#include "compute/fit.h"
#include "compute/spots.h"
#include "compute/simulate.h"
#include "compute/nn.h"
#include "compute/distributed.h"
#include "compute/graph_group.h"
#include "compute/train.h"
#include "compute/job.h"
#include "compute/kernel.h"
#include "compute/tune.h"
#include "compute/profile.h"
#include "compute/validate.h"
#include "compute/io.h"

#endif
