/* Element types: sizes, names, and the conversion of single elements.
 *
 * The half-width floats are converted by integer arithmetic, so that every machine rounds alike and
 * no instruction set is assumed. A double goes to f16 or bf16 by way of an f32 that is rounded to
 * odd: two ordinary roundings in a row would break some ties the wrong way (Boldo and Melquiond,
 * "When double rounding is odd", 2005). */
#include "type/dtype.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum dtype_class {
  CLASS_NONE = 0,
  CLASS_FLOAT,
  CLASS_INTEGER,
  CLASS_BOOL,
} dtype_class;

typedef struct dtype_row {
  const char *name;
  uint8_t size;
  uint8_t class;
  compute_dtype compute_type;
  int64_t low, high; /* integers and bool */
  const char *range; /* what it holds, in words */
} dtype_row;

static const dtype_row dtype_table[COMPUTE_DTYPE_COUNT] = {
    [COMPUTE_DTYPE_NONE] = {"invalid", 0, CLASS_NONE, COMPUTE_DTYPE_NONE, 0, 0, "nothing"},
    [COMPUTE_F64] = {"f64", 8, CLASS_FLOAT, COMPUTE_F64, 0, 0, "numbers up to 1.79769e+308"},
    [COMPUTE_F32] = {"f32", 4, CLASS_FLOAT, COMPUTE_F32, 0, 0, "numbers up to 3.40282e+38"},
    [COMPUTE_F16] = {"f16", 2, CLASS_FLOAT, COMPUTE_F32, 0, 0, "numbers up to 65504"},
    [COMPUTE_BF16] = {"bf16", 2, CLASS_FLOAT, COMPUTE_F32, 0, 0, "numbers up to 3.38953e+38"},
    [COMPUTE_I64] = {"i64", 8, CLASS_INTEGER, COMPUTE_I64, INT64_MIN, INT64_MAX,
                     "whole numbers from -2^63 to 2^63 - 1"},
    [COMPUTE_I32] = {"i32", 4, CLASS_INTEGER, COMPUTE_I32, INT32_MIN, INT32_MAX,
                     "whole numbers from -2^31 to 2^31 - 1"},
    [COMPUTE_U8] = {"u8", 1, CLASS_INTEGER, COMPUTE_I32, 0, UINT8_MAX,
                    "whole numbers from 0 to 255"},
    [COMPUTE_BOOL] = {"bool", 1, CLASS_BOOL, COMPUTE_BOOL, 0, 1, "0 and 1"},
    [COMPUTE_U16] = {"u16", 2, CLASS_INTEGER, COMPUTE_I32, 0, UINT16_MAX,
                     "whole numbers from 0 to 65535"},
};

/* Any integer may arrive in a compute_dtype: the row of a value that is none is that of NONE. */
static const dtype_row *row_of(compute_dtype dtype) {
  unsigned index = (unsigned)dtype;
  return &dtype_table[index < COMPUTE_DTYPE_COUNT ? index : 0];
}

size_t compute_dtype_size(compute_dtype dtype) {
  return row_of(dtype)->size;
}

const char *compute_dtype_name(compute_dtype dtype) {
  return row_of(dtype)->name;
}

bool dtype_is_valid(compute_dtype dtype) {
  return row_of(dtype)->class != CLASS_NONE;
}

bool dtype_is_float(compute_dtype dtype) {
  return row_of(dtype)->class == CLASS_FLOAT;
}

bool dtype_is_half(compute_dtype dtype) {
  return dtype == COMPUTE_F16 || dtype == COMPUTE_BF16;
}

bool dtype_is_integer(compute_dtype dtype) {
  return row_of(dtype)->class == CLASS_INTEGER;
}

compute_dtype dtype_compute_type(compute_dtype dtype) {
  return row_of(dtype)->compute_type;
}

/* ---- Half-width floats --------------------------------------------------------------------- */

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

uint16_t dtype_f32_to_f16(float value) {
  uint32_t bits = bits_of(value);
  uint32_t sign = (bits >> 16) & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  uint32_t result;
  if (magnitude > 0x7f800000) {
    result = 0x7e00 | ((magnitude >> 13) & 0x3ff); /* a quiet NaN with what fits of its payload */
  } else if (magnitude >= 0x477ff000) {
    result = 0x7c00; /* 65520 and above, infinity included */
  } else if (magnitude >= 0x38800000) {
    uint32_t rebased = magnitude - 0x38000000; /* the exponent's bias becomes that of f16 */
    result = (rebased + 0xfff + ((rebased >> 13) & 1)) >> 13;
  } else if (magnitude > 0x33000000) {
    /* Above 2^-25: a subnormal, a multiple of 2^-24 (or the smallest normal after rounding). */
    uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    uint32_t shift = 126 - (magnitude >> 23);
    uint32_t rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
    result = mantissa >> shift;
    result += rest > half || (rest == half && (result & 1));
  } else {
    result = 0;
  }
  return (uint16_t)(sign | result);
}

float dtype_f16_to_f32(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 31, mantissa = bits & 0x3ff;
  if (exponent == 31) return float_of(sign | 0x7f800000 | mantissa << 13);
  if (exponent == 0) return float_of(sign | bits_of((float)mantissa * 0x1p-24f));
  return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t dtype_f32_to_bf16(float value) {
  uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float dtype_bf16_to_f32(uint16_t bits) {
  return float_of((uint32_t)bits << 16);
}

/* ---- Rounding to odd ----------------------------------------------------------------------- */

/* Given the f32 nearest to a number that it does not equal: that number rounded to odd. */
static float odd_neighbour(float nearest, bool nearest_is_larger_in_magnitude) {
  uint32_t bits = bits_of(nearest);
  if (nearest_is_larger_in_magnitude) bits--;
  return float_of(bits | 1);
}

static float f32_from_double_to_odd(double value) {
  float nearest = (float)value;
  if ((double)nearest == value || isnan(value)) return nearest;
  return odd_neighbour(nearest, fabs((double)nearest) > fabs(value));
}

static float f32_from_integer_to_odd(int64_t value) {
  float nearest = (float)value;
  if (nearest >= 0x1p63f) return odd_neighbour(nearest, true);
  int64_t back = (int64_t)nearest;
  if (back == value) return nearest;
  return odd_neighbour(nearest, value < 0 ? back < value : back > value);
}

/* ---- Single elements ----------------------------------------------------------------------- */

/* Toward zero, saturating; NaN becomes 0. The limits are exact in double except 2^63 − 1, so the
 * upper comparison is with the first value that does not fit. */
static int64_t integer_of(double value, int64_t low, int64_t high) {
  if (isnan(value)) return 0;
  if (value <= (double)low) return low;
  if (value >= (double)high) return high;
  return (int64_t)value;
}

void dtype_store(compute_dtype dtype, void *element, double value) {
  switch (dtype) {
  case COMPUTE_F64: memcpy(element, &value, 8); break;
  case COMPUTE_F32: memcpy(element, &(float){(float)value}, 4); break;
  case COMPUTE_F16:
    memcpy(element, &(uint16_t){dtype_f32_to_f16(f32_from_double_to_odd(value))}, 2);
    break;
  case COMPUTE_BF16:
    memcpy(element, &(uint16_t){dtype_f32_to_bf16(f32_from_double_to_odd(value))}, 2);
    break;
  case COMPUTE_I64: memcpy(element, &(int64_t){integer_of(value, INT64_MIN, INT64_MAX)}, 8); break;
  case COMPUTE_I32:
    memcpy(element, &(int32_t){(int32_t)integer_of(value, INT32_MIN, INT32_MAX)}, 4);
    break;
  case COMPUTE_U8: *(uint8_t *)element = (uint8_t)integer_of(value, 0, UINT8_MAX); break;
  case COMPUTE_U16:
    memcpy(element, &(uint16_t){(uint16_t)integer_of(value, 0, UINT16_MAX)}, 2);
    break;
  case COMPUTE_BOOL: *(uint8_t *)element = value != 0.0; break;
  case COMPUTE_DTYPE_NONE: break;
  }
}

static uint16_t read_u16(const void *element) {
  uint16_t bits;
  memcpy(&bits, element, 2);
  return bits;
}

double dtype_load(compute_dtype dtype, const void *element) {
  double f64 = 0;
  float f32;
  switch (dtype) {
  case COMPUTE_F64: memcpy(&f64, element, 8); break;
  case COMPUTE_F32:
    memcpy(&f32, element, 4);
    f64 = (double)f32;
    break;
  case COMPUTE_F16: f64 = (double)dtype_f16_to_f32(read_u16(element)); break;
  case COMPUTE_BF16: f64 = (double)dtype_bf16_to_f32(read_u16(element)); break;
  case COMPUTE_I64:
  case COMPUTE_I32:
  case COMPUTE_U8:
  case COMPUTE_U16:
  case COMPUTE_BOOL: f64 = (double)dtype_load_integer(dtype, element); break;
  case COMPUTE_DTYPE_NONE: break;
  }
  return f64;
}

void dtype_store_integer(compute_dtype dtype, void *element, int64_t value) {
  switch (dtype) {
  case COMPUTE_F64: memcpy(element, &(double){(double)value}, 8); break;
  case COMPUTE_F32: memcpy(element, &(float){(float)value}, 4); break;
  case COMPUTE_F16:
    memcpy(element, &(uint16_t){dtype_f32_to_f16(f32_from_integer_to_odd(value))}, 2);
    break;
  case COMPUTE_BF16:
    memcpy(element, &(uint16_t){dtype_f32_to_bf16(f32_from_integer_to_odd(value))}, 2);
    break;
  case COMPUTE_I64: memcpy(element, &value, 8); break;
  case COMPUTE_I32: memcpy(element, &(uint32_t){(uint32_t)value}, 4); break;
  case COMPUTE_U8: *(uint8_t *)element = (uint8_t)value; break;
  case COMPUTE_U16: memcpy(element, &(uint16_t){(uint16_t)value}, 2); break;
  case COMPUTE_BOOL: *(uint8_t *)element = value != 0; break;
  case COMPUTE_DTYPE_NONE: break;
  }
}

int64_t dtype_load_integer(compute_dtype dtype, const void *element) {
  int64_t i64 = 0;
  int32_t i32;
  switch (dtype) {
  case COMPUTE_I64: memcpy(&i64, element, 8); break;
  case COMPUTE_I32:
    memcpy(&i32, element, 4);
    i64 = i32;
    break;
  case COMPUTE_U8: i64 = *(const uint8_t *)element; break;
  case COMPUTE_U16: i64 = read_u16(element); break;
  case COMPUTE_BOOL: i64 = *(const uint8_t *)element != 0; break;
  case COMPUTE_F64:
  case COMPUTE_F32:
  case COMPUTE_F16:
  case COMPUTE_BF16: i64 = integer_of(dtype_load(dtype, element), INT64_MIN, INT64_MAX); break;
  case COMPUTE_DTYPE_NONE: break;
  }
  return i64;
}

/* ---- What a dtype holds -------------------------------------------------------------------- */

void dtype_limits(compute_dtype dtype, int64_t *low, int64_t *high) {
  *low = row_of(dtype)->low;
  *high = row_of(dtype)->high;
}

/* high + 1 is exact in double for every dtype, 2^63 included; 2^63 − 1 is not. */
bool dtype_holds(compute_dtype dtype, double value) {
  const dtype_row *row = row_of(dtype);
  unsigned char element[8];
  switch (row->class) {
  case CLASS_FLOAT:
    dtype_store(dtype, element, value);
    return !isfinite(value) || isfinite(dtype_load(dtype, element));
  case CLASS_INTEGER:
  case CLASS_BOOL:
    return value == trunc(value) && value >= (double)row->low && value < (double)row->high + 1;
  default: return false;
  }
}

bool dtype_holds_integer(compute_dtype dtype, int64_t value) {
  const dtype_row *row = row_of(dtype);
  unsigned char element[8];
  if (row->class != CLASS_FLOAT)
    return row->class != CLASS_NONE && value >= row->low && value <= row->high;
  dtype_store_integer(dtype, element, value);
  const double back = dtype_load(dtype, element);
  return back >= -0x1p63 && back < 0x1p63 && (int64_t)back == value;
}

char *dtype_refusal(compute_dtype dtype, double value, char *text, size_t bytes) {
  snprintf(text, bytes, "%.10g; %s holds %s", value, row_of(dtype)->name, row_of(dtype)->range);
  return text;
}

char *dtype_refusal_integer(compute_dtype dtype, int64_t value, char *text, size_t bytes) {
  const dtype_row *row = row_of(dtype);
  if (row->class == CLASS_FLOAT) {
    snprintf(text, bytes, "%" PRId64 ", which %s cannot hold exactly", value, row->name);
  } else {
    snprintf(text, bytes, "%" PRId64 "; %s holds %s", value, row->name, row->range);
  }
  return text;
}
