/* Trigonometric and hyperbolic functions and their inverses. In f32 as in functions_f32.h, in f64
 * the device's own. The CPU backend compiles this file too (backends/cpu/program/isa/math_f32.h).
 */

//@ sine_quadrants
/* 2 / pi in binary, after 32 zeros. */
CONSTANT_TABLE u32 sine_quadrants[8] = {0u,          0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
                                        0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};

//@ sine_f32
/* sin(x + shift pi / 2). |x| = m 2^e with a whole m of 24 bits: those bits of 2 / pi whose products
 * with it are whole multiples of 4 are left out, the 96 that follow give |x| 2 / pi modulo 4 to
 * better than 2^-70 (M. Payne and R. Hanek, "Radian reduction for trigonometric functions", 1983).
 * So every argument takes the same way. */
DEVICE f32 sine_f32(f32 x, i32 shift) {
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
  /* The nearest quadrant and, signed, what is left of one. */
  const i32 quadrant = (i32)((turns + ((u64)1 << 61)) >> 62);
  const i64 rest = (i64)(turns << 2);
  const f32 reduced = (f32)rest * 0x1.921fb6p-64f;
  const u32 sign = as_u32(x) & 0x80000000u;
  const int small = bits <= 0x3f490fdau; /* pi / 4 */
  const f32 r = small ? x : as_f32(as_u32(reduced) ^ sign), z = r * r;
  const i32 n = (small ? 0 : sign ? -quadrant : quadrant) + shift;

  const f32 s = MAD_f32(MAD_f32(-0x1.9955b60p-13f, z, 0x1.11077c0p-7f), z, -0x1.5555460p-3f);
  const f32 sine = BUILTIN_f32(copysign)(MAD_f32(s * z, r, r), r); /* keeps -0 */
  const f32 c = MAD_f32(MAD_f32(0x1.9a68600p-16f, z, -0x1.6c0e300p-10f), z, 0x1.55554e0p-5f);
  const f32 cosine = MAD_f32(c, z * z, MAD_f32(-0.5f, z, 1.0f));
  const u32 value = as_u32((n & 1) ? cosine : sine) ^ (u32)(n & 2) << 30;
  return bits >= 0x7f800000u ? NAN_f32 : as_f32(value);
}

//@ sin_f32
/* Compilers for CPUs make no vector code of a call. */
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

//@ atan_f32
/* x + x^3 P(x^2) up to 1, from there pi / 2 - atan(1 / x). */
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
