/* SPDX-License-Identifier: MIT */
/* Functions in f64: the device's built-in functions, and combinations of them. The CPU backend also
 * compiles this file, and replaces some functions (backends/cpu/program/isa/math_f64.h). */

//@ exp_f64
#ifndef exp_f64
#define exp_f64(x) exp(x)
#endif
//@ expm1_f64
#define expm1_f64(x) expm1(x)
//@ log_f64
#ifndef log_f64
#define log_f64(x) log(x)
#endif
//@ log1p_f64
#define log1p_f64(x) log1p(x)
//@ tanh_f64
#ifndef tanh_f64
#define tanh_f64(x) tanh(x)
#endif
//@ erf_f64
#define erf_f64(x) erf(x)
//@ sigmoid_f64
DEVICE f64 sigmoid_f64(f64 x) {
  const f64 e = exp_f64(-fabs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}
//@ silu_f64
DEVICE f64 silu_f64(f64 x) {
  const f64 e = exp_f64(-fabs(x));
  return (x < 0 ? x * e : x) / (1.0 + e);
}
//@ gelu_f64
DEVICE f64 gelu_f64(f64 x) {
  return 0.5 * x * erfc(-0.70710678118654752 * x);
}
//@ gelu_tanh_f64
/* (1 + tanh u) / 2 = 1 / (1 + exp(-2u)). */
DEVICE f64 gelu_tanh_f64(f64 x) {
  return x * sigmoid_f64(x * (1.5957691216057308 + 0.07135481627260025 * (x * x)));
}
//@ softplus_f64
DEVICE f64 softplus_f64(f64 x) {
  return (0 > x ? 0.0 : x) + log1p_f64(exp_f64(-fabs(x)));
}
//@ elu_f64
#define elu_f64(x, alpha) ((x) > 0 ? (x) : (alpha)*expm1(x))
//@ pow_f64
#define pow_f64(a, b) pow(a, b)
