/* SPDX-License-Identifier: MIT */
/* Conversions by the rules of compute/dtype.h. convert_<program type>_<dtype> returns an element in
 * its stored form; between program types it is the cast. widen_<dtype> converts back. */

//@ widen_f16
#ifdef HALF_TO_F32
#define widen_f16(bits) HALF_TO_F32(bits)
#else
DEVICE f32 widen_f16(u16 bits) {
  const u32 magnitude = (u32)bits & 0x7fffu, fraction = magnitude & 0x3ffu;
  /* Subnormal numbers are built from integers, because some devices flush such f32. */
  const f32 tiny = (f32)(i32)fraction * 0x1p-24f;
  const u32 normal = (magnitude << 13) + 0x38000000u, special = (magnitude << 13) + 0x70000000u;
  u32 value = magnitude < 0x400u ? as_u32(tiny) : normal;
  value = magnitude >= 0x7c00u ? special : value;
  return as_f32(value | ((u32)bits & 0x8000u) << 16);
}
#endif

//@ widen_bf16
DEVICE f32 widen_bf16(u16 bits) {
  return as_f32((u32)bits << 16);
}

//@ convert_f32_f16
#ifdef F32_TO_HALF
#define convert_f32_f16(x) F32_TO_HALF(x)
#else
DEVICE u16 convert_f32_f16(f32 x) {
  const u32 bits = as_u32(x), magnitude = bits & 0x7fffffffu;
  /* Adding 1/2 leaves the rounded bits of a subnormal number at the low end. */
  const u32 tiny = as_u32(as_f32(magnitude) + 0.5f) - 0x3f000000u;
  const u32 normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  const u32 nan = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  u32 half_bits = magnitude < 0x38800000u ? tiny : normal;
  half_bits = magnitude >= 0x47800000u ? 0x7c00u : half_bits;
  half_bits = magnitude > 0x7f800000u ? nan : half_bits;
  return (u16)(half_bits | (bits >> 16 & 0x8000u));
}
#endif

//@ convert_f32_bf16
#ifdef F32_TO_BF16
#define convert_f32_bf16(x) F32_TO_BF16(x)
#else
DEVICE u16 convert_f32_bf16(f32 x) {
  const u32 bits = as_u32(x);
  const u32 rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, nan = bits >> 16 | 0x40u;
  return (u16)((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}
#endif

//@ round_f16_f32
#define round_f16_f32(x) widen_f16(convert_f32_f16(x))
//@ round_bf16_f32
#define round_bf16_f32(x) widen_bf16(convert_f32_bf16(x))

//@ convert_f64_odd
/* A value that is narrowed to 16 bits passes through f32. There it is rounded to the neighbour with
 * an odd last bit, so the second rounding does not see a false tie (S. Boldo and G. Melquiond,
 * "Emulation of FMA and correctly rounded sums", 2008). */
DEVICE f32 convert_f64_odd(f64 x) {
  const f32 nearest = (f32)x;
  const u32 bits = as_u32(nearest);
  const f64 size = x < 0 ? -x : x, nearest_size = nearest < 0 ? -(f64)nearest : (f64)nearest;
  const u32 toward_zero = nearest_size > size ? bits - 1u : bits;
  return as_f32((f64)nearest == x || x != x ? bits : toward_zero | 1u);
}

//@ convert_i64_odd
/* Keeps at least 13 bits and at most 24: enough for f16 and bf16, and exact in f32. */
DEVICE f32 convert_i64_odd(i64 x) {
  const u64 size = x < 0 ? 0 - (u64)x : (u64)x;
  const u32 cut = size >> 24 == 0   ? 0u
                  : size >> 35 == 0 ? 11u
                  : size >> 46 == 0 ? 22u
                  : size >> 57 == 0 ? 33u
                                    : 44u;
  const u64 lost = size & (((u64)1 << cut) - 1), kept = size - lost;
  const f32 rounded = (f32)(i64)((kept | (u64)(lost != 0) << cut) >> cut) * (f32)((u64)1 << cut);
  return x < 0 ? -rounded : rounded;
}

//@ convert_f64_f16
DEVICE u16 convert_f64_f16(f64 x) {
  return convert_f32_f16(convert_f64_odd(x));
}
//@ convert_f64_bf16
DEVICE u16 convert_f64_bf16(f64 x) {
  return convert_f32_bf16(convert_f64_odd(x));
}
//@ convert_i64_f16
DEVICE u16 convert_i64_f16(i64 x) {
  return convert_f32_f16(convert_i64_odd(x));
}
//@ convert_i64_bf16
DEVICE u16 convert_i64_bf16(i64 x) {
  return convert_f32_bf16(convert_i64_odd(x));
}
//@ convert_i32_f16
DEVICE u16 convert_i32_f16(i32 x) {
  return convert_f32_f16(convert_i64_odd(x));
}
//@ convert_i32_bf16
DEVICE u16 convert_i32_bf16(i32 x) {
  return convert_f32_bf16(convert_i64_odd(x));
}
//@ convert_bool_f16
#define convert_bool_f16(x) convert_f32_f16((f32)(x))
//@ convert_bool_bf16
#define convert_bool_bf16(x) convert_f32_bf16((f32)(x))

/* Float to integer truncates and saturates; NaN becomes 0. Values are clamped first, because C
 * leaves other conversions undefined. */
//@ convert_f32_i32
DEVICE i32 convert_f32_i32(f32 x) {
  const f32 low = x >= -0x1p31f ? x : -0x1p31f;
  const i32 value = (i32)(low < 0x1p31f ? low : 0.0f);
  const i32 saturated = x >= 0x1p31f ? 2147483647 : value;
  return x == x ? saturated : 0;
}
//@ convert_f32_i64
DEVICE i64 convert_f32_i64(f32 x) {
  const f32 low = x >= -0x1p63f ? x : -0x1p63f;
  const i64 value = (i64)(low < 0x1p63f ? low : 0.0f);
  const i64 saturated = x >= 0x1p63f ? (i64)9223372036854775807 : value;
  return x == x ? saturated : 0;
}
//@ convert_f64_i32
DEVICE i32 convert_f64_i32(f64 x) {
  const f64 low = x >= -0x1p31 ? x : -0x1p31;
  const i32 value = (i32)(low < 2147483647.0 ? low : 2147483647.0);
  return x == x ? value : 0;
}
//@ convert_f64_i64
DEVICE i64 convert_f64_i64(f64 x) {
  const f64 low = x >= -0x1p63 ? x : -0x1p63;
  const i64 value = (i64)(low < 0x1p63 ? low : 0.0);
  const i64 saturated = x >= 0x1p63 ? (i64)9223372036854775807 : value;
  return x == x ? saturated : 0;
}

/* i64 has all values of u64 except the upper half, which starts at 2^63. */
//@ convert_f32_u64
DEVICE u64 convert_f32_u64(f32 x) {
  const f32 lower = x >= 0x1p63f ? x - 0x1p63f : x > 0.0f ? x : 0.0f;
  return (u64)convert_f32_i64(lower) | (u64)(x >= 0x1p63f) << 63;
}
//@ convert_f64_u64
DEVICE u64 convert_f64_u64(f64 x) {
  const f64 lower = x >= 0x1p63 ? x - 0x1p63 : x > 0.0 ? x : 0.0;
  return (u64)convert_f64_i64(lower) | (u64)(x >= 0x1p63) << 63;
}

//@ convert_f64_f32
#define convert_f64_f32(x) ((f32)(x))
//@ convert_f32_f64
#define convert_f32_f64(x) ((f64)(x))
//@ convert_i64_f64
#define convert_i64_f64(x) ((f64)(x))
//@ convert_i64_f32
#define convert_i64_f32(x) ((f32)(x))
//@ convert_i64_i32
#define convert_i64_i32(x) ((i32)(x))
//@ convert_i32_f64
#define convert_i32_f64(x) ((f64)(x))
//@ convert_i32_f32
#define convert_i32_f32(x) ((f32)(x))
//@ convert_i32_i64
#define convert_i32_i64(x) ((i64)(x))
//@ convert_bool_f64
#define convert_bool_f64(x) ((f64)(x))
//@ convert_bool_f32
#define convert_bool_f32(x) ((f32)(x))
//@ convert_bool_i64
#define convert_bool_i64(x) ((i64)(x))
//@ convert_bool_i32
#define convert_bool_i32(x) ((i32)(x))
//@ convert_f64_bool
#define convert_f64_bool(x) ((x) != 0)
//@ convert_f32_bool
#define convert_f32_bool(x) ((x) != 0)
//@ convert_i64_bool
#define convert_i64_bool(x) ((x) != 0)
//@ convert_i32_bool
#define convert_i32_bool(x) ((x) != 0)
