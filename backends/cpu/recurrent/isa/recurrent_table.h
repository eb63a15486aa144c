/* SPDX-License-Identifier: MIT */
/* The arithmetic of recurrent cells between their products, by type and instruction set. */
#ifndef CPU_ISA_RECURRENT_TABLE_H
#define CPU_ISA_RECURRENT_TABLE_H

#include <stdint.h>

#include "core/isa.h"

enum { CPU_RECURRENT_GATES = 4 };

/* Some hidden units of one sequence, at one step: arrays of the computing type. No array is another
 * one. */
typedef struct cpu_recurrent_row {
  const void *x[CPU_RECURRENT_GATES]; /* the step's input */
  void *sums[CPU_RECURRENT_GATES];    /* products with the state */
  const void *peephole[3];            /* of input, output, forget; NULL without */
  const void *bias;                   /* of gru; may be NULL */
  const void *h;                      /* before the step */
  void *next;                         /* h after it */
  void *c;                            /* LSTM: brought up to date */
  void *reset_h;                      /* GRU: r · h */
  double clip;                        /* may be infinite */
} cpu_recurrent_row;

typedef void (*cpu_recurrent_loop)(int64_t count, const cpu_recurrent_row *row);

typedef struct cpu_recurrent_loops {
  cpu_recurrent_loop rnn, lstm, lstm_peepholes;
  cpu_recurrent_loop gru; /* with reset_after */
  /* The others' halves: sums[0] becomes z, and reset_h r · h; then sums[2] is the product of that.
   */
  cpu_recurrent_loop gru_gates, gru_state;
} cpu_recurrent_loops;

CPU_DECLARE_FLOATS(cpu_recurrent_loops, cpu_recurrent);

#endif
