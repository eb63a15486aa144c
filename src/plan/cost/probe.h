/* SPDX-License-Identifier: MIT */
/* The kernels whose times form the curves of a device. */
#ifndef COST_PROBE_H
#define COST_PROBE_H

#include "core/kernel/kernel.h"
#include "core/kernel/common/program.h"
#include "plan/cost/costs.h"

/* The contents of a probe's inputs. They are never zeros, which some devices process faster. */
typedef enum probe_data { PROBE_F32, PROBE_F64, PROBE_F16, PROBE_BF16, PROBE_INDEX } probe_data;

enum { PROBE_INPUTS = 2 };

/* Built in place: the descriptor points into it. */
typedef struct probe {
  compute_kernel_descriptor descriptor;
  kernel_attributes attributes;
  compute_operand inputs[PROBE_INPUTS], output;
  probe_data data[PROBE_INPUTS];
  uint64_t elements[PROBE_INPUTS]; /* covered by the strides */
  program_builder program;
  double work; /* in the unit of the class */
} probe;

/* Builds probe number `point` of a class, in ascending sizes, with buffers of at most `most` f32
 * elements. Returns false past the end. */
bool probe_build(work_class class, uint32_t point, uint64_t most, probe *p);

#endif
