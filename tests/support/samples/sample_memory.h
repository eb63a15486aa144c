/* SPDX-License-Identifier: MIT */
/* The operands of a sample in host memory, with guards around them: what a device is given, what it
 * should leave, and whether it has. */
#ifndef SUPPORT_SAMPLE_MEMORY_H
#define SUPPORT_SAMPLE_MEMORY_H

#include "support/samples/sample_kernels.h"

enum { SAMPLE_GUARD = 64 };

/* One operand: `bytes` of memory whose first element, as the descriptor counts, is at `offset`.
 * What does not belong to an element holds a pattern. */
typedef struct sample_operand {
  compute_dtype dtype;
  int64_t elements;
  size_t bytes, offset;
  unsigned char *before;   /* what the device is given */
  unsigned char *expected; /* what it should leave, by the reference */
  unsigned char *after;    /* what it has left: to be filled in by the caller */
} sample_operand;

typedef struct sample_memory {
  const sample_kernel *sample;
  uint32_t count; /* inputs, then outputs */
  sample_operand operand[COMPUTE_MAX_OPERANDS];
} sample_memory;

/* Fills the inputs. With `shift` operands lie one element off the alignment that memory has. False
 * without memory. */
bool sample_memory_create(const sample_kernel *sample, bool shift, sample_memory *memory);
void sample_memory_release(sample_memory *memory);

/* Works out `expected`. False if the reference cannot. */
bool sample_memory_expect(sample_memory *memory);

/* Whether `after` is as it should be; else `problem` says what is wrong first. */
bool sample_memory_check(const sample_memory *memory, char *problem, size_t problem_bytes);

#endif
