/* SPDX-License-Identifier: MIT */
/* Loops for ATTENTION, once per instruction set (core/isa.h) and element type; attention_table.h
 * says what each does. */
#include "attention_table.h"
#include "program/isa/element.h"
#include "program/isa/math_f32.h"
#include "program/isa/math_f64.h"

/* exp(x) for x ≤ 0 and NaN; accumulators of a sum or a maximum, a few vectors of any set. */
#if defined(CPU_VARIANT_F32)
#define EXP(x) exp_f32(x)
#define LANES  64
#else
#define EXP(x) exp_f64(x)
#define LANES  32
#endif

static double soften(void *scores, const void *bias, int64_t seen, int64_t count, double scale,
                     double *peak, double *total) {
  ELEMENT *restrict s = scores;
  const ELEMENT *restrict b = bias, factor = (ELEMENT)scale;
  ELEMENT lane[LANES];
  int64_t i;
  if (b)
    for (i = 0; i < seen; i++) s[i] = s[i] * factor + b[i];
  else
    for (i = 0; i < seen; i++) s[i] *= factor;
  for (int l = 0; l < LANES; l++) lane[l] = LOWEST;
  for (i = 0; i + LANES <= seen; i += LANES)
    for (int l = 0; l < LANES; l++) lane[l] = s[i + l] > lane[l] ? s[i + l] : lane[l];
  for (int l = 0; i < seen; i++, l++) lane[l] = s[i] > lane[l] ? s[i] : lane[l];
  ELEMENT largest = (ELEMENT)*peak;
  for (int l = 0; l < LANES; l++) largest = lane[l] > largest ? lane[l] : largest;

  /* Until a score is seen, all exponentials are exp(−infinity − 0). */
  const ELEMENT shift = largest == LOWEST ? 0 : largest;
  for (i = 0; i < seen; i++) s[i] = EXP(s[i] - shift);
  for (; i < count; i++) s[i] = 0;
  for (int l = 0; l < LANES; l++) lane[l] = 0;
  for (i = 0; i + LANES <= seen; i += LANES)
    for (int l = 0; l < LANES; l++) lane[l] += s[i + l];
  for (int l = 0; i < seen; i++, l++) lane[l] += s[i];
  double sum = 0;
  for (int l = 0; l < LANES; l++) sum += (double)lane[l];

  const double shrink =
      (ELEMENT)*peak == largest || *total == 0 ? 1 : (double)EXP((ELEMENT)*peak - shift);
  *total = *total * shrink + sum;
  *peak = (double)largest;
  return shrink;
}

static bool hides(const void *bias, int64_t count) {
  const ELEMENT *b = bias;
  bool all = true;
  for (int64_t i = 0; i < count; i++) all &= b[i] == LOWEST;
  return all;
}

static void scale(void *values, int64_t count, double factor) {
  ELEMENT *v = values;
  const ELEMENT f = (ELEMENT)factor;
  for (int64_t i = 0; i < count; i++) v[i] *= f;
}

const cpu_attention_loops CPU_VARIANT_SYMBOL(cpu_attention) = {soften, hides, scale};
