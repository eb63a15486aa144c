/* Loops for ATTENTION; isa.h says how this file is compiled, attention_table.h what each does. */
#include "attention_table.h"

#include "program/isa/math_exp_f32.h"
#include "program/isa/math_f64.h"

#define ELEMENT float
#define NAME(x) x##_f32
#define EXP(x)  math_exp_f32(x)
#define LOWEST  (-__builtin_inff())
#define LANES   64
#include "attention_kernels.h"
#undef ELEMENT
#undef NAME
#undef EXP
#undef LOWEST
#undef LANES

#define ELEMENT double
#define NAME(x) x##_f64
#define EXP(x)  math_exp_f64(x)
#define LOWEST  (-__builtin_inf())
#define LANES   32
#include "attention_kernels.h"

const cpu_attention_table CPU_SYMBOL(cpu_attention_table) = {
    .f64 = {soften_f64, scale_f64},
    .f32 = {soften_f32, scale_f32},
};
