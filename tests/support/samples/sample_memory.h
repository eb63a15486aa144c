/* SPDX-License-Identifier: MIT */
/* A sample's operands in host memory with guards: the bytes before the kernel runs, the bytes
 * expected after it, and their comparison with the actual bytes. */
#ifndef SUPPORT_SAMPLE_MEMORY_H
#define SUPPORT_SAMPLE_MEMORY_H

#include "support/samples/sample_kernels.h"

enum { SAMPLE_GUARD = 64 };

/* One operand: `bytes` of memory whose first element, by the descriptor, is at `offset`. Bytes
 * outside the elements hold a pattern. */
typedef struct sample_operand {
  compute_dtype dtype;
  int64_t elements;
  size_t bytes, offset;
  unsigned char *before;   /* input of the device */
  unsigned char *expected; /* result of the reference */
  unsigned char *after;    /* result of the device, filled in by the caller */
} sample_operand;

typedef struct sample_memory {
  const sample_kernel *sample;
  uint32_t count; /* inputs, then outputs */
  sample_operand operand[COMPUTE_MAX_OPERANDS];
} sample_memory;

/* Fills the inputs. With `shift`, operands are one element off the memory's alignment. Returns
 * false without memory. */
bool sample_memory_create(const sample_kernel *sample, bool shift, sample_memory *memory);
void sample_memory_release(sample_memory *memory);

/* Computes `expected`. Returns false if the reference cannot. */
bool sample_memory_expect(sample_memory *memory);

/* Returns true if `after` is correct; otherwise `problem` describes the first error. */
bool sample_memory_check(const sample_memory *memory, char *problem, size_t problem_bytes);

#endif
