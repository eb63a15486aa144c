/* SPDX-License-Identifier: MIT */
/* How elements of ONNX's types lie in a file. */
#ifndef MODEL_TYPES_H
#define MODEL_TYPES_H

#include "compute/dtype.h"

typedef enum element_form {
  ELEMENT_PLAIN, /* as in memory, but for the order of bytes */
  ELEMENT_BOOL,  /* any byte but 0 is true */
  ELEMENT_UNSIGNED,
  ELEMENT_SIGNED, /* bits, the first element in the lowest */
  ELEMENT_SMALL_FLOAT
} element_form;

/* A float of at most 8 bits: sign, exponent, fraction; and what is not finite. */
typedef struct small_float {
  uint8_t exponent, fraction; /* bits */
  int16_t bias;
  enum {
    ALL_FINITE,
    LAST_IS_NAN,             /* exponent and fraction all ones */
    LAST_IS_INFINITY_OR_NAN, /* IEEE 754's way */
    MINUS_ZERO_IS_NAN,
    POWER_OF_TWO /* an exponent alone, without a sign; all ones is NaN */
  } special;
} small_float;

typedef struct type_row {
  const char *name;
  compute_dtype dtype;
  uint8_t bits;  /* of an element in raw data; 0 if its elements are not read */
  uint8_t field; /* the field of TensorProto that may have the elements instead */
  element_form form;
  small_float small;
} type_row;

/* NULL for what is no type. */
const type_row *type_find(int32_t type);

/* The number that the bits of an element stand for. */
float type_small_float(const type_row *row, unsigned bits);

#endif
