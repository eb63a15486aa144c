/* Decimal numbers in text, read alike in every locale. */
#ifndef IO_NUMBER_H
#define IO_NUMBER_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/dtype.h"

typedef enum number_result {
  NUMBER_OK,
  NUMBER_EMPTY,
  NUMBER_MALFORMED,
  NUMBER_NOT_WHOLE,   /* a fraction or an exponent where an integer is wanted */
  NUMBER_OUT_OF_RANGE /* of the dtype */
} number_result;

/* Reads all of text[0 … length−1], which text[length] = 0 must follow, as one element of a float or
 * integer dtype. Floats round once, to nearest (f16 and bf16 by way of f64); "inf" and "nan" are
 * floats. `c_locale` is the locale "C". */
number_result number_parse(const char *text, size_t length, compute_dtype dtype, locale_t c_locale,
                           void *element);

#endif
