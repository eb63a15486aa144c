/* SPDX-License-Identifier: MIT */
/* The arithmetic of recurrent cells between their products, by type and instruction set. */
#ifndef CPU_ISA_RECURRENT_TABLE_H
#define CPU_ISA_RECURRENT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/isa.h"

enum { CPU_RECURRENT_GATES = 4 };

/* Some hidden units of one sequence, at one step: arrays of the computing type. The arrays do not
 * overlap. */
typedef struct cpu_recurrent_row {
  const void *x[CPU_RECURRENT_GATES]; /* the step's input */
  void *sums[CPU_RECURRENT_GATES];    /* products with the state */
  const void *peephole[3];            /* for input, output and forget gate; NULL without */
  const void *bias;                   /* for GRU; may be NULL */
  const void *h;                      /* before the step */
  void *next;                         /* h after the step */
  void *c;                            /* LSTM: updated */
  void *reset_h;                      /* GRU: r · h */
  double clip;                        /* may be infinite */
} cpu_recurrent_row;

/* A state rounded to bytes: q represents (q − zero) · scale. */
typedef struct cpu_recurrent_rounding {
  float scale;
  int32_t zero, sum; /* the sum of all q */
} cpu_recurrent_rounding;

/* Of columns of R: their sums, zero points and scales. */
typedef struct cpu_recurrent_columns {
  const int32_t *sums, *zeros;
  const float *scales;
} cpu_recurrent_columns;

typedef void (*cpu_recurrent_loop)(int64_t count, const cpu_recurrent_row *row);

typedef struct cpu_recurrent_loops {
  cpu_recurrent_loop rnn, lstm, lstm_peepholes;
  cpu_recurrent_loop gru; /* with reset_after */
  /* The two halves without reset_after: the first writes z to sums[0] and r · h to reset_h. The
   * second needs the product of reset_h in sums[2]. */
  cpu_recurrent_loop gru_gates, gru_state;
  /* F32 only. Rounds h to `bytes`: u8 or, with `is_signed`, i8, 128 less with its zero point. */
  void (*round)(int64_t count, const float *h, bool is_signed, uint8_t *bytes,
                cpu_recurrent_rounding *rounding);
  /* F32 only. Sums of products of `hidden` bytes become their values, f32, in place. */
  void (*scale)(int64_t count, int64_t hidden, const cpu_recurrent_rounding *rounding,
                const cpu_recurrent_columns *columns, int32_t *sums);
} cpu_recurrent_loops;

CPU_DECLARE_FLOATS(cpu_recurrent_loops, cpu_recurrent);

#endif
