/* Instructions on BOOL values, which are masks: 0 and −1 (tile_table.h). As numbers true is the
 * smaller, hence the comparisons that look turned around. */
#include "tile_loops.h"

CPU_INLINE int32_t op_not(int32_t x) {
  return ~x;
}
CPU_INLINE int32_t op_and(int32_t a, int32_t b) {
  return a & b;
}
CPU_INLINE int32_t op_or(int32_t a, int32_t b) {
  return a | b;
}
CPU_INLINE int32_t op_xor(int32_t a, int32_t b) {
  return a ^ b;
}
CPU_INLINE int32_t op_eq(int32_t a, int32_t b) {
  return ~(a ^ b);
}
CPU_INLINE int32_t op_lt(int32_t a, int32_t b) {
  return ~a & b;
}
CPU_INLINE int32_t op_le(int32_t a, int32_t b) {
  return ~a | b;
}
CPU_INLINE int32_t op_gt(int32_t a, int32_t b) {
  return a & ~b;
}
CPU_INLINE int32_t op_ge(int32_t a, int32_t b) {
  return a | ~b;
}

UNARY_LOOP(op_not, int32_t, int32_t)
BINARY_LOOP(op_and, int32_t, int32_t)
BINARY_LOOP(op_or, int32_t, int32_t)
BINARY_LOOP(op_xor, int32_t, int32_t)
BINARY_LOOP(op_eq, int32_t, int32_t)
BINARY_LOOP(op_lt, int32_t, int32_t)
BINARY_LOOP(op_le, int32_t, int32_t)
BINARY_LOOP(op_gt, int32_t, int32_t)
BINARY_LOOP(op_ge, int32_t, int32_t)
SELECT_LOOP(op_select, int32_t)

extern const cpu_tile_loops CPU_SYMBOL(cpu_tile_bool);
const cpu_tile_loops CPU_SYMBOL(cpu_tile_bool) = {
    [COMPUTE_I_NOT] = UNARY_ROW(op_not),        [COMPUTE_I_AND] = BINARY_ROW(op_and),
    [COMPUTE_I_OR] = BINARY_ROW(op_or),         [COMPUTE_I_XOR] = BINARY_ROW(op_xor),
    [COMPUTE_I_MIN] = BINARY_ROW(op_and),       [COMPUTE_I_MAX] = BINARY_ROW(op_or),
    [COMPUTE_I_EQ] = BINARY_ROW(op_eq),         [COMPUTE_I_NE] = BINARY_ROW(op_xor),
    [COMPUTE_I_LT] = BINARY_ROW(op_lt),         [COMPUTE_I_LE] = BINARY_ROW(op_le),
    [COMPUTE_I_GT] = BINARY_ROW(op_gt),         [COMPUTE_I_GE] = BINARY_ROW(op_ge),
    [COMPUTE_I_SELECT] = SELECT_ROW(op_select),
};
