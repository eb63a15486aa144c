/* SPDX-License-Identifier: MIT */
/* What never changes, kept in the form that a kernel reads fastest: the weights of a network. */
#ifndef DEVICE_PACKED_H
#define DEVICE_PACKED_H

#include "core/device/buffer.h"

/* One input of a kernel. */
typedef struct packed_operand {
  void *kernel;    /* the backend's */
  uint32_t input;  /* one of its constant_inputs */
  uint64_t offset; /* of the elements in their buffer, in bytes */
} packed_operand;

/* The input in the kernel's own form, a reference, or NULL if the kernel reads it as it lies. It is
 * made once for all kernels that want the same form, and kept as long as the buffer, which is
 * frozen. Thread-safe. Fails when memory is short. */
compute_status packed_get(memory_buffer *buffer, const packed_operand *operand,
                          memory_buffer **packed);

#endif
