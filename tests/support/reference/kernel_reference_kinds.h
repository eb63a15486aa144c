/* SPDX-License-Identifier: MIT */
/* The parts of the reference of kernels (kernel_reference.h). */
#ifndef SUPPORT_KERNEL_REFERENCE_KINDS_H
#define SUPPORT_KERNEL_REFERENCE_KINDS_H

#include "support/reference/kernel_reference.h"

typedef struct reference {
  const compute_kernel_descriptor *d;
  const void *const *inputs;
  reference_writer write;
  void *user;
  reference_value *values; /* one per instruction of a program */
} reference;

/* Loads the element of an input at a point with `rank` coordinates. */
reference_value reference_at(const reference *r, uint32_t input, const int64_t *at, int32_t rank);

/* Moves to the first point of a space; false if it is empty. */
bool reference_begin(reference_point *point, const int64_t *size, int32_t rank);

/* Runs the epilogue on `value`, of type `type`, and writes all outputs. The kernel's `own` inputs
 * precede the epilogue's. */
void reference_finish(const reference *r, const reference_point *point,
                      const reference_value *value, compute_dtype type, uint32_t own);

/* Writes an element of a kernel without an epilogue. */
void reference_write(const reference *r, uint32_t output, const int64_t *at,
                     const reference_value *value);

/* BINCOUNT. Ignores bins outside. Returns false without memory. */
bool reference_bincount(const reference *r);

/* FOURIER. Returns false without memory. */
bool reference_fourier(const reference *r);

/* LINALG. Returns false without memory. */
bool reference_linalg(const reference *r);

/* TREES. */
void reference_trees(const reference *r);

/* CONV. */
void reference_convolution(const reference *r);

/* WINDOW, SCAN, TOP_K, SORT, ATTENTION and RECURRENT. Returns false for other kinds and without
 * memory. */
bool reference_network(const reference *r);

#endif
