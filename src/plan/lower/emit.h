/* Programs of clusters. */
#ifndef PLAN_LOWER_PROGRAM_H
#define PLAN_LOWER_PROGRAM_H

#include "plan/lower/lower.h"

/* A program under construction, and where its operands go. */
typedef struct program_site {
  program_builder *builder;
  kernel_draft *draft;  /* its inputs grow by the operands from outside, without their strides */
  uint32_t *value;      /* per node: its number in the program, or IR_NONE. A body begins with the
                         * anchor's value */
  uint32_t reserved;    /* inputs of the program before those (the folded value) */
  uint32_t first_input; /* the kernel's input that is the program's input `reserved` */
} program_site;

/* Emits the cluster's members of one part. */
void emit_part(const lowering *l, const cluster *c, cluster_part part, const program_site *at);

/* The value of `node` as its consumer `by` sees it. f16 and bf16 are computed in f32, and
 * arithmetic takes what is in the register; what is discontinuous (a comparison, a cast, argmax)
 * sees the value rounded to the node's dtype, and so does every consumer of a cast to it. */
uint16_t emit_seen(const lowering *l, const program_site *at, const ir_node *by, uint32_t node);

#endif
