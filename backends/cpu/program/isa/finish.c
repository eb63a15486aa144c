/* SPDX-License-Identifier: MIT */
/* Adds to finished sums and limits them. core/isa.h explains how this file is compiled;
 * finish_table.h defines the loop. */
#include "finish_table.h"
#include "program/isa/math_base.h"
#include "program/isa/tile_loops.h"

typedef enum addend { ABSENT, REPEATED, DENSE } addend;

#define STORED    float
#define WIDEN(x)  (x)
#define NARROW(x) (x)
#define NAME(x)   x
#include "finish_loops.h"

#define STORED    uint16_t
#define WIDEN(x)  convert_bf16_to_f32(x)
#define NARROW(x) convert_f32_to_bf16(x)
#define NAME(x)   x##_bf16
#include "finish_loops.h"

const cpu_finish_table CPU_SYMBOL(cpu_finish) = {run, run_bf16};
