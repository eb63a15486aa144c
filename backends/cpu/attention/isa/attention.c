/* SPDX-License-Identifier: MIT */
/* Loops for ATTENTION, once per instruction set (core/isa.h) and element type; attention_table.h
 * has their contracts. */
#include "attention_table.h"
#include "program/isa/element.h"
#include "program/isa/math_f32.h"
#include "program/isa/math_f64.h"

#if defined(CPU_VARIANT_F32)
#include "program/isa/math_pack.h"
#else
#include "program/isa/math_pack_f64.h"
#endif

/* exp(x) of a pack of x ≤ 0 or NaN, and of an element; the larger of two packs, a if b is NaN. */
#if defined(CPU_VARIANT_F32)
#define EXP(x)       exp_f32(x)
#define EXP_PACK(p)  pack_exp_falling(p)
#define HIGHER(a, b) CPU_AT_LEAST(b, a)
#else
#define EXP(x)       exp_f64(x)
#define EXP_PACK(p)  pack_exp_f64(p)
#define HIGHER(a, b) pack_higher_f64(a, b)
#endif

enum { LANES = 4 * pack_lanes };

static inline ELEMENT higher(ELEMENT a, ELEMENT b) {
  return b > a ? b : a;
}

ALWAYS_INLINE ELEMENT highest_lane(pack p, ELEMENT highest) {
  ELEMENT lane[pack_lanes];
  pack_store(lane, p);
  for (int half = pack_lanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; l++) lane[l] = higher(lane[l], lane[l + half]);
  return higher(highest, lane[0]);
}

/* s = factor · s + bias, and the largest of them and `highest`. */
ALWAYS_INLINE ELEMENT scale_line(ELEMENT *s, const ELEMENT *bias, int64_t count, ELEMENT factor,
                                 ELEMENT highest, int biased) {
  const pack factors = pack_all(factor);
  pack lane[4];
  int64_t i = 0;
  for (int k = 0; k < 4; k++) lane[k] = pack_all(LOWEST);
  for (; i + LANES <= count; i += LANES)
    for (int k = 0; k < 4; k++) {
      const int64_t at = i + k * pack_lanes;
      pack x = pack_load(s + at) * factors;
      if (biased) x += pack_load(bias + at);
      pack_store(s + at, x);
      lane[k] = HIGHER(lane[k], x);
    }
  for (; i < count; i++) {
    s[i] = biased ? s[i] * factor + bias[i] : s[i] * factor;
    highest = higher(highest, s[i]);
  }
  return highest_lane(HIGHER(HIGHER(lane[0], lane[1]), HIGHER(lane[2], lane[3])), highest);
}

static ELEMENT scale_scores(ELEMENT *s, const ELEMENT *bias, int64_t count, ELEMENT factor,
                            ELEMENT highest) {
  return bias ? scale_line(s, bias, count, factor, highest, 1)
              : scale_line(s, s, count, factor, highest, 0);
}

/* s = share · exp(s − shift), and their sum. */
ALWAYS_INLINE double exponentials(ELEMENT *s, int64_t count, ELEMENT shift, ELEMENT share,
                                  int shared) {
  const pack shifts = pack_all(shift), shares = pack_all(share);
  pack lane[4];
  int64_t i = 0;
  for (int k = 0; k < 4; k++) lane[k] = pack_all(0);
  for (; i + LANES <= count; i += LANES)
    for (int k = 0; k < 4; k++) {
      pack y = EXP_PACK(pack_load(s + i + k * pack_lanes) - shifts);
      if (shared) y *= shares;
      pack_store(s + i + k * pack_lanes, y);
      lane[k] += y;
    }
  for (; i < count; i += pack_lanes) {
    const int64_t few = count - i < pack_lanes ? count - i : pack_lanes;
    pack y = EXP_PACK(pack_load_few(s + i, few) - shifts);
    if (shared) y *= shares;
    pack_store_few(s + i, y, few);
    lane[0] += y;
  }
  return (double)pack_sum((lane[0] + lane[1]) + (lane[2] + lane[3]));
}

static double weigh(void *scores, const void *bias, int64_t seen, double scale, double peak) {
  return (double)scale_scores(scores, bias, seen, (ELEMENT)scale, (ELEMENT)peak);
}

static double soften(void *scores, int64_t seen, int64_t count, double largest, double share,
                     double *peak, double *total) {
  ELEMENT *s = scores;
  /* Until a score is seen, all exponentials are exp(−infinity − 0). */
  const ELEMENT shift = (ELEMENT)largest == LOWEST ? 0 : (ELEMENT)largest;
  const double sum = share < 1 ? exponentials(s, seen, shift, (ELEMENT)share, 1)
                               : exponentials(s, seen, shift, 1, 0);
  for (int64_t i = seen; i < count; i++) s[i] = 0;
  const double shrink = *peak == largest || *total == 0 ? 1 : (double)EXP((ELEMENT)*peak - shift);
  *total = *total * shrink + sum;
  *peak = largest;
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

const cpu_attention_loops CPU_VARIANT_SYMBOL(cpu_attention) = {weigh, soften, hides, scale};
