/* SPDX-License-Identifier: MIT */
/* The softmax between the two products of attention, by type and instruction set. */
#ifndef CPU_ISA_ATTENTION_TABLE_H
#define CPU_ISA_ATTENTION_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/isa.h"

/* The running state of a row: its largest score, and the sum of exp(score − peak). */
typedef struct cpu_attention_loops {
  /* scores[i] = scale · scores[i] + bias[i] for the `seen` first ones; bias may be NULL. Returns
   * the largest of them and of `peak`. */
  double (*weigh)(void *scores, const void *bias, int64_t seen, double scale, double peak);

  /* scores[i] = share · exp(scores[i] − largest), 0 from `seen` to `count`; `largest` is the result
   * of weigh, `share` a power of two, at most 1. Updates the row's peak and total; returns the
   * factor for rescaling sums relative to the old peak. Scores of −infinity are masked. */
  double (*soften)(void *scores, int64_t seen, int64_t count, double largest, double share,
                   double *peak, double *total);
  bool (*hides)(const void *bias, int64_t count);            /* all are −infinity */
  void (*scale)(void *values, int64_t count, double factor); /* values = values · factor */
} cpu_attention_loops;

CPU_DECLARE_FLOATS(cpu_attention_loops, cpu_attention);

#endif
