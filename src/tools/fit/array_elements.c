/* Every dtype goes through double: arrays that are read like this are small, or read once. */
#include "tools/fit/array_elements.h"

#include <math.h>
#include <string.h>

static float from_f16(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double size = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                : exponent == 0 ? ldexp(fraction, -24)
                                : ldexp(fraction + 1024, exponent - 25);
  return (float)(bits >> 15 ? -size : size);
}

double element_load(compute_dtype dtype, bool swapped, const unsigned char *at) {
  size_t size = compute_dtype_size(dtype);
  unsigned char bytes[8];
  for (size_t i = 0; i < size; i++) bytes[i] = at[swapped ? size - 1 - i : i];
  union {
    double f64;
    float f32;
    int64_t i64;
    int32_t i32;
    uint16_t u16;
  } value = {0};
  memcpy(&value, bytes, size);
  switch (dtype) {
  case COMPUTE_F64: return value.f64;
  case COMPUTE_F32: return (double)value.f32;
  case COMPUTE_F16: return (double)from_f16(value.u16);
  case COMPUTE_I64: return (double)value.i64;
  case COMPUTE_I32: return (double)value.i32;
  case COMPUTE_U16: return (double)value.u16;
  default: return (double)bytes[0];
  }
}

bool element_store(compute_dtype dtype, double value, void *values, int64_t index) {
  switch (dtype) {
  case COMPUTE_F64: ((double *)values)[index] = value; return true;
  case COMPUTE_F32: ((float *)values)[index] = (float)value; return true;
  case COMPUTE_I32:
    if (!(value >= INT32_MIN && value <= INT32_MAX && value == floor(value))) return false;
    ((int32_t *)values)[index] = (int32_t)value;
    return true;
  case COMPUTE_U8:
    if (!(value >= 0 && value <= UINT8_MAX && value == floor(value))) return false;
    ((uint8_t *)values)[index] = (uint8_t)value;
    return true;
  default: return false;
  }
}
