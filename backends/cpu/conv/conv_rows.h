/* SPDX-License-Identifier: MIT */
/* What the two halves of FORWARD by rows share: conv_rows_schedule.c, which cuts the work, and
 * conv_rows.c, which does it. */
#ifndef CPU_CONV_ROWS_H
#define CPU_CONV_ROWS_H

#include "conv.h"
#include "gemm/gemm.h"
#include "program/finish.h"

/* A worker's memory begins with the number of the band that its copy is of. */
enum { CONV_ROWS_BAND_BYTES = 64 };

/* Rows of the copy that the first `rows` rows of a unit's windows meet. */
static inline int64_t conv_rows_copied(const cpu_conv *conv, int64_t rows) {
  const compute_conv_attributes *c = &conv->shape;
  return (rows - 1) * conv->rows.step[0] + (c->filter_size[0] - 1) * c->dilation[0] + 1;
}

/* What the micro-kernel finishes, and its rest: the epilogue, or that without an addition at its
 * end. */
static inline const cpu_program *conv_rows_finished(const cpu_conv *conv) {
  return conv->epilogue->before ? conv->epilogue->before : conv->epilogue;
}

/* The operand that is added to it then, or NULL. */
static inline const conv_operand *conv_rows_added(const cpu_conv *conv) {
  return conv->epilogue->before ? &conv->extra[conv->epilogue->added - 1] : NULL;
}

/* The addend number i of the epilogue as one loop (cpu_finish), or NULL. */
static inline const conv_operand *conv_rows_addend(const cpu_conv *conv, int i) {
  const int16_t input = cpu_finish_applied(conv_rows_finished(conv))->input[i];
  return input > 0 ? &conv->extra[input - 1] : NULL;
}

compute_status conv_rows_run(const cpu_kernel *kernel, void *const *pointers);

#endif
