/* SPDX-License-Identifier: MIT */
/* Element types: sizes, names, and conversions of single elements.
 *
 * Half-width floats are converted by integer arithmetic, so that every machine rounds identically
 * and needs no special instructions. A double is converted to f16 or bf16 through an f32 rounded to
 * odd. Two ordinary roundings in a row would break some ties the wrong way (Boldo and Melquiond,
 * "When double rounding is odd", 2005). */
#include "core/base/float_environment.h"
#include "core/type/dtype.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum dtype_kind {
  KIND_NONE = 0,
  KIND_FLOAT,
  KIND_SIGNED,
  KIND_UNSIGNED,
  KIND_LOGIC,
} dtype_kind;

typedef struct dtype_row {
  const char *name;
  uint8_t size;
  uint8_t kind;
  compute_dtype compute_type;
} dtype_row;

#define ROW(code, number, name, kind, bytes, type, element)                                        \
  [number] = {#name, bytes, KIND_##kind, COMPUTE_##type},
static const dtype_row dtype_table[COMPUTE_DTYPE_COUNT] = {
    [COMPUTE_DTYPE_NONE] = {"invalid", 0, KIND_NONE, COMPUTE_DTYPE_NONE}, COMPUTE_DTYPES(ROW)};

/* Callers may pass any integer as a compute_dtype. Invalid values get the row of NONE. */
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
  return row_of(dtype)->kind != KIND_NONE;
}

bool dtype_is_float(compute_dtype dtype) {
  return row_of(dtype)->kind == KIND_FLOAT;
}

bool dtype_is_half(compute_dtype dtype) {
  return dtype_is_float(dtype) && row_of(dtype)->size == 2;
}

bool dtype_is_integer(compute_dtype dtype) {
  return row_of(dtype)->kind == KIND_SIGNED || row_of(dtype)->kind == KIND_UNSIGNED;
}

compute_dtype dtype_compute_type(compute_dtype dtype) {
  return row_of(dtype)->compute_type;
}

bool dtype_is_narrow(compute_dtype dtype) {
  return dtype_is_integer(dtype) && row_of(dtype)->size < row_of(dtype_compute_type(dtype))->size;
}

bool dtype_casts_in_store(compute_dtype from, compute_dtype to) {
  return dtype_is_narrow(to) || (to == COMPUTE_U64 && dtype_is_float(from));
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
    result = 0x7e00 | ((magnitude >> 13) & 0x3ff); /* a quiet NaN with the payload bits that fit */
  } else if (magnitude >= 0x477ff000) {
    result = 0x7c00; /* 65520 and above, including infinity */
  } else if (magnitude >= 0x38800000) {
    uint32_t rebased = magnitude - 0x38000000; /* replaces the exponent's bias by f16's */
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

/* Rounds a number to odd. `nearest` is the nearest f32 and differs from the number. */
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

/* The range of an integer dtype is low … 2^bits - 1; bool is an integer of one bit. */
static int bits_of_value(const dtype_row *row) {
  if (row->kind == KIND_LOGIC) return 1;
  return 8 * row->size - (row->kind == KIND_SIGNED);
}

static double low_of(const dtype_row *row) {
  return row->kind == KIND_SIGNED ? -ldexp(1, bits_of_value(row)) : 0;
}

static double end_of(const dtype_row *row) {
  return ldexp(1, bits_of_value(row));
}

static void write_bits(void *element, size_t size, uint64_t bits) {
  switch (size) {
  case 1: memcpy(element, &(uint8_t){(uint8_t)bits}, 1); break;
  case 2: memcpy(element, &(uint16_t){(uint16_t)bits}, 2); break;
  case 4: memcpy(element, &(uint32_t){(uint32_t)bits}, 4); break;
  case 8: memcpy(element, &bits, 8); break;
  }
}

static uint64_t read_bits(const void *element, size_t size) {
  uint8_t u8 = 0;
  uint16_t u16 = 0;
  uint32_t u32 = 0;
  uint64_t u64 = 0;
  switch (size) {
  case 1: memcpy(&u8, element, 1); return u8;
  case 2: memcpy(&u16, element, 2); return u16;
  case 4: memcpy(&u32, element, 4); return u32;
  case 8: memcpy(&u64, element, 8); break;
  }
  return u64;
}

/* Rounds toward zero and saturates; NaN becomes 0. The bounds are exact in double, while the
 * largest values may not be. */
static uint64_t integer_of(const dtype_row *row, double value) {
  if (isnan(value)) return 0;
  if (value >= end_of(row)) return UINT64_MAX >> (64 - bits_of_value(row));
  if (value <= low_of(row)) value = low_of(row);
  return value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
}

/* `single` is the value as f32. For a conversion to 16 bits it is rounded to odd. */
static void store_float(compute_dtype dtype, void *element, double value, float single) {
  switch (dtype) {
  case COMPUTE_F64: memcpy(element, &value, 8); break;
  case COMPUTE_F32: memcpy(element, &single, 4); break;
  case COMPUTE_F16: write_bits(element, 2, dtype_f32_to_f16(single)); break;
  default: write_bits(element, 2, dtype_f32_to_bf16(single));
  }
}

void dtype_store(compute_dtype dtype, void *element, double value) {
  const dtype_row *row = row_of(dtype);
  if (row->kind == KIND_FLOAT) {
    store_float(dtype, element, value,
                dtype_is_half(dtype) ? f32_from_double_to_odd(value) : (float)value);
  } else if (row->kind != KIND_NONE) {
    write_bits(element, row->size, row->kind == KIND_LOGIC ? value != 0.0 : integer_of(row, value));
  }
}

double dtype_load(compute_dtype dtype, const void *element) {
  const dtype_row *row = row_of(dtype);
  const uint64_t bits = read_bits(element, row->size);
  double f64;
  switch (dtype) {
  case COMPUTE_F64: memcpy(&f64, &bits, 8); return f64;
  case COMPUTE_F32: return (double)float_of((uint32_t)bits);
  case COMPUTE_F16: return (double)dtype_f16_to_f32((uint16_t)bits);
  case COMPUTE_BF16: return (double)dtype_bf16_to_f32((uint16_t)bits);
  default:
    return row->kind == KIND_UNSIGNED ? (double)bits : (double)dtype_load_integer(dtype, element);
  }
}

void dtype_store_integer(compute_dtype dtype, void *element, int64_t value) {
  FLOAT_ENVIRONMENT_DEFAULT;
  const dtype_row *row = row_of(dtype);
  if (row->kind == KIND_FLOAT) {
    store_float(dtype, element, (double)value,
                dtype_is_half(dtype) ? f32_from_integer_to_odd(value) : (float)value);
  } else {
    write_bits(element, row->size, row->kind == KIND_LOGIC ? value != 0 : (uint64_t)value);
  }
}

int64_t dtype_load_integer(compute_dtype dtype, const void *element) {
  const dtype_row *row = row_of(dtype);
  if (row->kind == KIND_FLOAT)
    return (int64_t)integer_of(row_of(COMPUTE_I64), dtype_load(dtype, element));
  const uint64_t bits = read_bits(element, row->size);
  if (row->kind == KIND_LOGIC) return bits != 0;
  if (row->kind != KIND_SIGNED) return (int64_t)bits;
  const uint64_t sign = UINT64_C(1) << bits_of_value(row);
  return (int64_t)((bits ^ sign) - sign);
}

/* ---- The range of a dtype ------------------------------------------------------------------ */

void dtype_limits(compute_dtype dtype, int64_t *low, uint64_t *high) {
  const dtype_row *row = row_of(dtype);
  *high = integer_of(row, end_of(row));
  *low = (int64_t)integer_of(row, low_of(row));
}

bool dtype_holds(compute_dtype dtype, double value) {
  FLOAT_ENVIRONMENT_DEFAULT;
  const dtype_row *row = row_of(dtype);
  unsigned char element[8];
  if (row->kind == KIND_NONE) return false;
  if (row->kind != KIND_FLOAT)
    return value == trunc(value) && value >= low_of(row) && value < end_of(row);
  dtype_store(dtype, element, value);
  return !isfinite(value) || isfinite(dtype_load(dtype, element));
}

bool dtype_holds_integer(compute_dtype dtype, int64_t value) {
  const dtype_row *row = row_of(dtype);
  unsigned char element[8];
  int64_t low;
  uint64_t high;
  if (row->kind == KIND_NONE) return false;
  if (row->kind != KIND_FLOAT) {
    dtype_limits(dtype, &low, &high);
    return value >= low && (value < 0 || (uint64_t)value <= high);
  }
  dtype_store_integer(dtype, element, value);
  const double back = dtype_load(dtype, element);
  return back >= -0x1p63 && back < 0x1p63 && (int64_t)back == value;
}

double dtype_largest(compute_dtype dtype) {
  switch (dtype) {
  case COMPUTE_F16: return 65504;
  case COMPUTE_BF16: return 0x1.fep127;
  case COMPUTE_F32: return (double)FLT_MAX;
  default: return DBL_MAX;
  }
}

/* Prints the range of the dtype's values. */
static void print_range(compute_dtype dtype, char *text, size_t bytes) {
  const dtype_row *row = row_of(dtype);
  const int bits = bits_of_value(row);
  const bool is_signed = row->kind == KIND_SIGNED;
  switch ((dtype_kind)row->kind) {
  case KIND_NONE: snprintf(text, bytes, "nothing"); break;
  case KIND_LOGIC: snprintf(text, bytes, "0 and 1"); break;
  case KIND_FLOAT: snprintf(text, bytes, "numbers up to %g", dtype_largest(dtype)); break;
  case KIND_SIGNED:
  case KIND_UNSIGNED:
    if (bits <= 16)
      snprintf(text, bytes, "whole numbers from %.0f to %.0f", low_of(row), end_of(row) - 1);
    else if (is_signed)
      snprintf(text, bytes, "whole numbers from -2^%d to 2^%d - 1", bits, bits);
    else
      snprintf(text, bytes, "whole numbers from 0 to 2^%d - 1", bits);
  }
}

char *dtype_refusal(compute_dtype dtype, double value, char *text, size_t bytes) {
  FLOAT_ENVIRONMENT_DEFAULT;
  char range[DTYPE_REFUSAL];
  print_range(dtype, range, sizeof range);
  snprintf(text, bytes, "%.10g; %s holds %s", value, compute_dtype_name(dtype), range);
  return text;
}

char *dtype_refusal_integer(compute_dtype dtype, int64_t value, char *text, size_t bytes) {
  char range[DTYPE_REFUSAL];
  print_range(dtype, range, sizeof range);
  if (dtype_is_float(dtype)) {
    snprintf(text, bytes, "%" PRId64 ", which %s cannot hold exactly", value,
             compute_dtype_name(dtype));
  } else {
    snprintf(text, bytes, "%" PRId64 "; %s holds %s", value, compute_dtype_name(dtype), range);
  }
  return text;
}
