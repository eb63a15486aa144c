/* SPDX-License-Identifier: MIT */
/* What GATHER and SCATTER have in common: places along the axis, and how work is shared out. */
#ifndef GENERATE_INDEXED_H
#define GENERATE_INDEXED_H

#include "codegen/generate/emit/emit.h"

/* Refuses what no target can do with these operands; sets g->wide if the walked tensor (the one
 * with the axis) is too large for 32 bits. COMPUTE_OK or a refusal. */
compute_status indexed_check(generation *g, const compute_operand *walked);

/* shape.axis_size, shape.axis_stride, and shape.wrap, what a negative index is counted from. */
void indexed_fields(generation *g, emit_launch *launch);

/* Declares `i64 place`, the place that the element `at` of in1 chooses, and opens the block that
 * runs if it lies on the axis; else the fault is noted. Two braces close it. */
void indexed_open(generation *g, text_buffer *text, const char *at);
void indexed_close(text_buffer *text);

#endif
