/* SPDX-License-Identifier: MIT */
/* Computes the steps of an LSTM, GRU or RNN by their definition in compute/backend.h: plain loops
 * in double. */
#ifndef SUPPORT_RECURRENT_REFERENCE_H
#define SUPPORT_RECURRENT_REFERENCE_H

#include "compute/backend.h"

/* The operand of an element. */
typedef enum recurrent_operand {
  RECURRENT_X,
  RECURRENT_R,
  RECURRENT_H,
  RECURRENT_C,
  RECURRENT_LENGTHS,
  RECURRENT_BIAS,
  RECURRENT_PEEPHOLES,
  RECURRENT_OPERANDS
} recurrent_operand;

/* The layer's index of such an input; −1 if absent. */
int recurrent_input(const compute_recurrent_attributes *a, recurrent_operand operand);

typedef struct recurrent_problem {
  const compute_recurrent_attributes *a;
  int64_t steps, batch, hidden;
  /* An element is addressed by its three coordinates in compute/backend.h. */
  double (*read)(void *user, recurrent_operand operand, int64_t i, int64_t j, int64_t k);
  void (*write)(void *user, int64_t row, int64_t sequence, int64_t unit, double value);
  void *user;
} recurrent_problem;

/* Returns false without memory. */
bool recurrent_reference(const recurrent_problem *p);

#endif
