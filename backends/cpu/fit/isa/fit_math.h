/* Functions of vectors for the fit: powers of 2, the logarithm, the Gaussian's tail.
 *
 * Coefficients: minimax fits by iteratively reweighted least squares (C. Lawson, 1961), rounded to
 * f32. */
#ifndef CPU_FIT_MATH_H
#define CPU_FIT_MATH_H

#include "fit_vector.h"

#define FIT_LOG2_E      1.44269504f
#define FIT_LN_2        0.69314718f
#define FIT_SQRT_LOG2_E 1.20112241f /* √log2(e) */

/* 2^−t for t ≥ 0, from 126 on as 2^−126: relative error 1.5e-7. */
FIT_INLINE vf fit_power(vf t) {
  t = v_min(t, v_set(126));
  const vf shift = v_set(0x1.8p23f);
  const vf shifted = shift - t, f = t + (shifted - shift);
  vf p = v_fma(v_set(-0x1.5c08e6p-10f), f, v_set(0x1.3d0c54p-7f));
  p = v_fma(p, f, v_set(-0x1.c6b6e4p-5f));
  p = v_fma(p, f, v_set(0x1.ebf918p-3f));
  p = v_fma(p, f, v_set(-0x1.62e428p-1f));
  p = v_fma(p, f, v_set(1));
  return (vf)((vu)p + ((vu)shifted << 23));
}

/* Natural logarithm of a normal positive number: absolute error 1e-7 near 1, relative elsewhere. */
FIT_INLINE vf fit_log(vf x) {
  const vi offset = (vi)x - 0x3f3504f3; /* √½ */
  const vi exponent = offset >> 23;
  const vf f = (vf)((vu)x - ((vu)exponent << 23)) - 1;
  const vf n = __builtin_convertvector(exponent, vf);
  const vf f2 = f * f;
  const vf p0 = v_fma(v_set(0.33335263f), f, v_set(-0.50000584f));
  const vf p1 = v_fma(v_set(0.19888276f), f, v_set(-0.24961466f));
  const vf p2 = v_fma(v_set(0.16335651f), f, v_set(-0.17325996f));
  const vf high = v_fma(v_fma(v_set(-0.10034621f), f2, p2), f2, p1);
  const vf p = v_fma(high, f2, p0);
  return v_fma(n, v_set(FIT_LN_2), v_fma(p, f2, f));
}

/* erfc(u) / 2 divided by exp(−u²), from v = u √log2(e) ≥ 0: a polynomial in 1 / (1 + p v) without
 * a constant term, as C. Hastings (1955) has them. Its product with exp(−u²) is within 2e-8 of
 * erfc / 2, and relatively within 1e-5 down to 1e-7, 7e-4 down to 1e-38. */
FIT_INLINE vf fit_tail_ratio(vf v) {
  const vf t = v_reciprocal(v_fma(v, v_set(0.29139411f), v_set(1)));
  vf p = v_fma(v_set(-0.10219176f), t, v_set(0.4013159f));
  p = v_fma(p, t, v_set(-0.36985177f));
  p = v_fma(p, t, v_set(0.37271497f));
  p = v_fma(p, t, v_set(-0.021693567f));
  p = v_fma(p, t, v_set(0.12318883f));
  p = v_fma(p, t, v_set(0.096517399f));
  return p * t;
}

#endif
