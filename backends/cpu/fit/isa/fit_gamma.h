/* The regularised upper incomplete gamma function Q(a, x), for p-values.
 *
 * From a = 2.5 on by N. M. Temme's uniform expansion ("The asymptotic expansion of the incomplete
 * gamma functions", SIAM J. Math. Anal. 10, 1979): with λ = x/a, η²/2 = λ − 1 − ln λ, η having the
 * sign of λ − 1,
 *
 *   Q = ½ erfc(η √(a/2)) + exp(−a η²/2) / √(2πa) · (C0(η) + C1(η)/a + C2(η)/a² + …)
 *
 * Errors: 3e-5 absolute there, and in the upper tail 1e-3 relative down to 1e-30; below, the result
 * fades to 0. Smaller a means fewer than five degrees of freedom: rare enough to go one by one. */
#ifndef CPU_FIT_GAMMA_H
#define CPU_FIT_GAMMA_H

#include <math.h>

#include "fit_math.h"

#define FIT_GAMMA_LEAST 2.5f

/* By the series, or by Legendre's continued fraction in W. J. Lentz's form (1976). */
__attribute__((noinline)) static float fit_upper_gamma_small(float a_given, float x_given) {
  const double a = (double)a_given, x = (double)x_given;
  if (!(a > 0) || !(x >= 0)) return __builtin_nanf("");
  if (x <= 0) return 1;
  if (x > 200) return 0;
  const double front = exp(a * log(x) - x) / tgamma(a);
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (int n = 1; n < 100 && term > 1e-12 * sum; n++) {
      term *= x / (a + n);
      sum += term;
    }
    return (float)(1 - front * sum);
  }
  double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (int n = 1; n < 300; n++) {
    const double factor = n * (a - n);
    b += 2;
    d = 1 / (factor * d + b);
    c = b + factor / c;
    h *= d * c;
    if (fabs(d * c - 1) < 1e-12) break;
  }
  return (float)(front * h);
}

/* m − ln(1 + m), without cancellation where m is small: with s = m/(2 + m) it is
 * m s − 2 (s³/3 + s⁵/5 + …). */
FIT_INLINE vf fit_log_excess(vf m) {
  const vf s = m * v_reciprocal(m + 2), s2 = s * s;
  vf p = v_fma(s2, v_set(2.0f / 11), v_set(2.0f / 9));
  p = v_fma(p, s2, v_set(2.0f / 7));
  p = v_fma(p, s2, v_set(2.0f / 5));
  p = v_fma(p, s2, v_set(2.0f / 3));
  const vf near = v_fnma(p * s2, s, m * s);
  const vf far = m - fit_log(v_max(m + 1, v_set(1e-30f)));
  return v_select(v_less(v_abs(s), v_set(0.2f)), near, far);
}

/* C0 + C1/a + C2/a². */
FIT_INLINE vf fit_temme_terms(vf eta, vf m, vf inverse) {
  vf c0 = v_fma(eta, v_set(-2.1854485e-6f), v_set(3.9192632e-5f));
  c0 = v_fma(c0, eta, v_set(-1.7875514e-4f));
  c0 = v_fma(c0, eta, v_set(3.5273369e-4f));
  c0 = v_fma(c0, eta, v_set(1.1574074e-3f));
  c0 = v_fma(c0, eta, v_set(-1.4814815e-2f));
  c0 = v_fma(c0, eta, v_set(8.3333333e-2f));
  c0 = v_fma(c0, eta, v_set(-0.33333333f));
  vf c1 = v_fma(eta, v_set(7.6491609e-6f), v_set(-1.8098550e-5f));
  c1 = v_fma(c1, eta, v_set(-4.0187757e-7f));
  c1 = v_fma(c1, eta, v_set(2.0576132e-4f));
  c1 = v_fma(c1, eta, v_set(-9.9022634e-4f));
  c1 = v_fma(c1, eta, v_set(2.6455026e-3f));
  c1 = v_fma(c1, eta, v_set(-3.4722222e-3f));
  c1 = v_fma(c1, eta, v_set(-1.8518519e-3f));
  vf c2 = v_fma(eta, v_set(-1.0736653e-4f), v_set(2.0093879e-6f));
  c2 = v_fma(c2, eta, v_set(7.7160494e-4f));
  c2 = v_fma(c2, eta, v_set(-2.6813272e-3f));
  c2 = v_fma(c2, eta, v_set(4.1335979e-3f));
  const vf near = v_fma(v_fma(c2, inverse, c1), inverse, c0);
  /* Far from 0: C0 = 1/m − 1/η, C1 = 1/η³ − 1/m³ − 1/m² − 1/12m. */
  const vm is_near = v_less(v_abs(eta), v_set(1));
  const vf q = v_reciprocal(v_select(is_near, v_set(1), eta));
  const vf r = v_reciprocal(v_select(is_near, v_set(1), m));
  const vf far1 = v_fnma(v_fma(r, r + 1, v_set(1.0f / 12)), r, q * q * q);
  return v_select(is_near, near, v_fma(far1, inverse, r - q));
}

static vf fit_upper_gamma(vf a, vf x) {
  const vm regular = v_and(v_less(v_set(FIT_GAMMA_LEAST), a), v_less(a, v_set(1e30f)));
  const vf safe = v_select(regular, a, v_set(FIT_GAMMA_LEAST));
  const vf inverse = v_reciprocal(safe);
  const vf m = v_min(x * inverse, v_set(1e4f)) - 1;
  const vf excess = v_max(fit_log_excess(m), v_set(0));
  const vf power = safe * excess * FIT_LOG2_E, root = v_sqrt(power);
  const vm right = v_less(v_set(0), m);
  const vf magnitude = v_sqrt(excess + excess), eta = v_select(right, magnitude, -magnitude);
  const vf e = v_keep(v_less(power, v_set(120)), fit_power(power));
  const vf tail = e * fit_tail_ratio(root);
  const vf correction = e * fit_temme_terms(eta, m, inverse) * v_sqrt(inverse) * 0.39894228f;
  vf q = v_clamp(v_select(right, tail, 1 - tail) + correction, v_set(0), v_set(1));
  /* NaN, and what is too small for the expansion. */
  uint32_t others = FIT_ALL_LANES & ~v_bits(v_and(regular, v_less(v_set(-1), x)));
  for (; others; others &= others - 1) {
    const int lane = __builtin_ctz(others);
    q[lane] = fit_upper_gamma_small(a[lane], x[lane]);
  }
  return q;
}

#endif
