/* SPDX-License-Identifier: MIT */
/* Pixels of COMPUTE_FIT_READOUT: of d electrons, k are light, Poisson with mean m; the rest is
 * readout noise, Gaussian with variance v. A fit needs the mean of k given d:
 *
 *   ∂ ln p(d | m) / ∂m = E[k | d] / m − 1
 *
 * The most likely k solves k + v ln(k/m) = d: k = v ω(ln(m/v) + d/v), where ω + ln ω = its
 * argument. From v = FIT_READOUT_SMOOTH on, the mean is this k plus the terms of the saddle-point
 * approximation (H. E. Daniels, 1954) up to the second order. Below, the integers around it are
 * summed. */
#ifndef CPU_FIT_FIT_READOUT_H
#define CPU_FIT_FIT_READOUT_H

#include "../../kernels/fit_readout.h"
#include "fit_vector.h"

/* The solution of ω + ln ω = x: a guess within 10 %, and one step of the fourth order (F. N.
 * Fritsch, R. E. Shafer and W. P. Crowley, 1973), accurate to rounding. */
FIT_INLINE vf fit_omega(vf x) {
  x = v_clamp(x, v_set(-80), v_set(1e30f));
  const vf e = fit_power((1 - v_min(x, v_set(1))) * FIT_LOG2_E) * 2.7182818f;
  const vf high = v_max(x, v_set(1)), log = fit_log(high);
  const vf far = v_fma(log, v_reciprocal(high), high - log);
  const vf guess =
      v_select(v_less(x, v_set(1)), e * v_reciprocal(v_fma(e, v_set(0.632f), v_set(1))), far);
  const vf inverse = v_reciprocal(guess + 1);
  const vf u = (x - guess - fit_log(guess)) * inverse, part = u * inverse;
  const vf whole = v_fma(u, v_set(2.0f / 3), v_set(1));
  return v_fma(guess * u, v_fnma(part, v_set(0.5f), whole) * v_reciprocal(whole - part), guess);
}

/* The distribution of k given d. */
typedef struct fit_posterior {
  vf mean;
  vf peak; /* the most likely k; below FIT_READOUT_SMOOTH an integer next to it */
  vf sum;  /* below FIT_READOUT_SMOOTH: probabilities of all k, relative to the peak's */
} fit_posterior;

/* Sums over the integers from `peak` up and down: each probability is its neighbour's times a
 * ratio. Each lane's terms end where the Gaussian is below 1e-6. */
FIT_INLINE void fit_sum_counts(vf light, vf v, vf inverse, fit_posterior *of) {
  const vf shift = v_set(0x1.8p23f), none = v_set(0), one = v_set(1);
  const vf peak = (light + shift) - shift, off = light - peak;
  const vf per_light = v_reciprocal(v_max(light, v_set(0.25f)));
  const vf unit = inverse * FIT_LOG2_E, fall = fit_power(unit);
  const vf reach = v_fma(v_sqrt(v), v_set(FIT_READOUT_REACH), v_set(1.5f));
  vf up = fit_power(v_max(0.5f - off, none) * unit), down = fit_power((0.5f + off) * unit);
  vf above = one, below = one, sum = one, moment = none, j = one;
  vf left = peak;
  for (vm near = v_less(j, reach); v_bits(near); near = v_less(j, reach)) {
    above *= light * v_reciprocal(peak + j) * up;
    below *= v_max(left, none) * per_light * down;
    sum += v_keep(near, above + below);
    moment = v_fma(j, v_keep(near, above - below), moment);
    up *= fall;
    down *= fall;
    left -= 1;
    j += 1;
  }
  of->mean = v_fma(moment, v_reciprocal(sum), peak);
  of->peak = peak;
  of->sum = sum;
}

/* The posterior for d electrons, if m > 0 are expected, with variance v ≥ FIT_READOUT_LEAST. */
FIT_INLINE fit_posterior fit_infer(vf d, vf m, vf v) {
  const vf inverse = v_reciprocal(v);
  const vf light = v * fit_omega(v_fma(d, inverse, fit_log(m * inverse)));
  const vf per = v_reciprocal(light + v), a = v * per, b = light * per;
  const vf second = v_fma(a, v_fma(a, v_set(3), b * -10), b * b * 2);
  const vf shift = per * v_fma(per * second, v_set(1.0f / 24), v_set(-0.5f));
  fit_posterior of = {v_fma(light * a, shift, light), light, v_set(1)};
  const vm rough = v_less(v, v_set(FIT_READOUT_SMOOTH));
  if (v_bits(rough)) {
    fit_posterior counted;
    fit_sum_counts(light, v, inverse, &counted);
    of.mean = v_select(rough, counted.mean, of.mean);
    of.peak = v_select(rough, counted.peak, of.peak);
    of.sum = v_select(rough, counted.sum, of.sum);
  }
  return of;
}

/* The Fisher information of one pixel about m. */
FIT_INLINE vf fit_readout_weight(vf m, vf v) {
  const vf per = v_reciprocal(m + v), x = v_fma(v_sqrt(m * per), v_set(2), v_set(-1));
  const vf z = v_fma(v_reciprocal(v + FIT_READOUT_HALF), v_set(FIT_READOUT_SCALE), v_set(-1));
  return per * v_reciprocal(FIT_READOUT_EXCESS(v_fma, v_set, x, z));
}

#endif
