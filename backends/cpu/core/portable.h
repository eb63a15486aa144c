/* SPDX-License-Identifier: MIT */
/* The same bits on every processor: kernels that cannot promise this, and functions in place of
 * the C library. */
#ifndef CPU_CORE_PORTABLE_H
#define CPU_CORE_PORTABLE_H

#include "compute/backend.h"

/* The reason why no portable kernel computes the descriptor, or NULL. */
const char *cpu_portable_refuse(const compute_kernel_descriptor *descriptor);

/* Each within two units in the last place, by additions, multiplications and divisions only. So all
 * processors and C libraries agree. NaN gives NaN. cpu_sin_cos takes 0 ≤ x ≤ π/4. */
double cpu_exp(double x);
double cpu_log(double x);
void cpu_sin_cos(double x, double *sine, double *cosine);

#endif
