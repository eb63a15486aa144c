/* SPDX-License-Identifier: MIT */
/* A Gaussian along one axis: each pixel's share of it, and the derivatives of the share.
 *
 * A pixel's share is the difference of the distribution function at its two edges. Both values are
 * kept as upper tails of the distance, Phi(-t), which lose no digits at any distance. The
 * exponential is computed on the way: Phi(-t) = exp(-t^2 / 2) M(t). Mills' ratio M changes slowly,
 * and (t + 3) M(t) is a polynomial in (t - 3) / (t + 3) (to 1e-7 for t up to 13.5; the tail beyond
 * is at most 1e-41).
 *
 * SAMPLED: the density at the pixel's centre instead. CURVED: also second derivatives. */
//@ fit_profile

typedef struct fit_width {
  f32 sigma, inverse, peak; /* inverse: 1 / sigma; peak: the density's largest value */
} fit_width;

typedef struct fit_edge {
  f32 at, power, tail; /* signed distance from the centre; exp(-t^2 / 2); Phi(-t) */
} fit_edge;

/* A pixel's share, and its derivatives by the centre, by sigma, and twice by sigma. The second
 * derivative by the centre is by_sigma / sigma. */
typedef struct fit_cell {
  f32 share, by_centre, by_sigma, by_sigma_twice;
} fit_cell;

DEVICE fit_width fit_width_of(f32 sigma) {
  fit_width width;
  width.sigma = sigma;
  width.inverse = FAST_RECIPROCAL(sigma);
  width.peak = 0.39894228f * width.inverse;
  return width;
}

/* exp(-t^2 / 2) for t up to 13. */
DEVICE f32 fit_power(f32 t) {
#ifdef FOR_CPU
  const f32 y = -0.5f * t * t, shifted = exp_shifted_f32(y);
  return (1.0f + expm1_small_f32(exp_rest_f32(y, shifted))) * exp_power_f32(shifted, 0);
#else
  return FAST_EXP2(-0.72134752f * (t * t));
#endif
}

/* Phi(-t) from exp(-t^2 / 2). */
DEVICE f32 fit_tail(f32 t, f32 power) {
  const f32 r = FAST_RECIPROCAL(t + 3.0f), s = (t - 3.0f) * r, s2 = s * s;
  const f32 a = MAD_f32(-0x1.04c726p-1f, s, 0x1.754a74p-1f);
  const f32 b = MAD_f32(-0x1.832da0p-5f, s, 0x1.d7146cp-3f);
  const f32 c = MAD_f32(0x1.c7bf78p-8f, s, -0x1.57797ep-7f);
  const f32 d = MAD_f32(-0x1.ee10fap-11f, s, 0x1.1e54bcp-10f);
  const f32 high = MAD_f32(MAD_f32(-0x1.36ca02p-12f, s2, d), s2, c);
  return power * (MAD_f32(MAD_f32(high, s2, b), s2, a) * r);
}

DEVICE fit_edge fit_edge_at(f32 at, fit_width width) {
  fit_edge edge;
  const f32 distance = BUILTIN_f32(fabs)(at) * width.inverse;
  const f32 t = distance < 13.0f ? distance : 13.0f;
  edge.at = at;
  edge.power = fit_power(t);
  edge.tail = fit_tail(t, edge.power);
  return edge;
}

#if SAMPLED
DEVICE fit_cell fit_cell_at(f32 centre, fit_width width) {
  fit_cell cell;
  const f32 scaled = centre * width.inverse, square = scaled * scaled;
  const f32 distance = BUILTIN_f32(fabs)(scaled);
  cell.share = width.peak * fit_power(distance < 13.0f ? distance : 13.0f);
  cell.by_centre = cell.share * scaled * width.inverse;
  cell.by_sigma = cell.share * width.inverse * (square - 1.0f);
#if CURVED
  cell.by_sigma_twice =
      cell.share * width.inverse * width.inverse * MAD_f32(square - 5.0f, square, 2.0f);
#else
  cell.by_sigma_twice = 0.0f;
#endif
  return cell;
}
#define FIT_FIRST_EDGE(at, width) fit_no_edge(at)
DEVICE fit_edge fit_no_edge(f32 at) {
  fit_edge edge;
  edge.at = at;
  edge.power = edge.tail = 0.0f;
  return edge;
}
/* The cell above an edge; advances the edge. */
DEVICE fit_cell fit_cell_next(fit_edge *low, fit_width width) {
  const fit_cell cell = fit_cell_at(low->at + 0.5f, width);
  low->at += 1.0f;
  return cell;
}
#else
#define FIT_FIRST_EDGE(at, width) fit_edge_at(at, width)
DEVICE fit_cell fit_cell_next(fit_edge *low, fit_width width) {
  fit_cell cell;
  const fit_edge high = fit_edge_at(low->at + 1.0f, width);
  const f32 difference = BUILTIN_f32(fabs)(low->tail - high.tail);
  const boolean astride = low->at < 0.0f && high.at >= 0.0f;
  cell.share = astride ? 1.0f - low->tail - high.tail : difference;
  cell.by_centre = width.peak * (low->power - high.power);
  const f32 moment = low->at * low->power - high.at * high.power;
  const f32 scale = width.peak * width.inverse;
  cell.by_sigma = scale * moment;
#if CURVED
  const f32 cube =
      low->at * low->at * low->at * low->power - high.at * high.at * high.at * high.power;
  const f32 square = width.inverse * width.inverse;
  cell.by_sigma_twice = scale * width.inverse * (cube * square - 2.0f * moment);
#else
  cell.by_sigma_twice = 0.0f;
#endif
  *low = high;
  return cell;
}
#endif
