/* SPDX-License-Identifier: MIT */
/* Numbers of distributions on the host. */
#ifndef CORE_KERNEL_COMMON_DRAW_H
#define CORE_KERNEL_COMMON_DRAW_H

#include "compute/backend/kernel_descriptor.h"

/* The result of COMPUTE_I_DRAW_…; NaN for other codes. Unused parameters are ignored. */
double draw_number(compute_instruction_code code, double u, double b, double c);

#endif
