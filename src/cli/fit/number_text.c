/* A number becomes an integer of its last digit's unit, and that two digits at a time. One rounding
 * to double lies between the number and the integer: the last digit may differ from printf's where
 * the number is within 10^-15 of the middle of two. */
#include "cli/fit/number_text.h"

#include <math.h>
#include <string.h>

#define LARGEST_EXACT 9007199254740992.0 /* 2^53 */

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                            "25262728293031323334353637383940414243444546474849"
                            "50515253545556575859606162636465666768697071727374"
                            "75767778798081828384858687888990919293949596979899";

/* The last `digits` digits of `value`, with zeros before. */
static void put_digits(char *text, uint32_t value, int digits) {
  for (; digits >= 2; digits -= 2) {
    memcpy(text + digits - 2, pairs + 2 * (value % 100), 2);
    value /= 100;
  }
  if (digits == 1) text[0] = (char)('0' + value % 10);
}

static char *put_small(char *text, uint32_t value) {
  int digits = 1;
  if (value >= 100000)
    digits =
        6 + (value >= 1000000) + (value >= 10000000) + (value >= 100000000) + (value >= 1000000000);
  else
    digits += (value >= 10) + (value >= 100) + (value >= 1000) + (value >= 10000);
  put_digits(text, value, digits);
  return text + digits;
}

static char *put_unsigned(char *text, uint64_t value) {
  if (value <= UINT32_MAX) return put_small(text, (uint32_t)value);
  text = put_unsigned(text, value / 1000000000);
  put_digits(text, (uint32_t)(value % 1000000000), 9);
  return text + 9;
}

/* number / 10^decimals, with constants for the compiler to turn into products. */
static uint64_t whole_part(uint64_t number, int decimals) {
  switch (decimals) {
  case 3: return number / 1000;
  case 4: return number / 10000;
  case 6: return number / 1000000;
  case 7: return number / 10000000;
  default: return number / (uint64_t)powers[decimals];
  }
}

static char *put_word(char *text, const char *word) {
  size_t length = strlen(word);
  memcpy(text, word, length);
  return text + length;
}

/* What is no number; NULL for what is one. */
static char *put_special(char *text, double value) {
  if (isnan(value)) return put_word(text, "NaN");
  if (isinf(value)) return put_word(text, value < 0 ? "-Infinity" : "Infinity");
  return NULL;
}

char *number_integer(char *text, int64_t value) {
  if (value < 0) *text++ = '-';
  return put_unsigned(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* d.ddde±xx, for a finite value that is not 0. */
static char *put_scientific(char *text, double value, int digits) {
  if (value < 0) *text++ = '-';
  long double size = fabsl((long double)value);
  int exponent = (int)floorl(log10l(size));
  long double shifted = size * powl(10.0L, digits - 1 - exponent);
  uint64_t number = (uint64_t)llrintl(shifted);
  if (number >= (uint64_t)powers[digits]) { /* 9.9999999 */
    number /= 10;
    exponent++;
  } else if (number < (uint64_t)powers[digits - 1]) { /* the logarithm was rounded up */
    number = (uint64_t)llrintl(shifted * 10);
    exponent--;
  }
  put_digits(text + 1, (uint32_t)number, digits); /* 9 digits at most */
  text[0] = text[1];
  text[1] = '.';
  text += digits + 1;
  *text++ = 'e';
  return number_integer(text, exponent);
}

char *number_fixed(char *text, double value, int decimals) {
  double shifted = fabs(value) * powers[decimals];
  if (!(shifted < LARGEST_EXACT)) {
    char *end = put_special(text, value);
    return end ? end : put_scientific(text, value, 9);
  }
  uint64_t number = (uint64_t)llrint(shifted), whole = whole_part(number, decimals);
  if (value < 0 && number > 0) *text++ = '-';
  text = put_unsigned(text, whole);
  if (decimals == 0) return text;
  *text++ = '.';
  uint64_t part = number - whole * (uint64_t)powers[decimals];
  if (decimals > 9) {
    put_digits(text, (uint32_t)(part / 1000000000), decimals - 9);
    text += decimals - 9;
    part %= 1000000000;
    decimals = 9;
  }
  put_digits(text, (uint32_t)part, decimals);
  return text + decimals;
}

char *number_short(char *text, double value) {
  double size = fabs(value);
  if (size == 0) return put_word(text, "0");
  if (!(size >= 1e-4 && size < 1e7)) {
    char *end = put_special(text, value);
    return end ? end : put_scientific(text, value, 7);
  }
  int decimals = 6;
  for (double limit = 10; size >= limit; limit *= 10) decimals--;
  for (double limit = 1; size < limit; limit /= 10) decimals++; /* inexact limits do no harm */
  return number_fixed(text, value, decimals);
}
