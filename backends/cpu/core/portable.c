/* SPDX-License-Identifier: MIT */
/* The C library's functions use fused multiply-adds where a processor has them, so their last bits
 * differ between machines. The series here do not. Their last bits differ from the
 * series in kernels/functions_random_draw.h, and tests/operations/portable.def pins both. */
#include "portable.h"

#include <math.h>
#include <stdbool.h>

/* ---- Functions ------------------------------------------------------------------------------- */

/* ln 2 in two parts; products of the first with exponents are exact. */
#define LN2_HIGH 0x1.62e42fefa0000p-1
#define LN2_LOW  0x1.cf79abc9e3b3ap-40

/* x = n ln 2 + r, then the series of exp(r) for |r| ≤ ln 2 / 2. */
double cpu_exp(double x) {
  enum { TERMS = 14 };
  if (x != x) return x;
  if (x > 710) return (double)INFINITY;
  if (x < -746) return 0;
  const double n = floor(x * 0x1.71547652b82fep+0 + 0.5);
  const double r = (x - n * LN2_HIGH) - n * LN2_LOW;
  double sum = 0;
  for (int i = TERMS; i > 0; i--) sum = (sum + 1) * r * (1.0 / i);
  return ldexp(1 + sum, (int)n);
}

/* log(2^n m) = n ln 2 + 2 (s + s³/3 + s⁵/5 …), s = (m − 1) / (m + 1), |s| ≤ 0.172. */
double cpu_log(double x) {
  enum { LAST = 23 };
  if (!(x > 0) || x > 0x1.fffffffffffffp1023)
    return x == 0 ? -(double)INFINITY : x < 0 ? (double)NAN : x;
  int n;
  double m = frexp(x, &n);
  if (m < 0x1.6a09e667f3bcdp-1) {
    m *= 2;
    n--;
  }
  const double s = (m - 1) / (m + 1), square = s * s;
  double sum = 0;
  for (int i = LAST; i > 1; i -= 2) sum = (sum + 1.0 / i) * square;
  return n * LN2_HIGH + (2 * s + (2 * s * sum + n * LN2_LOW));
}

void cpu_sin_cos(double x, double *sine, double *cosine) {
  enum { TERMS = 20 };
  const double square = x * x;
  double odd = 0, even = 0;
  for (int i = TERMS; i > 1; i -= 2) {
    even = -(even + 1) * square * (1.0 / (i * (i - 1)));
    odd = -(odd + 1) * square * (1.0 / (i * (i + 1)));
  }
  *sine = x + x * odd;
  *cosine = 1 + even;
}

/* ---- Refusals -------------------------------------------------------------------------------- */

/* True if the instruction is a function of the C library (program/isa/tile_float.c). */
static bool is_of_library(const compute_instruction *instruction) {
  if (instruction->type != COMPUTE_F64) return false;
  switch (instruction->code) {
  case COMPUTE_I_EXPM1:
  case COMPUTE_I_LOG1P:
  case COMPUTE_I_SIN:
  case COMPUTE_I_COS:
  case COMPUTE_I_TAN:
  case COMPUTE_I_ASIN:
  case COMPUTE_I_ACOS:
  case COMPUTE_I_ATAN:
  case COMPUTE_I_SINH:
  case COMPUTE_I_COSH:
  case COMPUTE_I_ASINH:
  case COMPUTE_I_ACOSH:
  case COMPUTE_I_ATANH:
  case COMPUTE_I_ERF:
  case COMPUTE_I_GELU:
  case COMPUTE_I_SOFTPLUS:
  case COMPUTE_I_ELU:
  case COMPUTE_I_POW: return true;
  default: return false;
  }
}

static bool has_library(const compute_program *program) {
  for (uint32_t i = 0; i < program->count; i++)
    if (is_of_library(&program->instructions[i])) return true;
  return false;
}

const char *cpu_portable_refuse(const compute_kernel_descriptor *descriptor) {
  switch (descriptor->kind) {
  case COMPUTE_KERNEL_FIT:
  case COMPUTE_KERNEL_SPOTS: return "fits have no portable kernels";
  case COMPUTE_KERNEL_CALL: return "functions of the program have no portable form";
  default: break;
  }
  return has_library(&descriptor->prologue) || has_library(&descriptor->epilogue)
             ? "a function of the C library in f64 is not portable"
             : NULL;
}
