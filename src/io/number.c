/* Decimal numbers in text.
 *
 * Most fields of a table are short. Where digits and power of ten are both exact in the target
 * type, one division or multiplication rounds once and gives the nearest number (Clinger, "How to
 * read floating point numbers accurately", 1990); all others go to the C library. Integers never
 * pass through a float. */
#include "io/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "type/dtype.h"

/* A number taken apart: ± digits · 10^exponent. */
typedef struct decimal {
  bool negative;
  bool whole; /* neither point nor exponent */
  bool fits;  /* the digits are exact in `digits` */
  uint64_t digits;
  int32_t exponent; /* meaningful only if it is small */
} decimal;

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static void append_digit(decimal *number, char c) {
  uint64_t digit = (uint64_t)(c - '0');
  if (number->digits > (UINT64_MAX - digit) / 10) {
    number->fits = false;
  } else {
    number->digits = number->digits * 10 + digit;
  }
}

/* The exponent after an 'e'. Returns past it, or NULL. */
static const char *scan_exponent(const char *at, const char *end, decimal *number) {
  bool negative = at < end && *at == '-';
  if (at < end && (*at == '-' || *at == '+')) at++;
  if (at == end || !is_digit(*at)) return NULL;
  int32_t value = 0;
  for (; at < end && is_digit(*at); at++) {
    if (value < 100000) value = value * 10 + (*at - '0');
  }
  number->exponent += negative ? -value : value;
  return at;
}

/* Digits with at most one point, and at least one digit; then perhaps an exponent. */
static bool scan(const char *text, size_t length, decimal *number) {
  const char *at = text, *end = text + length;
  *number = (decimal){.whole = true, .fits = true};
  number->negative = at < end && *at == '-';
  if (at < end && (*at == '-' || *at == '+')) at++;
  bool any_digit = false;
  for (; at < end && (is_digit(*at) || (*at == '.' && number->whole)); at++) {
    if (*at == '.') {
      number->whole = false;
      continue;
    }
    any_digit = true;
    append_digit(number, *at);
    if (!number->whole) number->exponent--;
  }
  if (!any_digit) return false;
  if (at < end && (*at == 'e' || *at == 'E')) {
    number->whole = false;
    at = scan_exponent(at + 1, end, number);
  }
  return at == end;
}

static const double power_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                      1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                      1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Whether digits ≤ `most` and |exponent| ≤ `largest` make the one operation exact but for its
 * rounding: 2^53 and 22 in f64, 2^24 and 10 in f32. */
static bool is_simple(const decimal *number, uint64_t most, int32_t largest) {
  return number->fits && number->digits <= most && number->exponent >= -largest &&
         number->exponent <= largest;
}

static double read_f64(const char *text, const decimal *number, locale_t c_locale) {
  if (!is_simple(number, UINT64_C(1) << 53, 22)) return strtod_l(text, NULL, c_locale);
  double value = (double)number->digits;
  if (number->exponent < 0) {
    value /= power_of_ten[-number->exponent];
  } else {
    value *= power_of_ten[number->exponent];
  }
  return number->negative ? -value : value;
}

static float read_f32(const char *text, const decimal *number, locale_t c_locale) {
  if (!is_simple(number, UINT64_C(1) << 24, 10)) return strtof_l(text, NULL, c_locale);
  float value = (float)number->digits;
  if (number->exponent < 0) {
    value /= (float)power_of_ten[-number->exponent];
  } else {
    value *= (float)power_of_ten[number->exponent];
  }
  return number->negative ? -value : value;
}

static number_result parse_float(const char *text, const decimal *number, compute_dtype dtype,
                                 locale_t c_locale, void *element) {
  if (dtype == COMPUTE_F32) {
    float value = read_f32(text, number, c_locale);
    memcpy(element, &value, sizeof value);
  } else {
    dtype_store(dtype, element, read_f64(text, number, c_locale));
  }
  return isinf(dtype_load(dtype, element)) ? NUMBER_OUT_OF_RANGE : NUMBER_OK;
}

static number_result parse_integer(const decimal *number, compute_dtype dtype, void *element) {
  const bool is_signed = dtype == COMPUTE_I64 || dtype == COMPUTE_I32;
  uint64_t most = dtype == COMPUTE_I64   ? INT64_MAX
                  : dtype == COMPUTE_I32 ? INT32_MAX
                  : dtype == COMPUTE_U16 ? UINT16_MAX
                                         : UINT8_MAX;
  if (!number->whole) return NUMBER_NOT_WHOLE;
  if (number->negative) most = is_signed ? most + 1 : 0;
  if (!number->fits || number->digits > most) return NUMBER_OUT_OF_RANGE;
  /* Negated as unsigned, so that the smallest i64 is no special case. */
  int64_t value = (int64_t)(number->negative ? 0 - number->digits : number->digits);
  dtype_store_integer(dtype, element, value);
  return NUMBER_OK;
}

/* "inf", "infinity" and "nan" in any case, signed or not. */
static bool parse_word(const char *text, size_t length, double *value) {
  bool negative = length > 0 && text[0] == '-';
  if (length > 0 && (text[0] == '-' || text[0] == '+')) {
    text++;
    length--;
  }
  if (strlen(text) != length) return false; /* a zero byte inside */
  if (!strcasecmp(text, "inf") || !strcasecmp(text, "infinity")) {
    *value = negative ? -INFINITY : INFINITY;
    return true;
  }
  if (strcasecmp(text, "nan")) return false;
  *value = NAN;
  return true;
}

number_result number_parse(const char *text, size_t length, compute_dtype dtype, locale_t c_locale,
                           void *element) {
  decimal number;
  double word;
  if (length == 0) return NUMBER_EMPTY;
  if (scan(text, length, &number)) {
    return dtype_is_float(dtype) ? parse_float(text, &number, dtype, c_locale, element)
                                 : parse_integer(&number, dtype, element);
  }
  if (!parse_word(text, length, &word)) return NUMBER_MALFORMED;
  if (!dtype_is_float(dtype)) return NUMBER_NOT_WHOLE;
  dtype_store(dtype, element, word);
  return NUMBER_OK;
}
