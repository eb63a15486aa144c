/* SPDX-License-Identifier: MIT */
/* Samples of FIT with their data: simulated spots as seen by a camera, maps, corners, starts and
 * bounds, and a few ROIs that cannot be fitted. Results of a device are compared with the
 * double-precision reference (fit_reference.h). */
#ifndef SUPPORT_SAMPLE_FITS_H
#define SUPPORT_SAMPLE_FITS_H

#include "support/samples/sample_kernels.h"

/* sample_fit_kernels covers every model, solver, camera, profile, input, output and pixel layout in
 * few programs, because each takes long to compile. This function adds all combinations of solvers,
 * cameras and models, for fast compilers. */
void sample_fits_in_full(sample_visitor visit, void *user);

/* Visits a sample of the caller's problem, completed with defaults. */
void sample_fit_visit(const compute_fit_problem *problem, compute_dtype pixels, int64_t n,
                      sample_visitor visit, void *user);

/* The sizes for an operand's strides; 1 for missing dimensions of the three. */
void sample_fit_sizes(const compute_kernel_descriptor *d, uint32_t operand, int64_t size[3]);

/* Fills the inputs, given the addresses of their first elements. */
void sample_fit_fill(const sample_kernel *s, void *const *operands);

/* Returns true if the records (at the first element's address) match the inputs; otherwise
 * `problem` describes the first error. */
bool sample_fit_check(const sample_kernel *s, const void *const *operands, const float *records,
                      char *problem, size_t problem_bytes);

#endif
