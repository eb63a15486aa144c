/* What the checks of descriptors share. Each returns false when it has written why. */
#ifndef KERNEL_DESCRIPTOR_CHECK_H
#define KERNEL_DESCRIPTOR_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "compute/backend.h"

/* Where a check writes why it failed. */
typedef struct explanation {
  char *text;
  size_t bytes;
} explanation;

/* Writes the reason; returns false. */
bool descriptor_refuse(const explanation *why, const char *format, ...) COMPUTE_PRINTF(2, 3);

bool descriptor_check_counts(const compute_kernel_descriptor *d, uint32_t inputs, uint32_t outputs,
                             const explanation *why);
bool descriptor_check_no_programs(const compute_kernel_descriptor *d, const explanation *why);

/* Whether memory can hold an axis of that size. */
bool descriptor_check_axis(int64_t size, const explanation *why);

/* Outputs must have an element of their own for each position in dimensions 0 … rank − 1. */
bool descriptor_check_outputs_distinct(const compute_kernel_descriptor *d, int32_t rank,
                                       const explanation *why);

/* An epilogue over value 0 of the kernel (of type `first`) and the inputs from `rest` on; without a
 * program there must be one output and no such inputs. */
bool descriptor_check_epilogue(const compute_kernel_descriptor *d, compute_dtype first,
                               uint32_t rest, int32_t rank, const explanation *why);

bool descriptor_check_spots(const compute_kernel_descriptor *d, const explanation *why);

/* The kinds of descriptor_network.c. */
bool descriptor_check_window(const compute_kernel_descriptor *d, const explanation *why);
bool descriptor_check_scan(const compute_kernel_descriptor *d, const explanation *why);
bool descriptor_check_top_k(const compute_kernel_descriptor *d, const explanation *why);
bool descriptor_check_attention(const compute_kernel_descriptor *d, const explanation *why);

#endif
