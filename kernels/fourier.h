/* SPDX-License-Identifier: MIT */
/* Fourier transforms of lines in local memory. Configured by
 *
 *   VALUE                    f32 or f64
 *   FOURIER_COS, FOURIER_SIN the functions of an angle of at most an eighth of a turn
 *   FOURIER_SIGN             −1, or 1 for inverse transforms
 *   FOURIER_GROUP            items of a group
 *   FOURIER_POINTS           points of a line
 *   FOURIER_ALL_PASSES       passes over real and imaginary, as FOURIER_PASS(…)
 *   FOURIER_LAST             where the passes leave the result
 *   FOURIER_READ(j), FOURIER_WRITE(k)   move a point between memory and the variables r and i
 */

/* exp(sign · 2πi k / n): the angle is reduced to an eighth of a turn in integers. */
//@ fourier
DEVICE VALUE fourier_root(i64 k, i64 n, boolean imag) {
  i64 u = 8 * k;
  const boolean below = u > 4 * n;
  if (below) u = 8 * n - u;
  const boolean left = u > 2 * n;
  if (left) u = 4 * n - u;
  const boolean steep = u > n;
  if (steep) u = 2 * n - u;
  const VALUE angle = (VALUE)0.78539816339744830962 * ((VALUE)u / (VALUE)n);
  if (imag) {
    const VALUE sine = steep ? FOURIER_COS(angle) : FOURIER_SIN(angle);
    return below ? -FOURIER_SIGN * sine : FOURIER_SIGN * sine;
  }
  const VALUE cosine = steep ? FOURIER_SIN(angle) : FOURIER_COS(angle);
  return left ? -cosine : cosine;
}

/* One pass of Stockham's: `radix` points apart by `rest` · `stride` make one each. */
#define FOURIER_PASS(radix, stride, rest, from, to)                                                \
  for (int o = lane; o < FOURIER_POINTS; o += FOURIER_GROUP) {                                     \
    const int q = o % (stride), t = o / (stride), k = t % (radix), p = t / (radix);                \
    int w = p * k;                                                                                 \
    VALUE sum_r = 0, sum_i = 0;                                                                    \
    for (int j = 0; j < (radix); j++) {                                                            \
      const int at = (from) + q + (stride) * (p + (rest)*j), root = w * (stride);                  \
      const VALUE c = roots[2 * root], s = roots[2 * root + 1];                                    \
      sum_r += real[at] * c - imag[at] * s;                                                        \
      sum_i += real[at] * s + imag[at] * c;                                                        \
      w += (rest)*k;                                                                               \
      if (w >= (radix) * (rest)) w -= (radix) * (rest);                                            \
    }                                                                                              \
    real[(to) + o] = sum_r;                                                                        \
    imag[(to) + o] = sum_i;                                                                        \
  }                                                                                                \
  BARRIER();

/* The body of a loop over lines. */
//@ fourier_line
for (int j = lane; j < FOURIER_POINTS; j += FOURIER_GROUP) {
  VALUE r = 0, i = 0;
  FOURIER_READ(j)
  real[j] = r;
  imag[j] = i;
}
BARRIER();
FOURIER_ALL_PASSES
for (int k = lane; k < FOURIER_POINTS; k += FOURIER_GROUP) {
  const VALUE r = real[FOURIER_LAST + k], i = imag[FOURIER_LAST + k];
  FOURIER_WRITE(k)
}
BARRIER();
