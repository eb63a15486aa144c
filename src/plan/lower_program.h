/* Programs of clusters. */
#ifndef PLAN_LOWER_PROGRAM_H
#define PLAN_LOWER_PROGRAM_H

#include "plan/lower.h"

/* Emits the cluster's members of one part into `b`. `value` (one entry for each node, IR_NONE where
 * not yet computed) starts with what the part begins from: the anchor's value for a body. Operands
 * from outside are appended to the draft's inputs, whose strides are left to the caller:
 * `first_input` is the program's input 0 among them, and `reserved` inputs of the program come
 * before those (the folded value). */
void emit_part(const lowering *l, const cluster *c, cluster_part part, program_builder *b,
               uint32_t *value, kernel_draft *draft, uint32_t first_input, uint32_t reserved);

/* The value of one operand inside a part; adds a load or a constant for one from outside. */
uint32_t emit_operand(const lowering *l, program_builder *b, uint32_t *value, kernel_draft *draft,
                      uint32_t first_input, uint32_t reserved, uint32_t node);

#endif
