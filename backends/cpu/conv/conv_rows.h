/* SPDX-License-Identifier: MIT */
/* Shared by the schedule (conv_rows_schedule.c) and the execution (conv_rows.c) of FORWARD by
 * rows. */
#ifndef CPU_CONV_ROWS_H
#define CPU_CONV_ROWS_H

#include "conv.h"
#include "gemm/gemm.h"
#include "program/finish.h"

/* A worker's memory begins with the number of the row tile in its copy. */
enum { CONV_ROWS_BAND_BYTES = 64 };

/* Rows of the copy that the windows of a unit's first `rows` rows read. */
static inline int64_t conv_rows_copied(const cpu_conv *conv, int64_t rows) {
  const compute_conv_attributes *c = &conv->shape;
  return (rows - 1) * conv->rows.step[0] + (c->filter_size[0] - 1) * c->dilation[0] + 1;
}

/* The program that the micro-kernel finishes, and its rest: the epilogue, without an addition at
 * its end. */
static inline const cpu_program *conv_rows_finished(const cpu_conv *conv) {
  return conv->epilogue->before ? conv->epilogue->before : conv->epilogue;
}

/* The operand of the addition at the end, or NULL. */
static inline const conv_operand *conv_rows_added(const cpu_conv *conv) {
  return conv->epilogue->before ? &conv->extra[conv->epilogue->added - 1] : NULL;
}

/* Addend number i of the epilogue as one loop (cpu_finish), or NULL. */
static inline const conv_operand *conv_rows_addend(const cpu_conv *conv, int i) {
  const int16_t input = cpu_finish_applied(conv_rows_finished(conv))->input[i];
  return input > 0 ? &conv->extra[input - 1] : NULL;
}

compute_status conv_rows_run(const cpu_kernel *kernel, void *const *pointers);

#endif
