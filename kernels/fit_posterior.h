/* SPDX-License-Identifier: MIT */
/* Pixels of COMPUTE_FIT_READOUT (CAMERA 3). k of the d electrons come from light, Poisson with mean
 * m; the rest is readout noise, Gaussian with variance v. The derivative of ln p(d | m) by m is E[k
 * | d] / m - 1. backends/cpu/fit/isa/fit_readout.h does the same, and explains it. */
//@ fit_posterior
#if CAMERA == 3
#define READOUT_NUMBER(c)          (c)
#define READOUT_VARIANCE(variance) ((variance) > FIT_READOUT_LEAST ? (variance) : FIT_READOUT_LEAST)

typedef struct fit_inferred {
  f32 mean; /* of k */
  f32 peak; /* the most likely k; below FIT_READOUT_SMOOTH an integer next to it */
  f32 sum;  /* of the probabilities of all k, relative to the peak's, for that integer */
} fit_inferred;

/* The solution of w + ln w = x. */
DEVICE f32 fit_omega(f32 x) {
  x = x > -80.0f ? x < 1e30f ? x : 1e30f : -80.0f;
  const f32 e = exp_f32(x < 1.0f ? x : 1.0f), high = x > 1.0f ? x : 1.0f, log = log_f32(high);
  const f32 guess = x < 1.0f ? e / MAD_f32(e, 0.632f, 1.0f) : high - log + log / high;
  const f32 inverse = 1.0f / (guess + 1.0f);
  const f32 u = (x - guess - log_f32(guess)) * inverse, part = u * inverse;
  const f32 whole = MAD_f32(u, 2.0f / 3.0f, 1.0f);
  return MAD_f32(guess * u, MAD_f32(-0.5f, part, whole) / (whole - part), guess);
}

DEVICE fit_inferred fit_sum_counts(f32 light, f32 v, f32 inverse) {
  fit_inferred of;
  const f32 peak = BUILTIN_f32(floor)(light + 0.5f), off = light - peak;
  const f32 per_light = 1.0f / (light > 0.25f ? light : 0.25f);
  const f32 fall = exp_f32(-inverse), reach = MAD_f32(FIT_READOUT_REACH, sqrt_f32(v), 1.5f);
  f32 up = exp_f32((off - 0.5f) * inverse), down = exp_f32((-0.5f - off) * inverse);
  f32 above = 1.0f, below = 1.0f, sum = 1.0f, moment = 0.0f, left = peak;
  for (f32 j = 1.0f; j < reach; j += 1.0f) {
    above *= light / (peak + j) * up;
    below *= (left > 0.0f ? left : 0.0f) * per_light * down;
    sum += above + below;
    moment = MAD_f32(j, above - below, moment);
    up *= fall;
    down *= fall;
    left -= 1.0f;
  }
  of.mean = peak + moment / sum;
  of.peak = peak;
  of.sum = sum;
  return of;
}

DEVICE fit_inferred fit_infer(f32 d, f32 m, f32 v) {
  fit_inferred of;
  const f32 inverse = 1.0f / v;
  const f32 light = v * fit_omega(MAD_f32(d, inverse, log_f32(m * inverse)));
  if (v < FIT_READOUT_SMOOTH) return fit_sum_counts(light, v, inverse);
  const f32 per = 1.0f / (light + v), a = v * per, b = light * per;
  const f32 second = MAD_f32(a, MAD_f32(3.0f, a, -10.0f * b), 2.0f * b * b);
  of.mean = MAD_f32(light * a, per * MAD_f32(per * second, 1.0f / 24.0f, -0.5f), light);
  of.peak = light;
  of.sum = 1.0f;
  return of;
}

/* The Fisher information of one pixel about m. */
DEVICE f32 fit_readout_weight(f32 m, f32 v) {
  const f32 per = 1.0f / (m + v), x = MAD_f32(2.0f, sqrt_f32(m * per), -1.0f);
  const f32 z = FIT_READOUT_SCALE / (v + FIT_READOUT_HALF) - 1.0f;
  return per / (FIT_READOUT_EXCESS(MAD_f32, READOUT_NUMBER, x, z));
}

/* k ln k - k - ln k! for an integer k: by Stirling's series from 2 on. */
DEVICE f32 fit_count_term(f32 k) {
  if (k < 1.5f) return k < 0.5f ? 0.0f : -1.0f;
  const f32 inverse = 1.0f / k, square = inverse * inverse;
  const f32 p = MAD_f32(MAD_f32(square, -1.0f / 1260.0f, 1.0f / 360.0f), square, -1.0f / 12.0f);
  return MAD_f32(p, inverse, MAD_f32(-0.5f, log_f32(k), -0.91893853f));
}

/* ln p(d | m), except for the term of the counts and for terms that depend on d and v alone.
 * `counts` is the number k to compare with m. */
DEVICE f32 fit_chance_rest(f32 d, f32 m, f32 variance, f32 *counts) {
  const f32 v = READOUT_VARIANCE(variance);
  const fit_inferred of = fit_infer(d, m, v);
  const f32 k = of.peak, off = d - k, per = 1.0f / (k + v), b = k * per;
  const f32 smooth =
      MAD_f32(-0.5f, log_f32(k + v), per * b * MAD_f32(v * per, 3.0f / 24.0f, b * (-2.0f / 24.0f)));
  *counts = k;
  return (v < FIT_READOUT_SMOOTH ? fit_count_term(k) + log_f32(of.sum) : smooth) -
         0.5f * off * off / v;
}
#endif

/* A pixel's contribution to score and information: the derivative of ln p by the mean, and the
 * weight of the derivatives' products. `extra` is the readout variance. */
DEVICE f32 fit_score_of(f32 electrons, f32 mean, f32 extra, f32 *weight) {
  const f32 inverse = FAST_RECIPROCAL(mean);
#if CAMERA == 3
  const f32 variance = READOUT_VARIANCE(extra);
  *weight = fit_readout_weight(mean, variance);
  return MAD_f32(fit_infer(electrons, mean, variance).mean, inverse, -1.0f);
#else
  *weight = inverse;
  return MAD_f32(electrons, inverse, -1.0f);
#endif
}

/* The same in a step. In least squares all pixels have weight 1, and in Newton's method the weight
 * is the second derivative; in the `last` pass both are as above. Masked pixels add nothing. */
DEVICE f32 fit_step_score(f32 electrons, f32 mean, f32 extra, boolean last, f32 *weight) {
  f32 score = fit_score_of(electrons, mean, extra, weight);
#if SOLVER == 1
  *weight = last ? *weight : electrons * *weight * *weight;
#elif SOLVER == 3
  score = last ? score : electrons - mean;
  *weight = last ? *weight : 1.0f;
#endif
#if MASKED
  score = FIT_COUNTS(electrons) ? score : 0.0f;
  *weight = FIT_COUNTS(electrons) ? *weight : 0.0f;
#endif
  return score;
}
