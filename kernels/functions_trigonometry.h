/* SPDX-License-Identifier: MIT */
/* Trigonometric and hyperbolic functions and their inverses: in f32 as in functions_f32.h, in f64
 * the device's built-in functions. The CPU backend also compiles this file
 * (backends/cpu/program/isa/math_f32.h). */

//@ sine_quadrants
/* 2 / pi in binary, after 32 zeros. */
CONSTANT_TABLE u32 sine_quadrants[8] = {0u,          0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
                                        0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};

//@ reduced_angle
/* An angle of r + quadrant pi / 2. */
typedef struct reduced_angle {
  f32 r;
  i32 quadrant;
} reduced_angle;

//@ reduce_angle_f32
/* x| = m 2^e with a whole m of 24 bits. Leaves out the bits of 2 / pi whose products with m 2^e are
 * whole multiples of 4; the next 96 bits give |x| 2 / pi modulo 4 to better than 2^-70 (M. Payne
 * and R. Hanek, "Radian reduction for trigonometric functions", 1983). All arguments take the same
 * path. The result for an infinity or NaN is meaningless. */
DEVICE reduced_angle reduce_angle_f32(f32 x) {
  const u32 bits = as_u32(x) & 0x7fffffffu;
  const u32 m = (bits & 0x7fffffu) | 0x800000u;
  const i32 start = (i32)(bits >> 23) - 120; /* e - 2 + 32 */
  const i32 safe = start < 6 ? 6 : start > 134 ? 134 : start;
  const u32 word = (u32)safe >> 5, left = (u32)safe & 31u;
  const u64 t0 = sine_quadrants[word], t1 = sine_quadrants[word + 1u];
  const u64 t2 = sine_quadrants[word + 2u], t3 = sine_quadrants[word + 3u];
  const u64 w0 = (u32)((t0 << 32 | t1) << left >> 32), w1 = (u32)((t1 << 32 | t2) << left >> 32);
  const u64 w2 = (u32)((t2 << 32 | t3) << left >> 32);
  const u64 middle = m * w1 + (m * w2 >> 32);
  const u64 turns = ((m * w0 + (middle >> 32)) << 32) | (u32)middle; /* times 2^62 */
  /* The nearest quadrant, and the signed rest. */
  const i32 quadrant = (i32)((turns + ((u64)1 << 61)) >> 62);
  const i64 rest = (i64)(turns << 2);
  const f32 reduced = (f32)rest * 0x1.921fb6p-64f;
  const u32 sign = as_u32(x) & 0x80000000u;
  const int small = bits <= 0x3f490fdau; /* pi / 4 */
  reduced_angle angle;
  angle.r = small ? x : as_f32(as_u32(reduced) ^ sign);
  angle.quadrant = small ? 0 : sign ? -quadrant : quadrant;
  return angle;
}

//@ sine_reduced_f32
/* sin(angle + shift pi / 2). */
DEVICE f32 sine_reduced_f32(reduced_angle angle, i32 shift) {
  const f32 r = angle.r, z = r * r;
  const i32 n = angle.quadrant + shift;
  const f32 s = MAD_f32(MAD_f32(-0x1.9955b60p-13f, z, 0x1.11077c0p-7f), z, -0x1.5555460p-3f);
  const f32 sine = BUILTIN_f32(copysign)(MAD_f32(s * z, r, r), r); /* keeps -0 */
  const f32 c = MAD_f32(MAD_f32(0x1.9a68600p-16f, z, -0x1.6c0e300p-10f), z, 0x1.55554e0p-5f);
  const f32 cosine = MAD_f32(c, z * z, MAD_f32(-0.5f, z, 1.0f));
  return as_f32(as_u32((n & 1) ? cosine : sine) ^ (u32)(n & 2) << 30);
}

//@ sine_f32
DEVICE f32 sine_f32(f32 x, i32 shift) {
  const f32 result = sine_reduced_f32(reduce_angle_f32(x), shift);
  return (as_u32(x) & 0x7fffffffu) >= 0x7f800000u ? NAN_f32 : result;
}

//@ sin_f32
/* Compilers for CPUs cannot vectorize a call. */
#ifdef FOR_CPU
#define sin_f32(x) sine_f32(x, 0)
#else
#define sin_f32(x) BUILTIN_f32(sin)(x)
#endif
//@ cos_f32
#ifdef FOR_CPU
#define cos_f32(x) sine_f32(x, 1)
#else
#define cos_f32(x) BUILTIN_f32(cos)(x)
#endif

//@ sin_f64
#define sin_f64(x) sin(x)
//@ cos_f64
#define cos_f64(x) cos(x)

//@ tan_reduced_f32
/* tan r = r + r^3 P(r^2) for |r| <= pi / 4; in odd quadrants -1 / tan r. */
DEVICE f32 tan_reduced_f32(reduced_angle angle) {
  const f32 r = angle.r, z = r * r, z2 = z * z;
  const f32 p0 = MAD_f32(0x1.112deap-3f, z, 0x1.5554dep-2f);
  const f32 p1 = MAD_f32(0x1.9072a0p-6f, z, 0x1.b5851ep-5f);
  const f32 p2 = MAD_f32(0x1.33e7c6p-7f, z, 0x1.96847ap-9f);
  const f32 p = MAD_f32(MAD_f32(p2, z2, p1), z2, p0);
  const f32 tangent = BUILTIN_f32(copysign)(MAD_f32(p * z, r, r), r); /* keeps -0 */
  return (angle.quadrant & 1) ? -1.0f / tangent : tangent;
}

//@ tan_f32
DEVICE f32 tan_f32(f32 x) {
  const f32 result = tan_reduced_f32(reduce_angle_f32(x));
  return (as_u32(x) & 0x7fffffffu) >= 0x7f800000u ? NAN_f32 : result;
}
//@ tan_f64
#define tan_f64(x) tan(x)

//@ atan_f32
/* x + x^3 P(x^2) up to 1; above 1, pi / 2 - atan(1 / x). */
DEVICE f32 atan_f32(f32 x) {
  const f32 magnitude = BUILTIN_f32(fabs)(x);
  const f32 a = magnitude > 1.0f ? 1.0f / magnitude : magnitude;
  const f32 z = a * a, z2 = z * z, z4 = z2 * z2;
  const f32 p0 = MAD_f32(0x1.9991e4p-3f, z, -0x1.55553ep-2f);
  const f32 p1 = MAD_f32(0x1.c08c52p-4f, z, -0x1.242086p-3f);
  const f32 p2 = MAD_f32(0x1.da31d0p-5f, z, -0x1.5809bcp-4f);
  const f32 p3 = MAD_f32(0x1.647026p-7f, z, -0x1.fda31cp-6f);
  const f32 low = MAD_f32(p1, z2, p0);
  const f32 high = MAD_f32(MAD_f32(-0x1.d4357ep-10f, z2, p3), z2, p2);
  const f32 small = MAD_f32(MAD_f32(high, z4, low) * z, a, a);
  /* pi / 2 as the sum of two numbers. */
  const f32 result = magnitude > 1.0f ? 0x1.921fb6p+0f - (small + 0x1.777a5cp-25f) : small;
  return BUILTIN_f32(copysign)(result, x);
}
//@ atan_f64
#define atan_f64(x) atan(x)

//@ arc_tail_f32
/* asin x = x + x arc_tail(x^2) for |x| <= 1/2. */
DEVICE f32 arc_tail_f32(f32 z) {
  const f32 z2 = z * z;
  const f32 p0 = MAD_f32(0x1.330204p-4f, z, 0x1.5555c8p-3f);
  const f32 p1 = MAD_f32(0x1.8c3e2ap-6f, z, 0x1.747bbap-5f);
  return MAD_f32(MAD_f32(0x1.595c8cp-5f, z2, p1), z2, p0) * z;
}

//@ asin_f32
/* From 1/2 on asin x = pi / 2 - 2 asin s, with s^2 = (1 - x) / 2, which is exact. Beyond 1 the root
 * is NaN. pi / 2 is the sum of two numbers. */
DEVICE f32 asin_f32(f32 x) {
  const f32 a = BUILTIN_f32(fabs)(x), z = a > 0.5f ? 0.5f * (1.0f - a) : a * a;
  const f32 s = a > 0.5f ? BUILTIN_f32(sqrt)(z) : a, tail = arc_tail_f32(z);
  const f32 large = (0x1.921fb6p+0f - 2.0f * s) - MAD_f32(2.0f * s, tail, 0x1.777a5cp-25f);
  return BUILTIN_f32(copysign)(a > 0.5f ? large : MAD_f32(tail, s, s), x);
}
//@ asin_f64
#define asin_f64(x) asin(x)

//@ acos_f32
/* pi / 2 - asin x; from 1/2 on 2 asin s, subtracted from pi for negative x. */
DEVICE f32 acos_f32(f32 x) {
  const f32 a = BUILTIN_f32(fabs)(x), z = a > 0.5f ? 0.5f * (1.0f - a) : a * a;
  const f32 s = a > 0.5f ? BUILTIN_f32(sqrt)(z) : x, tail = arc_tail_f32(z);
  const f32 twice = 2.0f * s;
  const f32 middle = 0x1.921fb6p+0f - (s + MAD_f32(tail, s, 0x1.777a5cp-25f));
  const f32 positive = MAD_f32(tail, twice, twice);
  const f32 negative = 0x1.921fb6p+1f - (twice + MAD_f32(tail, twice, 0x1.777a5cp-24f));
  return a > 0.5f ? (x < 0.0f ? negative : positive) : middle;
}
//@ acos_f64
#define acos_f64(x) acos(x)

//@ exp_quarter_f32
/* exp(x) / 4 for x >= 0; infinite only if sinh x is. */
DEVICE f32 exp_quarter_f32(f32 x) {
  const f32 y = x > 90.0f ? 90.0f : x, shifted = exp_shifted_f32(y);
  return (1.0f + expm1_small_f32(exp_rest_f32(y, shifted))) * exp_power_f32(shifted, -2);
}

//@ sinh_f32
/* x + x^3 P(x^2) up to 1; above 1, exp(x) / 2 - exp(-x) / 2. */
DEVICE f32 sinh_f32(f32 x) {
  const f32 a = BUILTIN_f32(fabs)(x), quarter = exp_quarter_f32(a);
  const f32 large = 2.0f * quarter - 0.125f / quarter;
  const f32 z = x * x;
  const f32 low = MAD_f32(0x1.1110e0p-7f, z, 0x1.555556p-3f);
  const f32 high = MAD_f32(0x1.756c1ep-19f, z, 0x1.a022bcp-13f);
  const f32 small = MAD_f32(MAD_f32(high, z * z, low) * z, x, x);
  return a > 1.0f ? BUILTIN_f32(copysign)(large, x) : small;
}
//@ sinh_f64
#define sinh_f64(x) sinh(x)

//@ cosh_f32
DEVICE f32 cosh_f32(f32 x) {
  const f32 quarter = exp_quarter_f32(BUILTIN_f32(fabs)(x));
  return 2.0f * quarter + 0.125f / quarter;
}
//@ cosh_f64
#define cosh_f64(x) cosh(x)

//@ asinh_f32
/* log(a + sqrt(a^2 + 1)) as log(1 + terms that cannot cancel); log(2 a) if the other terms are
 * negligible. */
DEVICE f32 asinh_f32(f32 x) {
  const f32 a = BUILTIN_f32(fabs)(x), square = a * a;
  const f32 more = a + square / (1.0f + BUILTIN_f32(sqrt)(1.0f + square));
  const int large = a > 0x1p30f;
  const f32 result = log1p_f32(large ? a : more) + (large ? 0x1.62e430p-1f : 0.0f);
  return BUILTIN_f32(copysign)(result, x);
}
//@ asinh_f64
#define asinh_f64(x) asinh(x)

//@ acosh_f32
/* log(1 + t + sqrt(t (t + 2))) with t = x - 1. */
DEVICE f32 acosh_f32(f32 x) {
  const f32 t = x - 1.0f;
  const int large = x > 0x1p30f;
  const f32 more = large ? x : t + BUILTIN_f32(sqrt)(t * (t + 2.0f));
  const f32 result = log1p_f32(more) + (large ? 0x1.62e430p-1f : 0.0f);
  return x < 1.0f ? NAN_f32 : result;
}
//@ acosh_f64
#define acosh_f64(x) acosh(x)

//@ atanh_f32
/* log((1 + a) / (1 - a)) / 2 = log(1 + 2 a / (1 - a)) / 2. */
DEVICE f32 atanh_f32(f32 x) {
  const f32 a = BUILTIN_f32(fabs)(x);
  return BUILTIN_f32(copysign)(0.5f * log1p_f32(2.0f * a / (1.0f - a)), x);
}
//@ atanh_f64
#define atanh_f64(x) atanh(x)
