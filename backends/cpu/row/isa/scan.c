/* Loops for SCAN; isa.h says how this file is compiled, scan_table.h what each loop does. */
#include "scan_table.h"
#include "program/isa/tile_loops.h"

#define ELEMENT    float
#define ARITHMETIC float
#define TYPED(x)   x##_f32
#define IS_NAN(x)  ((x) != (x))
#define ZERO       (-0.0f)
#define LOWEST     (-__builtin_inff())
#define HIGHEST    __builtin_inff()
#include "scan_types.h"

#define ELEMENT    double
#define ARITHMETIC double
#define TYPED(x)   x##_f64
#define IS_NAN(x)  ((x) != (x))
#define ZERO       (-0.0)
#define LOWEST     (-__builtin_inf())
#define HIGHEST    __builtin_inf()
#include "scan_types.h"

#define ELEMENT    int32_t
#define ARITHMETIC uint32_t
#define TYPED(x)   x##_i32
#define IS_NAN(x)  ((void)(x), 0)
#define ZERO       0
#define LOWEST     INT32_MIN
#define HIGHEST    INT32_MAX
#include "scan_types.h"

#define ELEMENT    int64_t
#define ARITHMETIC uint64_t
#define TYPED(x)   x##_i64
#define IS_NAN(x)  ((void)(x), 0)
#define ZERO       0
#define LOWEST     INT64_MIN
#define HIGHEST    INT64_MAX
#include "scan_types.h"

#define LOOPS(name, type)                                                                          \
  {                                                                                                \
    name##_local_##type, name##_finish_##type, name##_step_##type, name##_combine_##type,          \
        name##_clear_##type, name##_identity_##type                                                \
  }
#define TYPES(name)                                                                                \
  {                                                                                                \
    [CPU_TYPE_F64] = LOOPS(name, f64), [CPU_TYPE_F32] = LOOPS(name, f32),                          \
    [CPU_TYPE_I64] = LOOPS(name, i64), [CPU_TYPE_I32] = LOOPS(name, i32)                           \
  }

const cpu_scan_table CPU_SYMBOL(cpu_scan_table) = {
    .fold = {[COMPUTE_COMBINE_SUM] = TYPES(sum),
             [COMPUTE_COMBINE_PROD] = TYPES(product),
             [COMPUTE_COMBINE_MAX] = TYPES(maximum),
             [COMPUTE_COMBINE_MIN] = TYPES(minimum)}};
