/* SPDX-License-Identifier: MIT */
/* The encoding of ONNX element types in a file. */
#ifndef MODEL_TYPES_H
#define MODEL_TYPES_H

#include "compute/dtype.h"

typedef enum element_form {
  ELEMENT_PLAIN, /* as in memory, except for the byte order */
  ELEMENT_BOOL,  /* any nonzero byte is true */
  ELEMENT_UNSIGNED,
  ELEMENT_SIGNED, /* packed bits, lowest first */
  ELEMENT_SMALL_FLOAT
} element_form;

/* A float of at most 8 bits: sign, exponent, fraction, and its encoding of infinity and NaN. */
typedef struct small_float {
  uint8_t exponent, fraction; /* widths in bits */
  int16_t bias;
  enum {
    ALL_FINITE,
    LAST_IS_NAN,             /* exponent and fraction all ones */
    LAST_IS_INFINITY_OR_NAN, /* as in IEEE 754 */
    MINUS_ZERO_IS_NAN,
    POWER_OF_TWO /* exponent only, no sign; all ones is NaN */
  } special;
} small_float;

typedef struct type_row {
  const char *name;
  compute_dtype dtype;
  uint8_t bits;  /* of an element in raw data; 0 if unsupported */
  uint8_t field; /* the TensorProto field that may contain the elements instead */
  element_form form;
  small_float small;
} type_row;

/* NULL for an unknown type. */
const type_row *type_find(int32_t type);

/* Decodes the bits of an element. */
float type_small_float(const type_row *row, unsigned bits);

#endif
