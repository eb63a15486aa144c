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

static inline ELEMENT higher(ELEMENT a, ELEMENT b) {
  return b > a ? b : a;
}

/* Eight accumulators for one, in vectors: one after the other, 64 take longer than 128 scores. */
static ELEMENT highest_lane(ELEMENT *restrict lane, ELEMENT highest) {
  for (int l = 0; l < LANES / 2; l++) lane[l] = higher(lane[l], lane[l + LANES / 2]);
  for (int l = 0; l < LANES / 4; l++) lane[l] = higher(lane[l], lane[l + LANES / 4]);
  for (int l = 0; l < LANES / 8; l++) lane[l] = higher(lane[l], lane[l + LANES / 8]);
  for (int l = 0; l < LANES / 8; l++) highest = higher(highest, lane[l]);
  return highest;
}

static double lane_sum(ELEMENT *restrict lane) {
  double sum = 0;
  for (int l = 0; l < LANES / 2; l++) lane[l] += lane[l + LANES / 2];
  for (int l = 0; l < LANES / 4; l++) lane[l] += lane[l + LANES / 4];
  for (int l = 0; l < LANES / 8; l++) lane[l] += lane[l + LANES / 8];
  for (int l = 0; l < LANES / 8; l++) sum += (double)lane[l];
  return sum;
}

/* s = factor · s + bias, and the largest of them and `highest`. */
static ELEMENT scale_scores(ELEMENT *restrict s, const ELEMENT *restrict bias, int64_t count,
                            ELEMENT factor, ELEMENT highest) {
  ELEMENT lane[LANES];
  int64_t i = 0;
  for (int l = 0; l < LANES; l++) lane[l] = LOWEST;
  for (; i + LANES <= count; i += LANES) {
    if (bias)
      for (int l = 0; l < LANES; l++) s[i + l] = s[i + l] * factor + bias[i + l];
    else
      for (int l = 0; l < LANES; l++) s[i + l] *= factor;
    for (int l = 0; l < LANES; l++) lane[l] = higher(lane[l], s[i + l]);
  }
  for (int l = 0; i < count; i++, l++) {
    s[i] = bias ? s[i] * factor + bias[i] : s[i] * factor;
    lane[l] = higher(lane[l], s[i]);
  }
  return highest_lane(lane, highest);
}

/* s = exp(s − shift), and their sum. */
static double exponentials(ELEMENT *restrict s, int64_t count, ELEMENT shift) {
  ELEMENT lane[LANES];
  int64_t i = 0;
  for (int l = 0; l < LANES; l++) lane[l] = -(ELEMENT)0; /* +0 would become a call of memset */
  for (; i + LANES <= count; i += LANES) {
    for (int l = 0; l < LANES; l++) s[i + l] = EXP(s[i + l] - shift);
    for (int l = 0; l < LANES; l++) lane[l] += s[i + l];
  }
  const int64_t rest = i;
  for (; i < count; i++) s[i] = EXP(s[i] - shift);
  for (int l = 0; rest + l < count; l++) lane[l] += s[rest + l];
  return lane_sum(lane);
}

static double soften(void *scores, const void *bias, int64_t seen, int64_t count, double scale,
                     double *peak, double *total) {
  ELEMENT *s = scores;
  const ELEMENT largest = scale_scores(s, bias, seen, (ELEMENT)scale, (ELEMENT)*peak);
  /* Until a score is seen, all exponentials are exp(−infinity − 0). */
  const ELEMENT shift = largest == LOWEST ? 0 : largest;
  const double sum = exponentials(s, seen, shift);
  for (int64_t i = seen; i < count; i++) s[i] = 0;
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
