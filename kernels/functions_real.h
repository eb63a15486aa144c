/* SPDX-License-Identifier: MIT */
/* Operations that are the same in f32 and f64. The others are in functions_f32.h and
 * functions_f64.h. */

//@ abs_real
#define abs_real(x) BUILTIN_real(fabs)(x)
//@ sqrt_real
#define sqrt_real(x) BUILTIN_real(sqrt)(x)
//@ rsqrt_real
#define rsqrt_real(x) ((real)1 / BUILTIN_real(sqrt)(x))
//@ reciprocal_real
#define reciprocal_real(x) ((real)1 / (x))
//@ floor_real
#define floor_real(x) BUILTIN_real(floor)(x)
//@ ceil_real
#define ceil_real(x) BUILTIN_real(ceil)(x)
//@ round_real
#define round_real(x) BUILTIN_real(rint)(x)
//@ trunc_real
#define trunc_real(x) BUILTIN_real(trunc)(x)
//@ sign_real
#define sign_real(x) ((x) > 0 ? (real)1 : (x) < 0 ? (real)-1 : (x))
//@ relu_real
#define relu_real(x) ((x) < 0 ? (real)0 : (x))
//@ leaky_relu_real
#define leaky_relu_real(x, slope) ((x) > 0 ? (x) : (slope) * (x))
//@ is_nan_real
#define is_nan_real(x) ((boolean)((x) != (x)))
//@ is_finite_real
#define is_finite_real(x) ((boolean)(BUILTIN_real(fabs)(x) < INFINITY_real))
//@ min_real
/* NaN stays, from either side. */
#define min_real(a, b) ((a) != (a) || (a) < (b) ? (a) : (b))
//@ max_real
#define max_real(a, b) ((a) != (a) || (a) > (b) ? (a) : (b))
//@ mod_real
#define mod_real(a, b) BUILTIN_real(fmod)(a, b)
