/* SPDX-License-Identifier: MIT */
/* Functions in f32, without branches and mostly without f64. So compilers for CPUs can vectorize
 * them, and devices without f64 can run them. Unlike built-in functions, they have the same
 * precision on every device, also in the tails. The CPU backend compiles this file as well
 * (backends/cpu/program/isa/math_f32.h).
 *
 * exp: x = n ln 2 + r, |r| <= ln 2 / 2, with ln 2 as the sum of a short and a small number, and a
 * polynomial in r (W. J. Cody and W. Waite, "Software manual for the elementary functions", 1980,
 * chapter 6). log: x = 2^k (1 + f) with 1 + f from sqrt 1/2 to sqrt 2, and a polynomial instead of
 * their rational function (chapter 5).
 *
 * Polynomials are minimax fits (Remez exchange; for erf and gelu iteratively reweighted least
 * squares, C. Lawson, 1961). Their coefficients are rounded to f32 one after another, and the
 * remaining ones are fitted again each time. Polynomials are evaluated in pairs (G. Estrin, 1960),
 * because the length of the dependency chain limits a loop over these functions. */

//@ EXP_SHIFT
/* Added to a number of small magnitude, leaves the nearest integer plus 127 in the low byte. */
#define EXP_SHIFT (0x1.8p23f + 127.0f)

//@ exp_power_f32
/* 2^n of a shifted n, if that is a normal number; `more` is added to n. */
#define exp_power_f32(shifted, more) as_f32((as_u32(shifted) + (u32)(more)) << 23)

//@ exp_shifted_f32
#define exp_shifted_f32(x) MAD_f32(x, 0x1.715476p+0f, EXP_SHIFT)

//@ exp_remainder_f32
/* r in x = n ln 2 + r. The first product is exact. */
#define exp_remainder_f32(x, n) MAD_f32(n, 0x1.bd0106p-13f, MAD_f32(n, -0x1.63p-1f, x))

//@ exp_rest_f32
DEVICE f32 exp_rest_f32(f32 x, f32 shifted) {
  const f32 n = shifted - EXP_SHIFT;
  return exp_remainder_f32(x, n);
}

//@ expm1_small_f32
/* exp(r) - 1 for |r| <= ln 2 / 2. */
DEVICE f32 expm1_small_f32(f32 r) {
  const f32 square = r * r;
  const f32 low = MAD_f32(0x1.5554660p-3f, r, 0.5f);
  const f32 middle = MAD_f32(0x1.1257cc0p-7f, r, 0x1.5553000p-5f);
  const f32 q = MAD_f32(MAD_f32(0x1.6feb880p-10f, square, middle), square, low);
  return MAD_f32(q, square, r);
}

//@ exp_core_f32
/* For |x| <= 87, so that the result is a normal number. */
DEVICE f32 exp_core_f32(f32 x) {
  const f32 shifted = exp_shifted_f32(x), power = exp_power_f32(shifted, 0);
  return MAD_f32(power, expm1_small_f32(exp_rest_f32(x, shifted)), power);
}

//@ exp_scaled_f32
/* exp(x) 2^64 for -110 <= x <= 0: precise even if exp(x) is subnormal. */
DEVICE f32 exp_scaled_f32(f32 x) {
  const f32 shifted = MAD_f32(x, 0x1.715476p+0f, EXP_SHIFT + 64.0f);
  const f32 n = shifted - (EXP_SHIFT + 64.0f), power = exp_power_f32(shifted, 0);
  return MAD_f32(power, expm1_small_f32(exp_remainder_f32(x, n)), power);
}

//@ unscale_f32
/* q 2^-64 for finite q >= 0, rounded once. Uses integers, even if a condition discards the result,
 * because CPUs take more than a hundred cycles for an operation with a subnormal result. Adding
 * 2^23 rounds the number of units of 2^-149 to a whole number in the low bits. */
#ifdef FAST_SUBNORMALS
#define unscale_f32(q) ((q)*0x1p-64f)
#else
DEVICE f32 unscale_f32(f32 q) {
  const u32 units = as_u32(q * 0x1p85f + 0x1p23f) - as_u32(0x1p23f);
  return as_f32(q < 0x1p-62f ? units : as_u32(q) - (64u << 23));
}
#endif

//@ exp_f32
DEVICE f32 exp_f32(f32 x) {
  f32 y = x > 89.0f ? 89.0f : x;
  y = y < -110.0f ? -110.0f : y;
  const f32 shifted = exp_shifted_f32(y);
  /* In two steps, because the power of two alone may be out of range; only the last step rounds. */
  const f32 power = exp_power_f32(shifted, x < 0.0f ? 64 : -1);
  const f32 q = (1.0f + expm1_small_f32(exp_rest_f32(y, shifted))) * power;
  return x < 0.0f ? unscale_f32(q) : q + q;
}

//@ exp_falling_f32
/* exp(x) for x <= 0 or NaN. */
#ifdef FAST_SUBNORMALS
#define exp_falling_f32(x) unscale_f32(exp_scaled_f32((x) < -110.0f ? -110.0f : (x)))
#else
#define exp_falling_f32(x) exp_f32(x)
#endif

//@ expm1_f32
/* 2^n exp(r) - 1 = 2^n (exp(r) - 1) + (2^n - 1), halved so that 2^n stays in range. */
DEVICE f32 expm1_f32(f32 x) {
  f32 y = x > 88.8f ? 88.8f : x;
  y = y < -18.0f ? -18.0f : y;
  const f32 shifted = exp_shifted_f32(y), power = exp_power_f32(shifted, -1);
  const f32 small = expm1_small_f32(exp_rest_f32(y, shifted));
  const f32 result = 2.0f * MAD_f32(power, small, power - 0.5f);
  return BUILTIN_f32(fabs)(x) < 0x1p-24f ? x : result; /* keeps -0 */
}

//@ elu_f32
#define elu_f32(x, alpha) ((x) > 0.0f ? (x) : (alpha)*expm1_f32(x))

//@ log_tail_f32
/* log(1 + f) - f + f^2 / 2 for 1 + f from sqrt 1/2 to sqrt 2. */
DEVICE f32 log_tail_f32(f32 f) {
  const f32 square = f * f;
  const f32 a = MAD_f32(-0x1.0002280p-2f, f, 0x1.5555540p-2f);
  const f32 b = MAD_f32(-0x1.5472200p-3f, f, 0x1.99a0360p-3f);
  const f32 c = MAD_f32(-0x1.0d7ebc0p-3f, f, 0x1.22d5fc0p-3f);
  const f32 d = MAD_f32(-0x1.3a22620p-4f, f, 0x1.05a5560p-3f);
  const f32 low = MAD_f32(b, square, a), high = MAD_f32(d, square, c);
  return MAD_f32(high, square * square, low) * (square * f);
}

//@ log1p_small_f32
#define log1p_small_f32(f) ((f) + MAD_f32(-0.5f * (f), f, log_tail_f32(f)))

//@ log_sum_f32
/* k ln 2 + log(1 + f). */
DEVICE f32 log_sum_f32(f32 k, f32 f) {
  const f32 tail = MAD_f32(k, -0x1.bd0106p-13f, log_tail_f32(f));
  return MAD_f32(k, 0x1.63p-1f, f + MAD_f32(-0.5f * f, f, tail));
}

//@ log_exponent_f32
/* The exponent k for the bits of x: x / 2^k is from sqrt 1/2 to sqrt 2. */
#define log_exponent_f32(bits) ((i32)((bits)-0x3f3504f3u) >> 23)

//@ log_fraction_f32
/* f in x = 2^k (1 + f). */
#define log_fraction_f32(bits, k) (as_f32((bits) - ((u32)(k) << 23)) - 1.0f)

//@ log_f32
DEVICE f32 log_f32(f32 x) {
  const f32 tiny = x < 0x1p-126f ? 23.0f : 0.0f;
  const u32 bits = as_u32(x < 0x1p-126f ? x * 0x1p23f : x);
  const i32 k = log_exponent_f32(bits);
  const f32 result = log_sum_f32((f32)k - tiny, log_fraction_f32(bits, k));
  const f32 outside = x == 0.0f ? -INFINITY_f32 : NAN_f32;
  const f32 finite = x < INFINITY_f32 ? result : x; /* infinity and NaN stay */
  return ((x > 0.0f) | (x != x)) ? finite : outside;
}

//@ log1p_f32
/* As the log of u = 1 + x, but f is computed from x itself: x = 2^k (1 + f) - 1. */
DEVICE f32 log1p_f32(f32 x) {
  const i32 k = log_exponent_f32(as_u32(1.0f + x));
  /* 2^-k may not be a normal number, but 4 · 2^-k is. */
  const f32 scale = as_f32((u32)(129 - k) << 23);
  const f32 scaled = MAD_f32(0.25f * x, scale, MAD_f32(0.25f, scale, -1.0f));
  const f32 result = BUILTIN_f32(copysign)(log_sum_f32((f32)k, k == 0 ? x : scaled), x);
  const f32 outside = x == -1.0f ? -INFINITY_f32 : NAN_f32;
  const f32 finite = x < INFINITY_f32 ? result : x;
  return ((x > -1.0f) | (x != x)) ? finite : outside;
}

//@ sigmoid_f32
/* 1 / (1 + exp(-x)); for negative x exp(x) / (1 + exp(x)), which underflows gracefully. */
DEVICE f32 sigmoid_f32(f32 x) {
  f32 magnitude = BUILTIN_f32(fabs)(x);
  magnitude = magnitude > 110.0f ? 110.0f : magnitude;
  const f32 scaled = exp_scaled_f32(-magnitude);
  const f32 quotient = QUOTIENT_f32(x < 0.0f ? scaled : 1.0f, MAD_f32(scaled, 0x1p-64f, 1.0f));
  return x < 0.0f ? unscale_f32(quotient) : quotient;
}

//@ silu_f32
/* The scaling is undone last, so that the product of a small exp(x) and a large x is rounded only
 * once. -Infinity gives NaN, as its product with 0 does. */
DEVICE f32 silu_f32(f32 x) {
  f32 magnitude = BUILTIN_f32(fabs)(x);
  magnitude = magnitude > 110.0f ? 110.0f : magnitude;
  const f32 scaled = exp_scaled_f32(-magnitude);
  const f32 quotient = (x < 0.0f ? magnitude * scaled : x) / MAD_f32(scaled, 0x1p-64f, 1.0f);
  const f32 result = x < 0.0f ? -unscale_f32(quotient) : quotient;
  return x == -INFINITY_f32 ? NAN_f32 : result;
}

//@ tanh_growth_f32
/* exp(2|x|) - 1, limited to the x beyond which tanh is 1 in f32. A single rounded number suffices
 * for ln 2 here. It changes 2|x| by 2e-9 n, and for large n this hardly affects tanh. */
DEVICE f32 tanh_growth_f32(f32 x) {
  f32 y = 2.0f * BUILTIN_f32(fabs)(x);
  y = y > 18.2f ? 18.2f : y;
  const f32 shifted = exp_shifted_f32(y), power = exp_power_f32(shifted, 0);
  const f32 r = MAD_f32(shifted - EXP_SHIFT, -0x1.62e430p-1f, y);
  return MAD_f32(power, expm1_small_f32(r), power - 1.0f);
}

//@ tanh_quotient_f32
DEVICE f32 tanh_quotient_f32(f32 x, f32 growth) {
  return as_f32(as_u32(QUOTIENT_f32(growth, growth + 2.0f)) | (as_u32(x) & 0x80000000u));
}

//@ tanh_f32
#define tanh_f32(x) tanh_quotient_f32(x, tanh_growth_f32(x))

//@ softplus_f32
/* log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)). The logarithm's argument is in 1 ... 2. From
 * sqrt 2 on the logarithm is ln 2 + log(1 + (e - 1) / 2). */
DEVICE f32 softplus_f32(f32 x) {
  f32 magnitude = BUILTIN_f32(fabs)(x);
  magnitude = magnitude > 104.0f ? 104.0f : magnitude;
  const f32 e = exp_scaled_f32(-magnitude) * 0x1p-64f;
  const f32 upper = e > 0x1.a8279ap-2f ? 0x1.62e430p-1f : 0.0f;
  const f32 f = e > 0x1.a8279ap-2f ? 0.5f * e - 0.5f : e;
  return (0.0f > x ? 0.0f : x) + (upper + log1p_small_f32(f));
}

//@ erf_exponent_f32
/* log erfc |x|, from 1 to the x beyond which erf is 1 in f32. The limit of 3.94 is compared as
 * integers, because processors have an instruction for that; the result for NaN is not used. */
DEVICE f32 erf_exponent_f32(f32 x) {
  const i32 bits = as_i32(x) & 0x7fffffff;
  const f32 a = as_f32((u32)(bits < 0x407c28f6 ? bits : 0x407c28f6)), a2 = a * a;
  const f32 p0 = MAD_f32(0x1.20863e0p+0f, a, 0x1.70a8300p-12f);
  const f32 p1 = MAD_f32(0x1.a615fe0p-4f, a, 0x1.46c3c80p-1f);
  const f32 p2 = MAD_f32(0x1.8174420p-9f, a, -0x1.6556fe0p-6f);
  return -MAD_f32(MAD_f32(MAD_f32(-0x1.8569e40p-13f, a2, p2), a2, p1), a2, p0);
}

//@ erf_sum_f32
/* Up to 1, and for NaN: x + x S(x^2). From 1 on: 1 - tail. */
DEVICE f32 erf_sum_f32(f32 x, f32 tail) {
  const f32 z = x * x, z2 = z * z;
  const f32 s0 = MAD_f32(-0x1.81273e0p-2f, z, 0x1.06eba80p-3f);
  const f32 s1 = MAD_f32(-0x1.b7f71a0p-6f, z, 0x1.ce2ce60p-4f);
  const f32 s2 = MAD_f32(-0x1.a3515e0p-11f, z, 0x1.53f2240p-8f);
  const f32 s = MAD_f32(MAD_f32(MAD_f32(0x1.4771fe0p-14f, z2, s2), z2, s1), z2, s0);
  const f32 inner = MAD_f32(s, x, x);
  return BUILTIN_f32(fabs)(x) > 1.0f ? BUILTIN_f32(copysign)(1.0f - tail, x) : inner;
}

//@ erf_f32
#define erf_f32(x) erf_sum_f32(x, exp_core_f32(erf_exponent_f32(x)))

//@ product_error_f32
/* The rounding error of the product a b = p. Without a fused multiply-add, it is computed from
 * halves of 12 bits (T. J. Dekker, 1971). */
#ifdef FUSED_MAD
#define product_error_f32(a, b, p) MAD_f32(a, b, -(p))
#else
DEVICE f32 product_error_f32(f32 a, f32 b, f32 p) {
  const f32 a1 = as_f32(as_u32(a) & 0xfffff000u), a2 = a - a1;
  const f32 b1 = as_f32(as_u32(b) & 0xfffff000u), b2 = b - b1;
  return ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2;
}
#endif

//@ mad_rest_f32
/* a b + c for c near -a b: the exact difference. */
#ifdef FUSED_MAD
#define mad_rest_f32(a, b, c) MAD_f32(a, b, c)
#else
DEVICE f32 mad_rest_f32(f32 a, f32 b, f32 c) {
  const f32 p = a * b;
  return (p + c) + product_error_f32(a, b, p);
}
#endif

//@ gelu_magnitude_f32
/* x|, at most 14.5. */
DEVICE f32 gelu_magnitude_f32(f32 x) {
  const u32 bits = as_u32(x) & 0x7fffffffu;
  return as_f32(bits < 0x41680000u ? bits : 0x41680000u);
}

//@ gelu_bend_f32
/* sqrt(2 pi) - (exp(-t^2 / 2) / Phi(-t) - 2) / t for t = |x|, which falls from 0.91 to 0. */
DEVICE f32 gelu_bend_f32(f32 x) {
  const f32 t = gelu_magnitude_f32(x), square = t * t;
  const f32 p0 = MAD_f32(0x1.19e3ca0p-1f, t, 0x1.d25bf80p-1f);
  const f32 p2 = MAD_f32(0x1.2fe0fa0p-6f, t, 0x1.3a33240p-3f);
  const f32 q1 = MAD_f32(0x1.8c73ea0p-2f, t, 0x1.cf0eec0p-1f);
  const f32 q3 = MAD_f32(0x1.2ff0620p-7f, t, 0x1.6985fe0p-4f);
  const f32 q = MAD_f32(MAD_f32(q3, square, q1), t, 1.0f);
  return MAD_f32(p2, square, p0) * FAST_RECIPROCAL(q);
}

//@ gelu_fall_f32
/* t Phi(-t) 2^64 = t exp(-t^2 / 2) 2^64 / (2 + t (sqrt(2 pi) - bend)), t = |x|.
 *
 * The exponent is computed from t^2 and its rounding error: -t^2 / 2 = n ln 2 - r / 2. ln 2 is
 * rounded; the fit of the bend includes the effect, exp(-1.4e-9 t^2). The rounding errors of the
 * divisor and its reciprocal are added to exp(-r / 2) - 1. */
DEVICE f32 gelu_fall_f32(f32 x, f32 bend) {
  const f32 t = gelu_magnitude_f32(x);
  const f32 slope = 0x1.40d932p+1f - bend;
  const f32 divisor = MAD_f32(t, slope, 2.0f);
  const f32 lost = mad_rest_f32(t, slope, 2.0f - divisor);
  const f32 reciprocal = FAST_RECIPROCAL(divisor);
  const f32 more = MAD_f32(-lost, reciprocal, mad_rest_f32(-divisor, reciprocal, 1.0f));
  const f32 square = t * t, error = product_error_f32(t, t, square);
  const f32 shifted = MAD_f32(square, -0.5f * 0x1.715476p+0f, EXP_SHIFT + 64.0f);
  const f32 n = shifted - (EXP_SHIFT + 64.0f);
#ifdef FUSED_MAD
  const f32 r = MAD_f32(n, 0x1.62e430p+0f, square) + error;
#else
  const f32 r = ((square + n * 0x1.62e0p+0f) + n * 0x1.0cp-14f) + error; /* exact products */
#endif
  const f32 r2 = r * r;
  const f32 e0 = MAD_f32(-0x1.5554660p-6f, r, 0.125f);
  const f32 e1 = MAD_f32(-0x1.1257cc0p-12f, r, 0x1.5553000p-9f);
  const f32 e2 = MAD_f32(MAD_f32(0x1.6feb880p-16f, r2, e1), r2, e0);
  const f32 e = MAD_f32(e2, r2, MAD_f32(-0.5f, r, more));
  const f32 first = t * exp_power_f32(shifted, 0) * reciprocal; /* the first product is exact */
  return MAD_f32(first, e, first);
}

//@ gelu_whole_f32
/* gelu(x) = max(x, 0) - t Phi(-t), t = |x|. No digits cancel, so negative arguments keep their
 * relative precision down to the underflow. Past 14.5 the result is x or 0. -Infinity gives NaN, as
 * its product with 0 does. */
#ifdef FAST_SUBNORMALS
DEVICE f32 gelu_whole_f32(f32 x, f32 bend) {
  return MAD_f32(-gelu_fall_f32(x, bend), 0x1p-64f, x < 0.0f ? x * 0.0f : x);
}
#else
DEVICE f32 gelu_whole_f32(f32 x, f32 bend) {
  const f32 fall = gelu_fall_f32(x, bend);
  const f32 result = x < 0.0f ? -unscale_f32(fall) : MAD_f32(-fall, 0x1p-64f, x);
  return x == -INFINITY_f32 ? NAN_f32 : result;
}
#endif

//@ gelu_core_f32
/* For x >= -13, where the result is a normal number, and for NaN with a positive sign. The smaller
 * of x and -0 as unsigned integers is max(x, -0). */
DEVICE f32 gelu_core_f32(f32 x, f32 bend) {
  const f32 ramp = as_f32(as_u32(x) < 0x80000000u ? as_u32(x) : 0x80000000u);
  return MAD_f32(-gelu_fall_f32(x, bend), 0x1p-64f, ramp);
}

//@ gelu_f32
#define gelu_f32(x) gelu_whole_f32(x, gelu_bend_f32(x))

//@ gelu_tanh_f32
/* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 = x / (1 + exp(-v)) with v = x (A + B x^2), A =
 * sqrt(8 / pi), B = 0.044715 A. An error of v is a relative error of exp v, so v is computed as the
 * sum of two numbers. */
DEVICE f32 gelu_tanh_f32(f32 x) {
  f32 t = BUILTIN_f32(fabs)(x);
  t = t < 10.9f ? t : 10.9f;
  const f32 square = t * t, term = 0x1.2444f2p-4f * square;
  const f32 term_error = product_error_f32(0x1.2444f2p-4f, square, term) +
                         0x1.2444f2p-4f * product_error_f32(t, t, square) + 2.398832e-09f * square;
  const f32 sum = 0x1.988454p+0f + term, rest = sum - 0x1.988454p+0f;
  /* Either summand may be the larger one; the rounding error is found in both cases. */
  const f32 sum_error = (0x1.988454p+0f - (sum - rest)) + (term - rest);
  const f32 v = t * sum;
  const f32 v_error = product_error_f32(t, sum, v) + t * (sum_error + term_error + -4.534068e-08f);
  /* exp(-v) 2^64, as in silu. */
  const f32 shifted = exp_shifted_f32(-v), low = exp_rest_f32(-v, shifted) - v_error;
  const f32 scaled = (1.0f + expm1_small_f32(low)) * exp_power_f32(shifted, 64);
  const f32 quotient = (x < 0.0f ? t * scaled : x) / MAD_f32(scaled, 0x1p-64f, 1.0f);
  const f32 result = x < 0.0f ? -unscale_f32(quotient) : quotient;
  return x == -INFINITY_f32 ? NAN_f32 : result;
}

//@ log2_wide_f32
/* log2 of a positive finite number, for pow: k + 2 / ln 2 (s + s^3 / 3 + ...), s = (m - 1) / (m +
 * 1) for x = 2^k m. It uses f64, so that errors stay small after multiplication by the exponent. */
#ifdef FOR_CPU_WITH_F64
DEVICE f64 log2_wide_f32(f32 x) {
  const i32 tiny = x < 0x1p-126f ? 23 : 0;
  const u32 bits = as_u32(x < 0x1p-126f ? x * 0x1p23f : x);
  const i32 k = log_exponent_f32(bits);
  const f64 f = (f64)log_fraction_f32(bits, k), s = f / (f + 2.0), z = s * s;
  f64 q = 2.8853900817779268 / 17;
  q = MAD_f64(q, z, 2.8853900817779268 / 15);
  q = MAD_f64(q, z, 2.8853900817779268 / 13);
  q = MAD_f64(q, z, 2.8853900817779268 / 11);
  q = MAD_f64(q, z, 2.8853900817779268 / 9);
  q = MAD_f64(q, z, 2.8853900817779268 / 7);
  q = MAD_f64(q, z, 2.8853900817779268 / 5);
  q = MAD_f64(q, z, 2.8853900817779268 / 3);
  q = MAD_f64(q, z, 2.8853900817779268);
  return (f64)(k - tiny) + s * q;
}
#endif

//@ exp2_wide_f32
/* 2^y for |y| <= 1000: the Taylor series of exp(f ln 2) for |f| <= 1/2. */
#ifdef FOR_CPU_WITH_F64
DEVICE f64 exp2_wide_f32(f64 y) {
  const f64 shifted = y + 0x1.8p52, r = (y - (shifted - 0x1.8p52)) * 0.6931471805599453;
  f64 q = 1.0 / 3628800;
  q = MAD_f64(q, r, 1.0 / 362880);
  q = MAD_f64(q, r, 1.0 / 40320);
  q = MAD_f64(q, r, 1.0 / 5040);
  q = MAD_f64(q, r, 1.0 / 720);
  q = MAD_f64(q, r, 1.0 / 120);
  q = MAD_f64(q, r, 1.0 / 24);
  q = MAD_f64(q, r, 1.0 / 6);
  q = MAD_f64(q, r, 0.5);
  q = MAD_f64(q, r, 1.0);
  q = MAD_f64(q, r, 1.0);
  return q * as_f64((as_u64(shifted) - as_u64(0x1.8p52) + 1023u) << 52);
}
#endif

//@ pow_f32
/* The special cases follow C's pow (ISO C, annex F.10.4.4). */
#ifndef FOR_CPU_WITH_F64
#define pow_f32(a, b) BUILTIN_f32(pow)(a, b)
#else
DEVICE f32 pow_f32(f32 a, f32 b) {
  const f32 magnitude = BUILTIN_f32(fabs)(a), size = BUILTIN_f32(fabs)(b);
  const int ordinary = (magnitude > 0.0f) & (magnitude < INFINITY_f32);
  f64 y = (f64)b * log2_wide_f32(ordinary ? magnitude : 1.0f);
  y = y > 1000.0 ? 1000.0 : y;
  y = y < -1000.0 ? -1000.0 : y;
  f32 result = (f32)exp2_wide_f32(y);
  result = magnitude == 0.0f ? (b < 0.0f ? INFINITY_f32 : 0.0f) : result;
  result = magnitude == INFINITY_f32 ? (b < 0.0f ? 0.0f : INFINITY_f32) : result;
  /* A negative base has a real power only for whole exponents; an odd exponent keeps the sign. */
  const f32 half_size = 0.5f * size;
  const int whole = (size >= 0x1p23f) | (BUILTIN_f32(rint)(size) == size);
  const int odd = (size < 0x1p24f) & whole & (BUILTIN_f32(rint)(half_size) != half_size);
  const f32 signed_result = odd ? BUILTIN_f32(copysign)(result, a) : result;
  result = ((a < 0.0f) & (magnitude < INFINITY_f32) & !whole) ? NAN_f32 : signed_result;
  /* Powers of 1 and -1 with an infinite exponent; then the results that are 1 even for a NaN. */
  result = ((magnitude == 1.0f) & (size == INFINITY_f32)) ? 1.0f : result;
  result = ((a != a) | (b != b)) ? NAN_f32 : result;
  return ((a == 1.0f) | (b == 0.0f)) ? 1.0f : result;
}
#endif
