/* SPDX-License-Identifier: MIT */
/* Real numbers as text; see real.h. */
#include "core/base/real.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { FRACTION_BITS = 52, FRACTION_DIGITS = FRACTION_BITS / 4, EXPONENT_BIAS = 1023 };

char *real_hex(double value, char text[REAL_TEXT_BYTES]) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  uint64_t fraction = bits & ((UINT64_C(1) << FRACTION_BITS) - 1);
  const int field = (int)(bits >> FRACTION_BITS & 2047);
  const int exponent = fraction == 0 && field == 0 ? 0
                       : field == 0                ? 1 - EXPONENT_BIAS /* denormal */
                                                   : field - EXPONENT_BIAS;
  char digits[FRACTION_DIGITS + 1];
  int count = 0;
  for (; fraction != 0; fraction = fraction << 4 & ((UINT64_C(1) << FRACTION_BITS) - 1))
    digits[count++] = "0123456789abcdef"[fraction >> (FRACTION_BITS - 4)];
  digits[count] = '\0';
  snprintf(text, REAL_TEXT_BYTES, "%s0x%d%s%sp%+d", bits >> 63 ? "-" : "", field != 0,
           count > 0 ? "." : "", digits, exponent);
  return text;
}

/* Only the decimal point depends on the locale. It may have several bytes. */
static char *with_point(const char *number, char *text) {
  size_t length = 0;
  for (const char *c = number; *c; c++) {
    if (ascii_is_alphanumeric(*c) || *c == '+' || *c == '-')
      text[length++] = *c;
    else if (length == 0 || text[length - 1] != '.')
      text[length++] = '.';
  }
  text[length] = '\0';
  return text;
}

char *real_decimal(double value, int digits, char text[REAL_TEXT_BYTES]) {
  char number[REAL_TEXT_BYTES];
  snprintf(number, sizeof number, "%.*g", digits, value);
  return with_point(number, text);
}

char *real_fixed(double value, int decimals, char text[REAL_TEXT_BYTES]) {
  char number[REAL_TEXT_BYTES];
  snprintf(number, sizeof number, "%.*f", decimals, value);
  return with_point(number, text);
}
