/* SPDX-License-Identifier: MIT */
/* Numbers of distributions from uniform numbers, in f64.
 *
 * The functions use additions, multiplications, divisions, square roots, and integers. These round
 * in the same way on every machine, so the results have the same bits on every device. MAD and the
 * device's functions are not allowed here.
 *
 * Why functions, and not compositions of other instructions: a composition cannot try until a try
 * succeeds. It would compute a fixed number of tries for all elements, and need another way for
 * elements where all fail. Its logarithms would differ between devices, and one bit can decide a
 * rejection.
 *
 * u is a uniform number in [0, 1) with 53 bits. Where a distribution has a short inverse, the
 * result is that inverse at u. Rejection methods take their words from Philox with the bits of u as
 * key and the attempt as counter. So an element needs no state, and the attempts of one element do
 * not shift the numbers of another. A result is NaN if u or a parameter is not in its range. */

//@ draw_range
/* NaN where u is not in [0, 1). */
#define draw_range(u, result) ((u) >= 0.0 && (u) < 1.0 ? (result) : NAN_f64)

//@ DRAW_ROOT_HALF
#define DRAW_ROOT_HALF ((u64)0x3FE6A09E667F3BCD) /* the bits of sqrt(1 / 2) */
//@ DRAW_ATTEMPTS
#define DRAW_ATTEMPTS 256u /* an attempt fails with a probability below 1/2 */
//@ DRAW_STREAM
#define DRAW_STREAM 0x64726177u

//@ draw_series
/* artanh(s) / s^3 - 1 / s^2, with square = s^2 up to 0.0295. */
DEVICE f64 draw_series(f64 square) {
  const f64 fourth = square * square, eighth = fourth * fourth;
  const f64 low = 1.0 / 3 + square * (1.0 / 5) + fourth * (1.0 / 7 + square * (1.0 / 9));
  const f64 high = 1.0 / 11 + square * (1.0 / 13) + fourth * (1.0 / 15 + square * (1.0 / 17));
  return low + eighth * (high + eighth * (1.0 / 19));
}

//@ draw_log
/* The natural logarithm of a positive normal number: ln m = 2 artanh((m - 1) / (m + 1)), with the
 * mantissa m within a factor of root 2 of 1. */
DEVICE f64 draw_log(f64 x) {
  const u64 bits = as_u64(x) - DRAW_ROOT_HALF;
  const u64 biased = (bits + ((u64)1023 << 52)) >> 52;
  /* The bits of 2^52 + biased: compilers vectorise this conversion. */
  const f64 exponent = as_f64(biased | (u64)0x4330000000000000) - (0x1p52 + 1023);
  const f64 m = as_f64((bits & (u64)0x000FFFFFFFFFFFFF) + DRAW_ROOT_HALF);
  const f64 s = (m - 1) / (m + 1), square = s * s;
  return exponent * 0x1.62e42fefa39efp-1 + 2 * s * (1 + square * draw_series(square));
}

//@ draw_bend
/* log(1 + t) - t for t > -1, without cancellation near 0. */
DEVICE f64 draw_bend(f64 t) {
  const f64 s = t / (2 + t), square = s * s;
  const f64 near = 2 * s * square * draw_series(square) - t * s;
  if (t > -0.29 && t < 0.41) return near;
  return draw_log(1 + t) - t;
}

//@ draw_exp
/* e to the power x up to 700; 0 below -700. */
DEVICE f64 draw_exp(f64 x) {
  const f64 whole = 0x1.8p52, bounded = x < -700 ? -700.0 : x;
  const f64 shifted = bounded * 1.4426950408889634 + whole, k = shifted - whole;
  const f64 r = bounded - k * 0x1.62e42fefap-1 - k * 0x1.cf79abc9e3b3ap-40;
  f64 sum = 1.0 / 6227020800;
  sum = sum * r + 1.0 / 479001600;
  sum = sum * r + 1.0 / 39916800;
  sum = sum * r + 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 0.5;
  sum = sum * r + 1;
  sum = sum * r + 1;
  return x < -700 ? 0.0 : sum * as_f64((as_u64(shifted) + 1023) << 52);
}

//@ draw_normal_quotient
/* The magnitude of the normal number with `tail` (up to 1/2) beyond it, and q = 1/2 - tail: M. J.
 * Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics
 * 37, 1988. Its three ranges are rational functions; this is the one of q up to 0.425. */
typedef struct draw_normal_quotient {
  f64 above, below;
} draw_normal_quotient;
DEVICE draw_normal_quotient draw_normal_centre(f64 q) {
  const f64 c = 0.180625 - q * q;
  f64 p = 2.5090809287301226727e3;
  p = p * c + 3.3430575583588128105e4;
  p = p * c + 6.7265770927008700853e4;
  p = p * c + 4.5921953931549871457e4;
  p = p * c + 1.3731693765509461125e4;
  p = p * c + 1.9715909503065514427e3;
  p = p * c + 1.3314166789178437745e2;
  p = p * c + 3.3871328727963666080;
  f64 p_below = 5.2264952788528545610e3;
  p_below = p_below * c + 2.8729085735721942674e4;
  p_below = p_below * c + 3.9307895800092710610e4;
  p_below = p_below * c + 2.1213794301586595867e4;
  p_below = p_below * c + 5.3941960214247511077e3;
  p_below = p_below * c + 6.8718700749205790830e2;
  p_below = p_below * c + 4.2313330701600911252e1;
  p_below = p_below * c + 1.0;
  draw_normal_quotient made;
  made.above = q * p;
  made.below = p_below;
  return made;
}
//@ draw_normal_near
/* Without branches, so that compilers vectorise it. Needs tail > e^-25. */
DEVICE f64 draw_normal_near(f64 q, f64 tail) {
  const draw_normal_quotient centre = draw_normal_centre(q);
  const f64 r = BUILTIN_f64(sqrt)(-draw_log(tail)) - 1.6;
  f64 t = 7.74545014278341407640e-4;
  t = t * r + 2.27238449892691845833e-2;
  t = t * r + 2.41780725177450611770e-1;
  t = t * r + 1.27045825245236838258;
  t = t * r + 3.64784832476320460504;
  t = t * r + 5.76949722146069140550;
  t = t * r + 4.63033784615654529590;
  t = t * r + 1.42343711074968357734;
  f64 t_below = 1.05075007164441684324e-9;
  t_below = t_below * r + 5.47593808499534494600e-4;
  t_below = t_below * r + 1.51986665636164571966e-2;
  t_below = t_below * r + 1.48103976427480074590e-1;
  t_below = t_below * r + 6.89767334985100004550e-1;
  t_below = t_below * r + 1.67638483018380384940;
  t_below = t_below * r + 2.05319162663775882187;
  t_below = t_below * r + 1.0;
  const boolean central = q <= 0.425;
  return (central ? centre.above : t) / (central ? centre.below : t_below);
}
//@ draw_normal_far
DEVICE f64 draw_normal_far(f64 tail) {
  const f64 r = BUILTIN_f64(sqrt)(-draw_log(tail)) - 5;
  f64 p = 2.01033439929228813265e-7;
  p = p * r + 2.71155556874348757815e-5;
  p = p * r + 1.24266094738807843860e-3;
  p = p * r + 2.65321895265761230930e-2;
  p = p * r + 2.96560571828504891230e-1;
  p = p * r + 1.78482653991729133580;
  p = p * r + 5.46378491116411436990;
  p = p * r + 6.65790464350110377720;
  f64 p_below = 2.04426310338993978564e-15;
  p_below = p_below * r + 1.42151175831644588870e-7;
  p_below = p_below * r + 1.84631831751005468180e-5;
  p_below = p_below * r + 7.86869131145613259100e-4;
  p_below = p_below * r + 1.48753612908506148525e-2;
  p_below = p_below * r + 1.36929880922735805310e-1;
  p_below = p_below * r + 5.99832206555887937690e-1;
  p_below = p_below * r + 1.0;
  return p / p_below;
}
//@ DRAW_FAR
#define DRAW_FAR 0x1p-36 /* less than e^-24.9 */
//@ draw_normal_quantile
DEVICE f64 draw_normal_quantile(f64 q, f64 tail) {
  const draw_normal_quotient centre = draw_normal_centre(q);
  if (q <= 0.425) return centre.above / centre.below;
  return tail < DRAW_FAR ? draw_normal_far(tail) : draw_normal_near(q, tail);
}

//@ draw_normal_f64
/* The middle of one of 2^53 equal parts. q is exact, and never 0. */
DEVICE f64 draw_normal_f64(f64 u) {
  const f64 q = (u - 0.5) + 0x1p-54, size = q < 0 ? -q : q;
  const f64 x = draw_normal_quantile(size, 0.5 - size);
  return draw_range(u, q < 0 ? -x : x);
}

//@ draw_exponential_f64
DEVICE f64 draw_exponential_f64(f64 u) {
  const f64 x = -draw_log(1 - u);
  return draw_range(u, x > 0x1p-54 ? x : 0x1p-54);
}

//@ draw_gumbel_f64
DEVICE f64 draw_gumbel_f64(f64 u) {
  return -draw_log(draw_exponential_f64(u));
}

//@ draw_uniform_32
/* The middle of one of 2^32 equal parts: neither 0 nor 1. */
#define draw_uniform_32(word) (((f64)(word) + 0.5) * 0x1p-32)

//@ draw_uniform_53
DEVICE f64 draw_uniform_53(u32 low, u32 high) {
  return (f64)high * 0x1p-32 + (f64)(low >> 11) * 0x1p-53;
}

//@ draw_gamma_parts
/* A gamma number with shape > 0: G. Marsaglia and W. W. Tsang, "A simple method for generating
 * gamma variables", ACM Transactions on Mathematical Software 26, 2000. The number is value times
 * e^power. The power is 0 from shape 1 on, where the method applies directly. */
typedef struct draw_gamma_parts {
  f64 value, power;
} draw_gamma_parts;
DEVICE draw_gamma_parts draw_gamma(f64 u, f64 shape, u32 stream) {
  const i64 key = (i64)as_u64(u);
  const boolean small = shape < 1;
  const f64 d = (small ? shape + 1 : shape) - 1.0 / 3, c = 1 / BUILTIN_f64(sqrt)(9 * d);
  draw_gamma_parts made;
  made.value = d;
  made.power = 0;
  for (u32 attempt = 0; attempt < DRAW_ATTEMPTS; attempt++) {
    const random_four w = random_words(key, (i64)attempt, stream);
    const f64 x = draw_normal_f64(draw_uniform_53(w.word0, w.word1)), square = x * x;
    const f64 v = draw_uniform_32(w.word2), step = c * x, root = 1 + step;
    if (attempt == 0 && small) {
      const f64 power = draw_log(draw_uniform_32(w.word3)) / (shape < 0x1p-900 ? 0x1p-900 : shape);
      made.power = power;
    }
    if (root <= 0) continue;
    made.value = d * (root * root * root);
    if (v < 1 - 0.0331 * square * square) break;
    if (draw_log(v) < 0.5 * square + d * draw_bend(step * (3 + step * (3 + step)))) break;
  }
  return made;
}

//@ draw_gamma_f64
DEVICE f64 draw_gamma_f64(f64 u, f64 shape) {
  if (!(u >= 0 && u < 1 && shape >= 0)) return NAN_f64;
  if (shape == 0) return 0;
  const draw_gamma_parts made = draw_gamma(u, shape, DRAW_STREAM);
  return made.power < 0 ? made.value * draw_exp(made.power) : made.value;
}

//@ DRAW_FINITE
#define DRAW_FINITE 0x1.fffffffffffffp1023 /* the largest finite number */

//@ draw_digamma
/* The derivative of ln gamma(x), 0 < x <= 82: the recurrence, then Stirling's series. */
DEVICE f64 draw_digamma(f64 x) {
  f64 sum = 0;
  NO_UNROLL
  for (; x < 12; x += 1) sum += 1 / x;
  const f64 s = 1 / (x * x);
  const f64 near = 1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132 - s * (691.0 / 32760)));
  return draw_log(x) - 0.5 / x - s * (1.0 / 12 - s * (1.0 / 120 - s * near)) - sum;
}

//@ DRAW_TERMS
#define DRAW_TERMS 400u /* more than any series below needs */

//@ draw_slope_below
/* d ln x / d shape where x < shape + 1, from the power series of the distribution function:
 * x^shape e^-x / gamma(shape + 1) times the sum of x^n / ((shape + 1) ... (shape + n)). */
DEVICE f64 draw_slope_below(f64 shape, f64 x, f64 log_x) {
  f64 term = 1, fall = 0, sum = 1, falls = 0;
  NO_UNROLL
  for (u32 n = 1; n < DRAW_TERMS; n++) {
    const f64 below = shape + (f64)n;
    term *= x / below;
    fall += 1 / below;
    sum += term;
    falls += term * fall;
    if (term * (1 + fall) < 0x1p-56 * sum) break;
  }
  return (sum * (draw_digamma(shape + 1) - log_x) + falls) / shape;
}

//@ draw_slope_above
/* d ln x / d shape where x >= shape + 1, from Legendre's continued fraction of the upper tail. The
 * numerator p and the denominator q of its convergents carry their derivatives. q is kept at 1. */
DEVICE f64 draw_slope_above(f64 shape, f64 x, f64 log_x) {
  f64 base = x + 1 - shape, p = 1 / base, q_slope = -1 / base, p_slope = 0;
  f64 p_before = 0, q_before = 1 / base, p_before_slope = 0, q_before_slope = 0;
  f64 last = 0, last_slope = 0;
  NO_UNROLL
  for (u32 n = 1; n < DRAW_TERMS; n++) {
    const f64 k = (f64)n, factor = k * (shape - k);
    base += 2;
    const f64 q = base + factor * q_before, scale = 1 / q;
    const f64 p_next = (base * p + factor * p_before) * scale;
    const f64 p_next_slope = (base * p_slope - p + k * p_before + factor * p_before_slope) * scale;
    const f64 q_next_slope = (base * q_slope - 1 + k * q_before + factor * q_before_slope) * scale;
    p_before = p * scale;
    p_before_slope = p_slope * scale;
    q_before = scale;
    q_before_slope = q_slope * scale;
    p = p_next;
    p_slope = p_next_slope;
    q_slope = q_next_slope;
    const f64 slope = p_slope - p * q_slope;
    const f64 moved = p > last ? p - last : last - p;
    const f64 turned = slope > last_slope ? slope - last_slope : last_slope - slope;
    if (moved < 0x1p-52 * p && turned < 0x1p-50 * (slope + p)) break;
    last = p;
    last_slope = slope;
  }
  return p * (log_x - draw_digamma(shape)) + (p_slope - p * q_slope);
}

//@ DRAW_LARGE
#define DRAW_LARGE                                                                                 \
  80.0 /* from this shape on, the expansion below has a relative error below 1e-9 */

//@ draw_slope_large
/* d x / d shape for large shapes. Let w = ln(x / shape), and D(w) be the derivative. That the
 * distribution function keeps its value is a differential equation for D. It has a solution in
 * powers of 1 / shape, whose first term is w / (1 - e^-w). The others are Taylor series here. */
DEVICE f64 draw_slope_large(f64 shape, f64 x) {
  const f64 w = draw_log(x / shape), r = 1 / shape, s = w * w;
  f64 d0 = w * (x / (x - shape)), d1, d2, d3, d4;
  if (s < 0.0625) {
    d0 = 1.0 / 30240 - s * (1.0 / 1209600 - s * (1.0 / 47900160));
    d0 = 1 + w * (0.5 + w * (1.0 / 12 - s * (1.0 / 720 - s * d0)));
  }
  d1 = 1.0 / 9580032 + w * (691.0 / 19813248000.0 - w * (691.0 / 217945728000.0));
  d1 = 1.0 / 302400 + w * (1.0 / 1064448 - w * d1);
  d1 = 1.0 / 2016 - w * (1.0 / 10080 + w * (1.0 / 43200 - w * d1));
  d1 = 1.0 / 6 + w * (1.0 / 12 + w * (1.0 / 120 - w * (1.0 / 360 + w * d1)));
  d2 = 1.0 / 3360 - w * (1.0 / 25200 + w * (1.0 / 52800 - w * (1.0 / 554400)));
  d2 = 1.0 / 60 + w * (1.0 / 60 + w * (1.0 / 280 - w * (1.0 / 1260 + w * d2)));
  d3 = 1.0 / 5040 - w * (43.0 / 221760 + w * (1.0 / 52800 - w * (1369.0 / 86486400)));
  d3 = -1.0 / 105 - w * (1.0 / 840 - w * (1.0 / 560 + w * d3));
  d4 = -1.0 / 280 - w * (1.0 / 280 - w * (1.0 / 55440 + w * (3.0 / 6160)));
  return d0 + r * (d1 + r * (d2 + r * (d3 + r * d4)));
}

//@ draw_gamma_slope_f64
/* d ln x / d shape for the gamma number x of u, whose quantile is kept: M. Figurnov, S. Mohamed and
 * A. Mnih, "Implicit reparameterization gradients", NeurIPS 2018, eq. 5. `first` is 1 for the first
 * gamma number of a beta number, and 0 for its second and for a gamma number. */
DEVICE f64 draw_gamma_slope_f64(f64 u, f64 shape, f64 first) {
  if (!(u >= 0 && u < 1 && shape >= 0)) return NAN_f64;
  if (shape == 0) return 0;
  const draw_gamma_parts made = draw_gamma(u, shape, DRAW_STREAM + (first != 0 ? 1u : 0u));
  const f64 log_x = draw_log(made.value) + made.power;
  if (shape >= DRAW_LARGE) return draw_slope_large(shape, made.value) / made.value;
  const f64 x = made.power < 0 ? made.value * draw_exp(made.power) : made.value;
  const f64 slope =
      x < shape + 1 ? draw_slope_below(shape, x, log_x) : draw_slope_above(shape, x, log_x);
  return slope < DRAW_FINITE ? slope : DRAW_FINITE;
}

//@ draw_beta_f64
/* X / (X + Y) of two gamma numbers. Where a shape is small, both can underflow, so the quotient Y /
 * X comes from logarithms. Where shapes are very large, the sum can overflow. */
DEVICE f64 draw_beta_f64(f64 u, f64 a, f64 b) {
  if (!(u >= 0 && u < 1 && a > 0 && b > 0 && a <= DRAW_FINITE && b <= DRAW_FINITE)) return NAN_f64;
  draw_gamma_parts x, y;
  f64 log_ratio, sum;
  x.value = y.value = 1;
  x.power = y.power = 0;
  NO_UNROLL
  for (u32 k = 0; k < 2u; k++) {
    y = x;
    x = draw_gamma(u, k == 0 ? b : a, DRAW_STREAM + k);
  }
  sum = x.value + y.value;
  if (x.power == 0 && y.power == 0)
    return sum <= DRAW_FINITE ? x.value / sum : 1 / (1 + y.value / x.value);
  log_ratio = draw_log(y.value / x.value) + (y.power - x.power);
  return log_ratio > 700 ? 0.0 : 1 / (1 + draw_exp(log_ratio));
}

//@ draw_stirling
/* ln n! minus Stirling's formula (n + 1/2) ln n - n + ln(2 pi) / 2, for whole n from 1 on. */
CONSTANT_TABLE f64 draw_stirling_table[10] = {0.0,
                                              0.08106146679532726,
                                              0.0413406959554093,
                                              0.02767792568499834,
                                              0.020790672103765093,
                                              0.016644691189821193,
                                              0.013876128823070748,
                                              0.01189670994589177,
                                              0.010411265261972096,
                                              0.009255462182712733};
DEVICE f64 draw_stirling(f64 n) {
  if (n < 10) return draw_stirling_table[(i32)n];
  const f64 r = 1 / n, square = r * r;
  return r * (1.0 / 12 - square * (1.0 / 360 - square * (1.0 / 1260 - square / 1680)));
}

//@ draw_floor
/* For numbers below 2^52 in size. */
DEVICE f64 draw_floor(f64 x) {
  const f64 cut = (f64)(i64)x;
  return cut > x ? cut - 1 : cut;
}

//@ DRAW_MOST
#define DRAW_MOST 0x1p52 /* whole numbers up to here have neighbours at a distance of 1 or less */
//@ DRAW_INVERTED
#define DRAW_INVERTED 10.0 /* below this mean, u is searched for among cumulative probabilities */
//@ DRAW_SEARCHED
#define DRAW_SEARCHED 200 /* at such means, larger numbers have a probability below 2^-53 */

//@ draw_poisson_exponent
/* The logarithm of the probability of n, by C. Loader, "Fast and accurate computation of binomial
 * probabilities", 2000: it does not cancel for large means. */
DEVICE f64 draw_poisson_exponent(f64 n, f64 mean) {
  if (n == 0) return -mean;
  return n * draw_bend((mean - n) / n) - 0.5 * draw_log(6.283185307179586 * n) - draw_stirling(n);
}

//@ draw_poisson_f64
/* Inversion, or transformed rejection: W. Hormann, "The transformed rejection method for generating
 * Poisson random variables", Insurance: Mathematics and Economics 12, 1993. */
DEVICE f64 draw_poisson_f64(f64 u, f64 mean) {
  if (!(u >= 0 && u < 1 && mean >= 0 && mean <= DRAW_MOST)) return NAN_f64;
  if (mean < DRAW_INVERTED) {
    f64 probability = draw_exp(-mean), n = 0;
    for (f64 rest = u; rest >= probability && n < DRAW_SEARCHED; probability *= mean / n) {
      rest -= probability;
      n += 1;
    }
    return n;
  }
  const f64 b = 0.931 + 2.53 * BUILTIN_f64(sqrt)(mean), a = -0.059 + 0.02483 * b;
  const f64 sure = 0.9277 - 3.6224 / (b - 2), scale = 1.1239 + 1.1328 / (b - 3.4);
  random_four w = random_words((i64)as_u64(u), 0, DRAW_STREAM);
  for (u32 attempt = 0; attempt < DRAW_ATTEMPTS; attempt++) {
    if (attempt > 0 && attempt % 2 == 0)
      w = random_words((i64)as_u64(u), (i64)attempt, DRAW_STREAM);
    const f64 across = draw_uniform_32(attempt % 2 == 0 ? w.word0 : w.word2) - 0.5;
    const f64 v = draw_uniform_32(attempt % 2 == 0 ? w.word1 : w.word3);
    const f64 side = 0.5 - (across < 0 ? -across : across);
    const f64 n = draw_floor((2 * a / side + b) * across + mean + 0.43);
    if (side >= 0.07 && v <= sure) return n;
    if (n < 0 || (side < 0.013 && v > side)) continue;
    if (draw_log(v * scale / (a / (side * side) + b)) <= draw_poisson_exponent(n, mean)) return n;
  }
  return draw_floor(mean);
}

//@ draw_binomial_exponent
/* The logarithm of the probability of k successes of n, 0 < p <= 1/2; as the Poisson one. */
DEVICE f64 draw_binomial_exponent(f64 k, f64 n, f64 p) {
  const f64 q = 1 - p, rest = n - k;
  if (k == 0) return n * (draw_bend(-p) - p);
  if (rest == 0) return n * draw_log(p);
  return k * draw_bend((n * p - k) / k) + rest * draw_bend((n * q - rest) / rest) +
         0.5 * draw_log(n / rest / (6.283185307179586 * k)) +
         (draw_stirling(n) - draw_stirling(k) - draw_stirling(rest));
}

//@ draw_binomial_half
/* For p up to 1/2: inversion, or W. Hormann, "The generation of binomial random variates", Journal
 * of Statistical Computation and Simulation 46, 1993 (BTRS). */
DEVICE f64 draw_binomial_half(f64 u, f64 n, f64 p) {
  if (n * p < DRAW_INVERTED) {
    const f64 odds = p / (1 - p), most = n < DRAW_SEARCHED ? n : DRAW_SEARCHED;
    f64 probability = draw_exp(n * (draw_bend(-p) - p)), k = 0;
    for (f64 rest = u; rest >= probability && k < most; probability *= (n - k + 1) * odds / k) {
      rest -= probability;
      k += 1;
    }
    return k;
  }
  const f64 root = BUILTIN_f64(sqrt)(n * p * (1 - p)), b = 1.15 + 2.53 * root;
  const f64 a = -0.0873 + 0.0248 * b + 0.01 * p, sure = 0.92 - 4.2 / b;
  const f64 scale = (2.83 + 5.1 / b) * root, mode = draw_floor((n + 1) * p);
  f64 highest = 1;
  random_four w = random_words((i64)as_u64(u), 0, DRAW_STREAM);
  for (u32 attempt = 0; attempt < DRAW_ATTEMPTS; attempt++) {
    if (attempt > 0 && attempt % 2 == 0)
      w = random_words((i64)as_u64(u), (i64)attempt, DRAW_STREAM);
    const f64 across = draw_uniform_32(attempt % 2 == 0 ? w.word0 : w.word2) - 0.5;
    const f64 v = draw_uniform_32(attempt % 2 == 0 ? w.word1 : w.word3);
    const f64 side = 0.5 - (across < 0 ? -across : across);
    const f64 k = draw_floor((2 * a / side + b) * across + n * p + 0.5);
    if (side >= 0.07 && v <= sure) return k;
    if (k < 0 || k > n) continue;
    if (highest > 0) highest = draw_binomial_exponent(mode, n, p);
    if (draw_log(v * scale / (a / (side * side) + b)) <= draw_binomial_exponent(k, n, p) - highest)
      return k;
  }
  return mode;
}

//@ draw_binomial_f64
DEVICE f64 draw_binomial_f64(f64 u, f64 n, f64 p) {
  if (!(u >= 0 && u < 1 && p >= 0 && p <= 1 && n >= 0 && n <= DRAW_MOST)) return NAN_f64;
  if (n != draw_floor(n)) return NAN_f64;
  const boolean flipped = p > 0.5;
  const f64 k = draw_binomial_half(u, n, flipped ? 1 - p : p);
  return flipped ? n - k : k;
}

//@ draw_upper
/* The probability that a normal number is above x >= 0: e^(-x^2 / 2) times a polynomial of
 * 4 / (4 + x), fitted with a relative error of 6e-15. */
DEVICE f64 draw_upper(f64 x) {
  const f64 t = 4 / (4 + x), s = 2 * t - 1;
  f64 y = 1.687520301705719e-09;
  y = y * s - 3.2134914037969268e-09;
  y = y * s - 1.4140185357341454e-08;
  y = y * s + 3.677533762371157e-08;
  y = y * s + 5.8684740183257076e-08;
  y = y * s - 2.519780882572591e-07;
  y = y * s - 1.4994197427031235e-07;
  y = y * s + 1.4770409409367444e-06;
  y = y * s + 1.7524413525578343e-07;
  y = y * s - 8.784606616114712e-06;
  y = y * s - 4.757301594149859e-07;
  y = y * s + 5.777323771927741e-05;
  y = y * s + 3.333579159133783e-05;
  y = y * s - 0.00040770452157329334;
  y = y * s - 0.0008699230553136571;
  y = y * s + 0.001885047232281555;
  y = y * s + 0.01509914372026368;
  y = y * s + 0.04663046449034318;
  y = y * s + 0.0967843501856238;
  y = y * s + 0.15197416049296716;
  y = y * s + 0.1888212826039378;
  return draw_exp(-0.5 * x * x) * (y * t);
}

//@ draw_beyond
/* The truncated normal number for low > 35: beyond, probabilities underflow. x^2 / 2 is nearly
 * exponential there. One step of Newton's method adds the factor 1 / x of the tail. */
DEVICE f64 draw_beyond(f64 u, f64 low, f64 high) {
  const f64 width = high - low, decay = width * (low + 0.5 * width);
  const f64 end = decay > 700 ? 0.0 : draw_exp(-decay) * (low / high);
  const f64 wanted = draw_log((1 - u) + u * end);
  f64 step = 0;
  for (u32 k = 0; k < 3u; k++) {
    const f64 x = low + step, fall = 1 / (x * x) - 1 / (low * low);
    const f64 error = -step * (low + 0.5 * step) - draw_log(x / low) - fall - wanted;
    step += error / (x + 1 / x);
  }
  return low + step;
}

//@ DRAW_NARROW
#define DRAW_NARROW 0x1p-14 /* both errors below are smaller than 2e-10 of the width here */

//@ draw_truncated_normal_f64
/* The inverse of the distribution between two limits. The side with the larger limit is computed,
 * so that a narrow tail keeps its accuracy. Between narrow limits the probabilities cancel: the
 * density is linear there, apart from terms of second order. u = 0 is the first of 2^53 parts; its
 * middle keeps infinite limits away. */
DEVICE f64 draw_truncated_normal_f64(f64 u, f64 low, f64 high) {
  if (!(u >= 0 && u < 1 && low <= high)) return NAN_f64;
  if (low == high) return low;
  const boolean mirrored = low + high < 0;
  const f64 a = mirrored ? -high : low, b = mirrored ? -low : high,
            at = mirrored ? (1 - 0x1p-53) - u : u;
  const f64 above = draw_upper(b), width = b - a, middle = a + 0.5 * width;
  f64 x;
  if (width * (1 + (middle < 0 ? -middle : middle)) < DRAW_NARROW) {
    x = a + width * (at * (1 - 0.5 * (width * middle) * (1 - at)));
  } else if (a > 35) {
    x = draw_beyond(at, a, b);
  } else if (a >= 0) {
    const f64 from = draw_upper(a), tail = from - at * (from - above);
    x = draw_normal_quantile(0.5 - tail, tail);
  } else {
    const f64 below = draw_upper(-a), inside = 1 - below - above;
    const f64 left = below + (at > 0 ? at : 0x1p-54) * inside, right = above + (1 - at) * inside;
    const f64 tail = left < right ? left : right;
    const f64 size = tail < 0.5 ? draw_normal_quantile(0.5 - tail, tail) : 0.0;
    x = left < right ? -size : size;
  }
  x = x < a ? a : x;
  x = x > b ? b : x;
  return mirrored ? -x : x;
}
