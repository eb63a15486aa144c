/* SPDX-License-Identifier: MIT */
/* Prepacked constant inputs, such as a network's weights, in the layout that a kernel reads
 * fastest. */
#ifndef DEVICE_PACKED_H
#define DEVICE_PACKED_H

#include "core/device/buffer.h"

/* One constant input of a kernel. */
typedef struct packed_operand {
  void *kernel;    /* the backend's kernel */
  uint32_t input;  /* index, one of the kernel's constant_inputs */
  uint64_t offset; /* offset of the elements in their buffer, in bytes */
} packed_operand;

/* Returns a reference to the packed input, or NULL if the kernel reads the input unpacked. Kernels
 * with the same form share one packed copy, which lives as long as the buffer. The buffer must be
 * frozen. Thread-safe. Fails when out of memory. */
compute_status packed_get(memory_buffer *buffer, const packed_operand *operand,
                          memory_buffer **packed);

#endif
