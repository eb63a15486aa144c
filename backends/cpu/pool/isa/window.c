/* Loops for WINDOW; isa.h says how this file is compiled, window_table.h what each loop does. */
#include <stdbool.h>
#include <string.h>

#include "program/isa/tile_loops.h"
#include "window_table.h"

/* Loops over short lines take this many elements at once, however short the line: what follows it
 * is computed for nothing. They take STAGED elements of lines before the next pass over them, which
 * should find them in the level-1 cache. */
enum { STRIDE = 16, STAGED = 2048 };
#define WHOLE(length) (((length) + STRIDE - 1) & -(int64_t)STRIDE)

#define IS_NAN(x) ((x) != (x))

#define ELEMENT  float
#define TAP      int32_t
#define NAME(x)  x##_f32
#define FLOATING 1
#include "window_kernels.h"
#include "window_short.h"
#undef ELEMENT
#undef TAP
#undef NAME

#define ELEMENT double
#define TAP     int64_t
#define NAME(x) x##_f64
#include "window_kernels.h"
#include "window_short.h"
#undef ELEMENT
#undef TAP
#undef NAME
#undef FLOATING
#undef IS_NAN

#define IS_NAN(x) ((void)(x), 0)

#define ELEMENT  int32_t
#define TAP      int32_t
#define NAME(x)  x##_i32
#define FLOATING 0
#include "window_kernels.h"
#include "window_short.h"
#undef ELEMENT
#undef TAP
#undef NAME

#define ELEMENT int64_t
#define TAP     int64_t
#define NAME(x) x##_i64
#include "window_kernels.h"
#include "window_short.h"

#define FLOAT_LOOPS(type)                                                                          \
  {                                                                                                \
    maximum_##type, sum_##type, divide_##type, search_##type, halve_##type, expand_##type,         \
        deliver_##type, scatter_##type, halve_short_##type, maximum_short_##type,                  \
        average_short_##type                                                                       \
  }

const cpu_window_table CPU_SYMBOL(cpu_window_table) = {
    .type = {[CPU_TYPE_F64] = FLOAT_LOOPS(f64),
             [CPU_TYPE_F32] = FLOAT_LOOPS(f32),
             [CPU_TYPE_I64] = {.maximum = maximum_i64, .maximum_short = maximum_short_i64},
             [CPU_TYPE_I32] = {.maximum = maximum_i32, .maximum_short = maximum_short_i32}}};
