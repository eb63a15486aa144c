/* SPDX-License-Identifier: MIT */
/* The arithmetic of recurrent cells between their products, by type and instruction set. */
#ifndef CPU_ISA_RECURRENT_TABLE_H
#define CPU_ISA_RECURRENT_TABLE_H

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

typedef void (*cpu_recurrent_loop)(int64_t count, const cpu_recurrent_row *row);

typedef struct cpu_recurrent_loops {
  cpu_recurrent_loop rnn, lstm, lstm_peepholes;
  cpu_recurrent_loop gru; /* with reset_after */
  /* The two halves without reset_after: the first writes z to sums[0] and r · h to reset_h. The
   * second needs the product of reset_h in sums[2]. */
  cpu_recurrent_loop gru_gates, gru_state;
} cpu_recurrent_loops;

CPU_DECLARE_FLOATS(cpu_recurrent_loops, cpu_recurrent);

#endif
