/* SPDX-License-Identifier: MIT */
/** @file
 * The first ring of the public headers: statuses, dtypes, devices, tensors, eager calls, graphs,
 * plans, jobs, files of tensors, profiles. Read these first. compute/compute.h includes them and
 * all other headers for programs; a header of either ring can also be included alone. */
#ifndef COMPUTE_CORE_H
#define COMPUTE_CORE_H

#include "compute/status.h"
#include "compute/dtype.h"
#include "compute/device.h"
#include "compute/tensor.h"
#include "compute/eager.h"
#include "compute/graph.h"
#include "compute/plan.h"
#include "compute/job.h"
#include "compute/io.h"
#include "compute/profile.h"

#endif
