/* sin and cos in f32.
 *
 * The argument is reduced in f64: x = n π/2 + r, with π/2 as the sum of three numbers, the first
 * two of 33 bits, so that their products with n are exact (W. J. Cody and W. Waite, 1980, chapter
 * 8). That serves |x| up to MATH_TRIG_LIMIT. Larger arguments take more digits of π than these. */
#ifndef CPU_ISA_MATH_TRIG_F32_H
#define CPU_ISA_MATH_TRIG_F32_H

#include "math_base.h"

#define MATH_TRIG_LIMIT 0x1p20f

/* sin(x + shift π/2) for |x| ≤ MATH_TRIG_LIMIT. */
CPU_INLINE float math_sine_f32(float x, int32_t shift) {
  const double wide = (double)x;
  const double n = (wide * 0x1.45f306dc9c883p-1 + MATH_SHIFT_F64) - MATH_SHIFT_F64;
  double d = wide - n * 0x1.921fb54400000p+0;
  d = d - n * 0x1.0b4611a600000p-34;
  d = d - n * 0x1.3198a2e037073p-69;
  const float r = (float)d, z = r * r;
  const int32_t quadrant = (int32_t)n + shift;

  float s = -0x1.9955b60p-13f;
  s = math_madd_f32(s, z, 0x1.11077c0p-7f);
  s = math_madd_f32(s, z, -0x1.5555460p-3f);
  const float sine = math_copy_sign_f32(math_madd_f32(s * z, r, r), r); /* keeps −0 */
  float c = 0x1.9a68600p-16f;
  c = math_madd_f32(c, z, -0x1.6c0e300p-10f);
  c = math_madd_f32(c, z, 0x1.55554e0p-5f);
  const float cosine = math_madd_f32(c, z * z, math_madd_f32(-0.5f, z, 1));

  const float value = quadrant & 1 ? cosine : sine;
  return math_from_bits_f32(math_bits_f32(value) ^ (int32_t)((uint32_t)(quadrant & 2) << 30));
}

#endif
