/* Instructions on F64 values. */
#include "math_f64.h"

typedef double real;
#define REAL(name) name##_f64
#define REAL_MAX   0x1.fffffffffffffp1023
#define REAL_ROWS  /* none */

CPU_INLINE double op_exp(double x) {
  return math_exp_f64(x);
}
CPU_INLINE double op_log(double x) {
  return math_log_f64(x);
}
CPU_INLINE double op_sin(double x) {
  return math_sin_f64(x);
}
CPU_INLINE double op_cos(double x) {
  return math_cos_f64(x);
}
CPU_INLINE double op_sigmoid(double x) {
  return math_sigmoid_f64(x);
}
CPU_INLINE double op_erf(double x) {
  return math_erf_f64(x);
}
CPU_INLINE double op_gelu(double x) {
  return math_gelu_f64(x);
}
CPU_INLINE double op_silu(double x) {
  return math_silu_f64(x);
}
UNARY_LOOP(op_exp, double, double)
UNARY_LOOP(op_log, double, double)
UNARY_LOOP(op_sin, double, double)
UNARY_LOOP(op_cos, double, double)
UNARY_LOOP(op_sigmoid, double, double)
UNARY_LOOP(op_erf, double, double)
UNARY_LOOP(op_gelu, double, double)
UNARY_LOOP(op_silu, double, double)

#include "tile_float.h"
