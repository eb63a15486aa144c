/* Folding and searching loops for REDUCE; isa.h says how this file is compiled, reduce_table.h what
 * each loop does. The loops themselves are in two templates, because they are the same for every
 * element type. */
#include <math.h>

#include "reduce_table.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

#define ELEMENT    float
#define ARITHMETIC float
#define MASK       int32_t
#define NAME(x)    x##_f32
#define IS_NAN(x)  ((x) != (x))
#define PACK_NAN   IS_NAN
#define LOWEST     (-INFINITY)
#define HIGHEST    INFINITY
#include "reduce_kernels.h"
#include "search_kernels.h"
#undef ELEMENT
#undef ARITHMETIC
#undef MASK
#undef NAME

#define ELEMENT    double
#define ARITHMETIC double
#define MASK       int64_t
#define NAME(x)    x##_f64
#include "reduce_kernels.h"
#include "search_kernels.h"
#undef ELEMENT
#undef ARITHMETIC
#undef MASK
#undef NAME
#undef IS_NAN
#undef PACK_NAN
#undef LOWEST
#undef HIGHEST

#define ELEMENT     int32_t
#define ARITHMETIC  uint32_t
#define MASK        int32_t
#define NAME(x)     x##_i32
#define IS_NAN(x)   0
#define PACK_NAN(x) ((x) ^ (x)) /* nothing */
#define LOWEST      INT32_MIN
#define HIGHEST     INT32_MAX
#include "reduce_kernels.h"
#include "search_kernels.h"
#undef ELEMENT
#undef ARITHMETIC
#undef MASK
#undef NAME
#undef LOWEST
#undef HIGHEST

#define ELEMENT    int64_t
#define ARITHMETIC uint64_t
#define MASK       int64_t
#define NAME(x)    x##_i64
#define LOWEST     INT64_MIN
#define HIGHEST    INT64_MAX
#include "reduce_kernels.h"
#include "search_kernels.h"
#undef ELEMENT
#undef ARITHMETIC
#undef MASK
#undef NAME
#undef LOWEST
#undef HIGHEST

/* BOOL, whose values are the bytes 0 and 1. */
#define EXTREMA_ONLY
#define ELEMENT    uint8_t
#define ARITHMETIC uint8_t
#define MASK       int8_t
#define NAME(x)    x##_bool
#define LOWEST     0
#define HIGHEST    1
#include "reduce_kernels.h"

#define FOLD(operation, type)                                                                      \
  { operation##_rows_##type, operation##_columns_##type, operation##_clear_##type }
#define SEARCH(operation, type)                                                                    \
  { operation##_rows_##type, operation##_columns_##type, operation##_merge_##type }
#define EVERY_NUMBER(what, operation)                                                              \
  [COMPUTE_F64] = what(operation, f64), [COMPUTE_F32] = what(operation, f32),                      \
  [COMPUTE_I64] = what(operation, i64), [COMPUTE_I32] = what(operation, i32)

const cpu_reduce_table CPU_SYMBOL(cpu_reduce_table) = {
    .fold =
        {
            [COMPUTE_COMBINE_SUM] = {EVERY_NUMBER(FOLD, add)},
            [COMPUTE_COMBINE_PROD] = {EVERY_NUMBER(FOLD, multiply)},
            [COMPUTE_COMBINE_MAX] = {EVERY_NUMBER(FOLD, larger), [COMPUTE_BOOL] = FOLD(larger,
                                                                                       bool)},
            [COMPUTE_COMBINE_MIN] = {EVERY_NUMBER(FOLD, smaller), [COMPUTE_BOOL] = FOLD(smaller,
                                                                                        bool)},
        },
    .search = {{EVERY_NUMBER(SEARCH, largest)}, {EVERY_NUMBER(SEARCH, smallest)}},
    .row = &CPU_SYMBOL(cpu_row_table),
};
