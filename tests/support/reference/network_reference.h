/* SPDX-License-Identifier: MIT */
/* References of WINDOW, SCAN, TOP_K, SORT, ATTENTION and RECURRENT, by their definitions in
 * compute/backend.h: plain loops in double, or in wrapping integers. */
#ifndef SUPPORT_NETWORK_REFERENCE_H
#define SUPPORT_NETWORK_REFERENCE_H

#include "support/samples/sample_convolutions.h"

/* Receives an element of output number `output`, not yet rounded to the output's dtype. */
typedef void (*network_store)(void *user, uint32_t output, const int64_t *point,
                              const sample_element *value);

/* Returns false for other kinds and without memory. `operands` are the addresses of the inputs'
 * first elements. Epilogues follow sample_convolution_element. */
bool network_reference(const compute_kernel_descriptor *d, const void *const *operands,
                       network_store store, void *user);

#endif
