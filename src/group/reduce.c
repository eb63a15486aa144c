/* SPDX-License-Identifier: MIT */
/* Reductions of the ranks' parts, in rank order. A tile of elements is converted to the type of the
 * sum and back. The tile stays in the L1 cache while the parts are added. */
#include <string.h>

#include "core/type/dtype.h"
#include "group/group.h"

#define TILE 512

typedef enum accumulator { IN_F32, IN_F64, IN_I64, IN_U64 } accumulator;

static accumulator accumulator_of(const group_call *call) {
  const compute_dtype dtype = (compute_dtype)call->dtype;
  if (dtype == COMPUTE_U64) return IN_U64;
  if (!dtype_is_float(dtype)) return IN_I64;
  return dtype == COMPUTE_F64 || call->accumulate == COMPUTE_F64 ? IN_F64 : IN_F32;
}

static void load_f32(compute_dtype dtype, const char *from, size_t count, float *to) {
  if (dtype == COMPUTE_F32) {
    memcpy(to, from, count * sizeof *to);
    return;
  }
  const size_t size = compute_dtype_size(dtype);
  for (size_t i = 0; i < count; i++) to[i] = (float)dtype_load(dtype, from + i * size);
}

static void load_f64(compute_dtype dtype, const char *from, size_t count, double *to) {
  if (dtype == COMPUTE_F64) {
    memcpy(to, from, count * sizeof *to);
    return;
  }
  const size_t size = compute_dtype_size(dtype);
  for (size_t i = 0; i < count; i++) to[i] = dtype_load(dtype, from + i * size);
}

static void load_i64(compute_dtype dtype, const char *from, size_t count, int64_t *to) {
  const size_t size = compute_dtype_size(dtype);
  for (size_t i = 0; i < count; i++) to[i] = dtype_load_integer(dtype, from + i * size);
}

static void load_u64(compute_dtype dtype, const char *from, size_t count, uint64_t *to) {
  (void)dtype;
  memcpy(to, from, count * sizeof *to);
}

static void store_f32(compute_dtype dtype, const float *from, size_t count, char *to) {
  if (dtype == COMPUTE_F32) {
    memcpy(to, from, count * sizeof *from);
    return;
  }
  const size_t size = compute_dtype_size(dtype);
  for (size_t i = 0; i < count; i++) dtype_store(dtype, to + i * size, (double)from[i]);
}

static void store_f64(compute_dtype dtype, const double *from, size_t count, char *to) {
  if (dtype == COMPUTE_F64) {
    memcpy(to, from, count * sizeof *from);
    return;
  }
  const size_t size = compute_dtype_size(dtype);
  for (size_t i = 0; i < count; i++) dtype_store(dtype, to + i * size, from[i]);
}

static void store_i64(compute_dtype dtype, const int64_t *from, size_t count, char *to) {
  const size_t size = compute_dtype_size(dtype);
  for (size_t i = 0; i < count; i++) dtype_store_integer(dtype, to + i * size, from[i]);
}

static void store_u64(compute_dtype dtype, const uint64_t *from, size_t count, char *to) {
  (void)dtype;
  memcpy(to, from, count * sizeof *from);
}

/* Signed integers wrap like unsigned ones. A NaN wins as the extremum. */
#define ADD_FLOAT(type, a, b)   ((a) + (b))
#define ADD_INTEGER(type, a, b) ((type)((uint64_t)(a) + (uint64_t)(b)))
#define LARGER(a, b)            ((b) > (a) || (b) != (b) ? (b) : (a))
#define SMALLER(a, b)           ((b) < (a) || (b) != (b) ? (b) : (a))

/* fold_NAME reduces a tile of `count` elements. Part r begins `part_bytes` after part r − 1. */
#define FOLD(name, type, add)                                                                      \
  static void fold_##name(const group_call *call, int32_t parts_count, const char *parts,          \
                          size_t part_bytes, size_t count, char *result) {                         \
    const compute_dtype dtype = (compute_dtype)call->dtype;                                        \
    type sum[TILE], next[TILE];                                                                    \
    load_##name(dtype, parts, count, sum);                                                         \
    for (int32_t r = 1; r < parts_count; r++) {                                                    \
      load_##name(dtype, parts + (size_t)r * part_bytes, count, next);                             \
      switch ((compute_group_reduction)call->reduction) {                                          \
      case COMPUTE_GROUP_SUM:                                                                      \
      case COMPUTE_GROUP_MEAN:                                                                     \
        for (size_t i = 0; i < count; i++) sum[i] = add(type, sum[i], next[i]);                    \
        break;                                                                                     \
      case COMPUTE_GROUP_MAX:                                                                      \
        for (size_t i = 0; i < count; i++) sum[i] = LARGER(sum[i], next[i]);                       \
        break;                                                                                     \
      case COMPUTE_GROUP_MIN:                                                                      \
        for (size_t i = 0; i < count; i++) sum[i] = SMALLER(sum[i], next[i]);                      \
        break;                                                                                     \
      }                                                                                            \
    }                                                                                              \
    if (call->reduction == COMPUTE_GROUP_MEAN)                                                     \
      for (size_t i = 0; i < count; i++) sum[i] = sum[i] / (type)parts_count;                      \
    store_##name(dtype, sum, count, result);                                                       \
  }

FOLD(f32, float, ADD_FLOAT)
FOLD(f64, double, ADD_FLOAT)
FOLD(i64, int64_t, ADD_INTEGER)
FOLD(u64, uint64_t, ADD_INTEGER)

void group_reduce(const group_call *call, int32_t parts_count, const void *parts, size_t count,
                  void *result) {
  const size_t size = compute_dtype_size((compute_dtype)call->dtype), part_bytes = count * size;
  const accumulator in = accumulator_of(call);
  for (size_t first = 0; first < count; first += TILE) {
    const size_t n = count - first < TILE ? count - first : TILE;
    const char *from = (const char *)parts + first * size;
    char *to = (char *)result + first * size;
    switch (in) {
    case IN_F32: fold_f32(call, parts_count, from, part_bytes, n, to); break;
    case IN_F64: fold_f64(call, parts_count, from, part_bytes, n, to); break;
    case IN_I64: fold_i64(call, parts_count, from, part_bytes, n, to); break;
    case IN_U64: fold_u64(call, parts_count, from, part_bytes, n, to); break;
    }
  }
}
