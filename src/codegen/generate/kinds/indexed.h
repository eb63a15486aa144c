/* SPDX-License-Identifier: MIT */
/* The part that GATHER and SCATTER share: places along the axis. BINCOUNT uses its faults. */
#ifndef GENERATE_INDEXED_H
#define GENERATE_INDEXED_H

#include "codegen/generate/emit/emit.h"

/* Checks the operands. Returns COMPUTE_OK, or a refusal for a case that no target can run. Sets
 * g->wide if the walked tensor (the one with the axis) is too large for 32 bits. */
compute_status indexed_check(generation *g, const compute_operand *walked);

/* Adds shape.axis_size, shape.axis_stride, and shape.wrap, the offset for negative indices. */
void indexed_fields(generation *g, emit_launch *launch);

/* Declares `i64 place`, the place that the element `at` of in1 chooses. Opens the block that runs
 * if the place is on the axis; otherwise the text notes the fault. indexed_close closes it with two
 * braces. */
void indexed_open(generation *g, text_buffer *text, const char *at);
void indexed_close(text_buffer *text);

/* Notes that element `at` of `buffer` is outside its axis. */
void indexed_fault(generation *g, text_buffer *text, const char *buffer, const char *at);

#endif
