/* The vector functions in f32; how they are measured is in tests/cpu/test_math.c. */
#ifndef CPU_ISA_MATH_F32_H
#define CPU_ISA_MATH_F32_H

#include "math_erf_f32.h"
#include "math_exp_f32.h"
#include "math_log_f32.h"
#include "math_pow_f32.h"
#include "math_trig_f32.h"

#endif
