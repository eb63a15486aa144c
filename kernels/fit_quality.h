/* SPDX-License-Identifier: MIT */
/* Goodness of fit: the log-likelihood ratio against the saturated model, and the probability that a
 * correct model fits worse. */
//@ fit_quality

#define MOMENT_NUMBER(c) (c)
#if CAMERA == 1
#define MOMENT_MEAN     FIT_GAMMA_MEAN
#define MOMENT_VARIANCE FIT_GAMMA_VARIANCE
#define MOMENT_BELOW    FIT_GAMMA_BELOW
#define SLOPE           FIT_GAMMA_SLOPE
#define CURVATURE       FIT_GAMMA_CURVATURE
#define SLOPE_BELOW     FIT_GAMMA_SLOPE_BELOW
#define PER_PARAMETER   FIT_GAMMA_PER_PARAMETER
#else
#define MOMENT_MEAN     FIT_POISSON_MEAN
#define MOMENT_VARIANCE FIT_POISSON_VARIANCE
#define MOMENT_BELOW    FIT_POISSON_BELOW
#define SLOPE           FIT_POISSON_SLOPE
#define CURVATURE       FIT_POISSON_CURVATURE
#define SLOPE_BELOW     FIT_POISSON_SLOPE_BELOW
#define PER_PARAMETER   FIT_POISSON_PER_PARAMETER
#endif

/* d ln(m / d) - m + d. With c = (m - d) / d this is d (log(1 + c) - c). log(1 + c) is k ln 2 +
 * log(1 + f), and for k = 0 f is c itself and nothing cancels. */
DEVICE f32 fit_ratio_of(f32 electrons, f32 mean) {
  const boolean none = electrons < 1e-20f;
  const f32 change = (mean - electrons) * FAST_RECIPROCAL(none ? 1.0f : electrons);
  const u32 bits = as_u32(1.0f + change);
  const i32 k = log_exponent_f32(bits);
  const f32 f = k == 0 ? change : as_f32(bits - ((u32)k << 23)) - 1.0f;
  const f32 bend = MAD_f32(-0.5f * f, f, log_tail_f32(f));
  const f32 rest = k == 0 ? bend : MAD_f32((f32)k, 0x1.62e43p-1f, bend) + (f - change);
  return none ? -mean : electrons * rest;
}

/* A pixel's part of the log-likelihood; for CAMERA 3 up to terms that depend only on the pixel. */
DEVICE f32 fit_chance_of(f32 electrons, f32 mean, f32 extra) {
#if CAMERA == 3
  f32 counts;
  const f32 rest = fit_chance_rest(electrons, mean, extra, &counts);
  return fit_ratio_of(counts, mean) + rest;
#else
  return fit_ratio_of(electrons, mean);
#endif
}

/* Computes, in this order: the ratio; with `moments`, the sums of the means and variances of the
 * pixels' deviances; the merit for Levenberg–Marquardt; and with `moments` and a faint background,
 * the means' slope and curvature by the background (fit_moments). */
#define COMPARED 6
DEVICE void fit_compare(const fit_source *source, const f32 *p, const fit_widths *widths,
                        boolean moments, f32 *totals) {
  UNROLL for (int i = 0; i < COMPARED; i++) totals[i] = 0.0f;
  const f32 light = p[2], background = p[3];
  BEGIN_LINES(source, p, widths)
  const f32 level = LINE_LEVEL;
  f32 ratio = 0.0f, squares = 0.0f, means = 0.0f, variances = 0.0f;
  f32 slopes = 0.0f, curvatures = 0.0f;
  FOR_COLUMNS {
    f32 extra;
    const f32 electrons = fit_take(source, row, column, &extra);
    const f32 mean = PIXEL_MEAN(widths, level, row, column) + FIT_ON_TOP(extra);
    const f32 one = fit_chance_of(electrons, mean, extra);
    const boolean used = MASKED ? FIT_COUNTS(electrons) : 1;
    ratio += used ? one : 0.0f;
#if SOLVER == 3
    squares = MAD_f32(used ? electrons - mean : 0.0f, electrons - mean, squares);
#endif
#if WANT_MOMENTS
    if (moments) {
      const f32 limited = mean < FIT_MOMENTS_LARGEST ? mean : FIT_MOMENTS_LARGEST;
      const f32 below = FAST_RECIPROCAL(MOMENT_BELOW(MAD_f32, MOMENT_NUMBER, limited));
      const f32 m = MOMENT_MEAN(MAD_f32, MOMENT_NUMBER, limited) * below;
      const f32 v = MOMENT_VARIANCE(MAD_f32, MOMENT_NUMBER, limited) * below;
      means += used ? m : 0.0f;
      variances += used ? v : 0.0f;
      if (background < FIT_MOMENTS_FAINT) {
        const f32 beneath = FAST_RECIPROCAL(SLOPE_BELOW(MAD_f32, MOMENT_NUMBER, limited));
        const f32 slope = SLOPE(MAD_f32, MOMENT_NUMBER, limited) * beneath;
        const f32 curvature = CURVATURE(MAD_f32, MOMENT_NUMBER, limited) * beneath;
        slopes += used ? slope : 0.0f;
        curvatures += used ? curvature : 0.0f;
      }
    }
#endif
  }
  totals[0] += ratio;
  totals[1] += means;
  totals[2] += variances;
  totals[3] -= squares;
  totals[4] += slopes;
  totals[5] += curvatures;
  END_LINES
  fit_total(source, totals, COMPARED);
#if SOLVER != 3
  totals[3] = totals[0];
#endif
}

/* ---- Standing out of the background ---------------------------------------------------------- */

#if WANT_SIGNIFICANCE
/* The likeliest background without a spot, within its bounds: the mean. With readout noise, it is
 * weighted by 1 / (background + variance), or by the information, in a few rounds. */
DEVICE f32 fit_flat(const fit_source *source, const fit_setup *setup, const f32 *p) {
  if (setup->fixed >> 3 & 1u) return p[3];
  f32 flat = fit_between(setup->typical, setup->lower[3], setup->upper[3]);
#if CAMERA >= 2
  for (int round = 0; round < 5; round++) {
    f32 sums[2] = {0.0f, 0.0f};
    FOR_PIXELS {
      const int row = pixel / COLUMNS, column = pixel - row * COLUMNS;
      f32 extra;
      const f32 electrons = fit_take(source, row, column, &extra);
      f32 weight;
      const f32 mean = flat + FIT_ON_TOP(extra);
      const f32 score = fit_score_of(electrons, mean, extra, &weight);
      sums[0] += FIT_COUNTS(electrons) ? weight : 0.0f;
      sums[1] += FIT_COUNTS(electrons) ? MAD_f32(weight, flat, score) : 0.0f;
    }
    fit_total(source, sums, 2);
    flat = fit_between(sums[1] / sums[0], setup->lower[3], setup->upper[3]);
  }
#endif
  return flat;
}

/* The spot's significance above the background, in standard deviations. It is computed from the sum
 * of d ln(m / b) - m + b over the pixels, with the spot's image m and the flat image b. */
DEVICE f32 fit_significance(const fit_source *source, const fit_setup *setup, const f32 *p) {
  const fit_widths spot = fit_widths_of(setup, p);
  const f32 flat = fit_flat(source, setup, p), light = p[2], background = p[3];
  f32 sum[1] = {0.0f};
  BEGIN_LINES(source, p, &spot)
  const f32 level = LINE_LEVEL;
  f32 line = 0.0f;
  FOR_COLUMNS {
    f32 extra;
    const f32 electrons = fit_take(source, row, column, &extra);
    const f32 mean = PIXEL_MEAN(&spot, level, row, column);
#if CAMERA == 3
    const f32 term = fit_chance_of(electrons, mean, extra) - fit_chance_of(electrons, flat, extra);
#else
    const f32 ratio = (mean + extra) * FAST_RECIPROCAL(flat + extra);
    const f32 term = MAD_f32(electrons, log_f32(ratio), flat - mean);
#endif
    line += MASKED && !FIT_COUNTS(electrons) ? 0.0f : term;
  }
  sum[0] += line;
  END_LINES
  fit_total(source, sum, 1);
  const f32 square = sum[0] * (2.0f / VARIANCE_FACTOR);
  return square > 0.0f ? sqrt_f32(square) : 0.0f;
}
#endif

/* ---- Probability ----------------------------------------------------------------------------- */

#if WANT_SURVIVAL
/* The regularised upper incomplete gamma function Q(a, x) by N. M. Temme's expansion for large a,
 * uniform in x (1979): with eta^2 / 2 = l - 1 - ln l, l = x / a, and eta with the sign of l - 1,
 *
 *   Q = Phi(-eta sqrt a) + exp(-a eta^2 / 2) / sqrt(2 pi a) (C0 + C1 / a + C2 / a^2 + ...)
 *   C0 = 1 / (l - 1) - 1 / eta
 *
 * For a < 4 it is the series of the lower function, or the continued fraction of the upper one. */
DEVICE f32 fit_survival_large(f32 a, f32 x) {
  const f32 l = x / a, m = (x - a) / a;
  const boolean near = m > -0.25f && m < 0.4f;
  const f32 tail = log_tail_f32(near ? m : 0.0f);
  const f32 away = m - log_f32(near ? 1.0f : l);
  /* eta / m for small m, where both vanish */
  const f32 root = sqrt_f32(near ? 1.0f - 2.0f * (m == 0.0f ? 0.0f : tail / (m * m)) : 2.0f * away);
  const f32 eta = near ? m * root : m < 0.0f ? -root : root;
  f32 c0 = MAD_f32(-1.7875514e-4f, eta, 3.5273369e-4f);
  c0 = MAD_f32(c0, eta, 1.1574074e-3f);
  c0 = MAD_f32(c0, eta, -1.4814815e-2f);
  c0 = MAD_f32(c0, eta, 8.3333333e-2f);
  c0 = MAD_f32(c0, eta, -3.3333333e-1f);
  c0 = BUILTIN_f32(fabs)(eta) < 0.4f ? c0 : 1.0f / m - 1.0f / eta;
  const f32 mild = eta < -1.0f ? -1.0f : eta > 1.0f ? 1.0f : eta;
  f32 c1 = MAD_f32(-9.9022634e-4f, mild, 2.6455026e-3f);
  c1 = MAD_f32(c1, mild, -3.4722222e-3f);
  c1 = MAD_f32(c1, mild, -1.8518519e-3f);
  const f32 c2 = MAD_f32(-2.6813272e-3f, mild, 4.1335979e-3f), root_a = sqrt_f32(a);
  const f32 t = BUILTIN_f32(fabs)(eta) * root_a;
  if (t > 13.0f) return eta > 0.0f ? 0.0f : 1.0f;
  const f32 power = fit_power(t), beyond = fit_tail(t, power);
  const f32 more = power * 0.39894228f / root_a * (c0 + (c1 + c2 / a) / a);
  return (eta > 0.0f ? beyond : 1.0f - beyond) + more;
}

DEVICE f32 fit_survival_small(f32 a, f32 x) {
  /* x^a exp(-x) / Gamma(a + 1); Stirling's series at a + 6. */
  const f32 z = a + 6.0f, inverse = 1.0f / z;
  const f32 series = inverse * MAD_f32(inverse * inverse, -2.7777778e-3f, 8.3333333e-2f);
  const f32 log_gamma = (z - 0.5f) * log_f32(z) - z + 0.91893853f + series;
  const f32 rise = (a + 1.0f) * (a + 2.0f) * (a + 3.0f) * (a + 4.0f) * (a + 5.0f);
  const f32 front = exp_f32(a * log_f32(x) - x - log_gamma) * rise;
  if (x < a + 1.0f) {
    f32 term = 1.0f, sum = 1.0f;
    for (int n = 1; n < 24; n++) {
      term *= x / (a + (f32)n);
      sum += term;
    }
    return 1.0f - front * sum;
  }
  f32 fraction = x + 61.0f - a;
  for (int n = 30; n > 0; n--) {
    fraction = x + (f32)(2 * n - 1) - a - (f32)n * ((f32)n - a) / fraction;
  }
  return front * a / fraction;
}

DEVICE f32 fit_survival(f32 a, f32 x) {
  if (!(a > 0.0f && a < INFINITY_f32) || x != x) return NAN_f32;
  if (!(x > 0.0f)) return 1.0f;
  const f32 q = a < 4.0f ? fit_survival_small(a, x) : fit_survival_large(a, x);
  return q < 0.0f ? 0.0f : q > 1.0f ? 1.0f : q;
}
#endif
