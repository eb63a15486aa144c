/* SPDX-License-Identifier: MIT */
/* Programs as one loop each; core/isa.h explains how this file is compiled. Operations are the
 * same as in the interpreter's loops (tile_float.c), with one rounding each, so results have the
 * same bits. */
#include "formulas_table.h"
#include "program/isa/tile_loops.h"

CPU_INLINE float square(float x) {
  return x * x;
}
CPU_INLINE float relu(float x) {
  return 0 > x ? 0 : x; /* this order keeps NaN */
}

#define IN(n)           o.input[n][i]
#define REPEATED(n)     number[n]
#define VALUE(n)        value##n
#define ADD(a, b)       ((a) + (b))
#define SUB(a, b)       ((a) - (b))
#define MUL(a, b)       ((a) * (b))
#define DIV(a, b)       ((a) / (b))
#define SQUARE(a)       square(a)
#define SQRT(a)         __builtin_sqrtf(a)
#define RELU(a)         relu(a)
#define LE(a, b)        ((a) <= (b))
#define SELECT(c, a, b) ((c) ? (a) : (b))
#define OUT(n, e)       const float value##n = (e);

/* Written after all reads: an output may share memory with an input. */
#define WRITE_1 o.output[0][i] = value0;
#define WRITE_2 WRITE_1 o.output[1][i] = value1;
#define WRITE_3 WRITE_2 o.output[2][i] = value2;

CPU_INLINE void next_line(cpu_formula_operands *o) {
  for (int n = 0; n < CPU_FORMULA_INPUTS; n++) o->input[n] += o->input_line[n];
  for (int n = 0; n < CPU_FORMULA_NUMBERS; n++) o->repeated[n] += o->repeated_line[n];
  for (int n = 0; n < CPU_FORMULA_OUTPUTS; n++) o->output[n] += o->output_line[n];
}

#define FORMULA(name, outputs, body)                                                               \
  static void name(int64_t lines, int64_t count, const cpu_formula_operands *operands) {           \
    cpu_formula_operands o = *operands;                                                            \
    for (; lines > 0; lines--) {                                                                   \
      float number[CPU_FORMULA_NUMBERS];                                                           \
      for (int n = 0; n < CPU_FORMULA_NUMBERS; n++) number[n] = *o.repeated[n];                    \
      (void)number; /* not all rows have a number */                                               \
      CPU_INDEPENDENT                                                                              \
      for (int64_t i = 0; i < count; i++) {                                                        \
        body WRITE_##outputs                                                                       \
      }                                                                                            \
      next_line(&o);                                                                               \
    }                                                                                              \
  }
#include "program/isa/formulas.def"

const cpu_formulas_table CPU_SYMBOL(cpu_formulas) = {{
#define FORMULA(name, outputs, body) [CPU_FORMULA_##name] = name,
#include "program/isa/formulas.def"
}};
