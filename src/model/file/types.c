/* SPDX-License-Identifier: MIT */
/* Table of ONNX element types. A type that is a dtype uses the dtype's name. */
#include "model/file/types.h"

#include <math.h>

#include "model/onnx.h"

/* Field numbers in TensorProto. */
enum { FLOATS = 4, INT32S = 5, INT64S = 7, DOUBLES = 10, UINT64S = 11 };

#define PLAIN(name, dtype, bits, field)                                                            \
  {                                                                                                \
    name, COMPUTE_##dtype, bits, field, ELEMENT_PLAIN, {                                           \
      0                                                                                            \
    }                                                                                              \
  }
#define NARROW(name, dtype, bits, form)                                                            \
  {                                                                                                \
    name, COMPUTE_##dtype, bits, INT32S, form, {                                                   \
      0                                                                                            \
    }                                                                                              \
  }
#define SMALL_FLOAT(name, bits, ...)                                                               \
  {                                                                                                \
    name, COMPUTE_F32, bits, INT32S, ELEMENT_SMALL_FLOAT, {                                        \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }

static const type_row rows[] = {
    [ONNX_FLOAT] = PLAIN("f32", F32, 32, FLOATS),
    [ONNX_UINT8] = PLAIN("u8", U8, 8, INT32S),
    [ONNX_INT8] = PLAIN("i8", I8, 8, INT32S),
    [ONNX_UINT16] = PLAIN("u16", U16, 16, INT32S),
    [ONNX_INT16] = PLAIN("i16", I16, 16, INT32S),
    [ONNX_INT32] = PLAIN("i32", I32, 32, INT32S),
    [ONNX_INT64] = PLAIN("i64", I64, 64, INT64S),
    [ONNX_STRING] = PLAIN("string", DTYPE_NONE, 0, 0),
    [ONNX_BOOL] = NARROW("bool", BOOL, 8, ELEMENT_BOOL),
    [ONNX_FLOAT16] = PLAIN("f16", F16, 16, INT32S),
    [ONNX_DOUBLE] = PLAIN("f64", F64, 64, DOUBLES),
    [ONNX_UINT32] = PLAIN("u32", U32, 32, UINT64S),
    [ONNX_UINT64] = PLAIN("u64", U64, 64, UINT64S),
    [ONNX_COMPLEX64] = PLAIN("complex64", DTYPE_NONE, 0, 0),
    [ONNX_COMPLEX128] = PLAIN("complex128", DTYPE_NONE, 0, 0),
    [ONNX_BFLOAT16] = PLAIN("bf16", BF16, 16, INT32S),
    [ONNX_FLOAT8E4M3FN] = SMALL_FLOAT("float8e4m3fn", 8, 4, 3, 7, LAST_IS_NAN),
    [ONNX_FLOAT8E4M3FNUZ] = SMALL_FLOAT("float8e4m3fnuz", 8, 4, 3, 8, MINUS_ZERO_IS_NAN),
    [ONNX_FLOAT8E5M2] = SMALL_FLOAT("float8e5m2", 8, 5, 2, 15, LAST_IS_INFINITY_OR_NAN),
    [ONNX_FLOAT8E5M2FNUZ] = SMALL_FLOAT("float8e5m2fnuz", 8, 5, 2, 16, MINUS_ZERO_IS_NAN),
    [ONNX_UINT4] = NARROW("uint4", U8, 4, ELEMENT_UNSIGNED),
    [ONNX_INT4] = NARROW("int4", I8, 4, ELEMENT_SIGNED),
    [ONNX_FLOAT4E2M1] = SMALL_FLOAT("float4e2m1", 4, 2, 1, 1, ALL_FINITE),
    [ONNX_FLOAT8E8M0] = SMALL_FLOAT("float8e8m0", 8, 8, 0, 127, POWER_OF_TWO),
    [ONNX_UINT2] = NARROW("uint2", U8, 2, ELEMENT_UNSIGNED),
    [ONNX_INT2] = NARROW("int2", I8, 2, ELEMENT_SIGNED),
    [ONNX_FLOAT6E2M3] = SMALL_FLOAT("float6e2m3", 6, 2, 3, 1, ALL_FINITE),
    [ONNX_FLOAT6E3M2] = SMALL_FLOAT("float6e3m2", 6, 3, 2, 3, ALL_FINITE),
};

enum { ROW_COUNT = sizeof rows / sizeof *rows };

const type_row *type_find(int32_t type) {
  return type > ONNX_UNDEFINED && type < ROW_COUNT ? &rows[type] : NULL;
}

compute_dtype onnx_dtype(int32_t type) {
  const type_row *row = type_find(type);
  return row ? row->dtype : COMPUTE_DTYPE_NONE;
}

const char *onnx_type_name(int32_t type) {
  const type_row *row = type_find(type);
  return row ? row->name : "unknown";
}

int32_t onnx_type_of(compute_dtype dtype) {
  for (int32_t type = 1; type < ROW_COUNT && dtype != COMPUTE_DTYPE_NONE; type++) {
    if (rows[type].dtype == dtype && 8 * compute_dtype_size(dtype) == rows[type].bits) return type;
  }
  return ONNX_UNDEFINED;
}

float type_small_float(const type_row *row, unsigned bits) {
  const small_float *form = &row->small;
  const unsigned last = (1u << form->exponent) - 1, fractions = 1u << form->fraction;
  const unsigned fraction = bits & (fractions - 1), exponent = bits >> form->fraction & last;
  if (form->special == POWER_OF_TWO) return bits == last ? NAN : ldexpf(1, (int)bits - form->bias);
  const bool negative = bits >> (form->fraction + form->exponent) & 1;
  if (form->special == MINUS_ZERO_IS_NAN && negative && exponent == 0 && fraction == 0) return NAN;
  if (form->special == LAST_IS_NAN && exponent == last && fraction == fractions - 1) return NAN;
  if (form->special == LAST_IS_INFINITY_OR_NAN && exponent == last)
    return fraction ? NAN : negative ? -INFINITY : INFINITY;
  const unsigned digits = exponent ? fraction + fractions : fraction;
  const int scale = (exponent ? (int)exponent : 1) - form->bias - form->fraction;
  const float value = ldexpf((float)digits, scale);
  return negative ? -value : value;
}
