/* SPDX-License-Identifier: MIT */
/* A kernel descriptor as bytes: the key of the kernel cache, and the way back.
 *
 * The key holds exactly the parts of the descriptor that its kind uses. So equal work has equal
 * keys, whatever the unused fields contain. */
#ifndef KERNEL_KERNEL_KEY_H
#define KERNEL_KERNEL_KEY_H

#include "core/kernel/kernel.h"

/* Space for the header, all operands, two programs of the largest size, and the attributes. */
#define KERNEL_KEY_BYTES                                                                           \
  (256 + KERNEL_ATTRIBUTE_BYTES + COMPUTE_MAX_OPERANDS * (4 + 8 * COMPUTE_MAX_RANK) +              \
   2 * (COMPUTE_MAX_INSTRUCTIONS * sizeof(compute_instruction) + 2 * COMPUTE_MAX_OPERANDS))

typedef struct kernel_key {
  size_t length;
  unsigned char bytes[KERNEL_KEY_BYTES];
} kernel_key;

/* `true` if the key can be written. descriptor_check reports the cause otherwise. */
bool kernel_key_fits(const compute_kernel_descriptor *descriptor);

void kernel_key_write(kernel_key *key, const compute_kernel_descriptor *descriptor);

/* A descriptor together with the data that it points to. */
typedef struct descriptor_copy {
  compute_kernel_descriptor descriptor;
  compute_operand operands[COMPUTE_MAX_OPERANDS]; /* inputs, then outputs */
  compute_instruction prologue[COMPUTE_MAX_INSTRUCTIONS], epilogue[COMPUTE_MAX_INSTRUCTIONS];
  uint16_t prologue_outputs[COMPUTE_MAX_OPERANDS], epilogue_outputs[COMPUTE_MAX_OPERANDS];
  kernel_attributes attributes;
} descriptor_copy;

/* Restores the descriptor of a key. Fields that its kind does not use are 0. */
void kernel_key_read(const unsigned char *key, descriptor_copy *copy);

#endif
