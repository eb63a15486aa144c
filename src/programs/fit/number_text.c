/* SPDX-License-Identifier: MIT */
/* A number becomes an integer in units of its last digit. Eight digits at a time are then separated
 * by parallel divisions in one 64-bit word, whose bytes become the text. */
#include "programs/fit/number_text.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define TWO_TO_52 4503599627370496.0
#define TWO_TO_53 9007199254740992.0
#define TEN_TO_8  100000000u

static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10};

static const uint64_t whole_powers[] = {
    1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000};

/* ---- Digits -------------------------------------------------------------------------------- */

/* The eight digits of value < 10^8, one per byte, the first in the lowest byte. The quotients are
 * exact for numbers this small, and each product fits in its part of the word. */
static inline uint64_t eight_digits(uint64_t value) {
  const uint64_t fours = value / 10000 | value % 10000 << 32;
  const uint64_t hundreds = fours * 10486 >> 20 & 0x0000007f0000007f;
  const uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
  const uint64_t tens = twos * 103 >> 10 & 0x000f000f000f000f;
  return tens | (twos - 10 * tens) << 8;
}

/* Writes the word's digits from the lowest byte on. */
static inline void store_digits(char *text, uint64_t digits) {
  uint64_t word = digits | 0x3030303030303030;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  memcpy(text, &word, sizeof word);
}

/* The number of leading zeros, not counting the last `kept` (1 … 8) digits. */
static inline int leading_zeros(uint64_t digits, int kept) {
  return __builtin_ctzll(digits | UINT64_C(1) << 8 * (8 - kept)) / 8;
}

/* Writes the digits without leading zeros. */
static inline char *put_digits(char *text, uint64_t digits) {
  const int zeros = leading_zeros(digits, 1);
  store_digits(text, digits >> 8 * zeros);
  return text + 8 - zeros;
}

/* Writes all but the first `zeros` digits, the last `decimals` (1 … 7) after a point. */
static inline char *put_point(char *text, uint64_t digits, int zeros, int decimals) {
  const int whole = 8 - zeros - decimals;
  store_digits(text, digits >> 8 * zeros);
  text[whole] = '.';
  store_digits(text + whole + 1, digits >> 8 * (8 - decimals));
  return text + whole + 1 + decimals;
}

/* The last `count` digits of `value`, with leading zeros. */
static char *put_padded(char *text, uint64_t value, int count) {
  for (; count > 8; count--, text++) *text = (char)('0' + value / whole_powers[count - 1] % 10);
  store_digits(text, eight_digits(value % TEN_TO_8) >> 8 * (8 - count));
  return text + count;
}

static char *put_unsigned(char *text, uint64_t value) {
  if (value < TEN_TO_8) return put_digits(text, eight_digits(value));
  text = put_unsigned(text, value / TEN_TO_8);
  store_digits(text, eight_digits(value % TEN_TO_8));
  return text + 8;
}

char *number_integer(char *text, int64_t value) {
  if (value < 0) *text++ = '-';
  return put_unsigned(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* ---- Large and small numbers --------------------------------------------------------------- */

static char *put_word(char *text, const char *word) {
  const size_t length = strlen(word);
  memcpy(text, word, length);
  return text + length;
}

static long double ten_to(int exponent) {
  static const long double squares[] = {1e1L,  1e2L,  1e4L,   1e8L,  1e16L,
                                        1e32L, 1e64L, 1e128L, 1e256L};
  long double power = 1;
  for (int i = 0; exponent > 0; i++, exponent >>= 1)
    if (exponent & 1) power *= squares[i];
  return power;
}

/* Writes size > 0 as number · 10^(exponent − digits + 1) with number < 10^digits. The computation
 * rounds a dozen times; false if the nearest number is therefore in doubt. */
static bool scale(double size, int digits, uint64_t *number, int *exponent) {
  int binary;
  (void)frexp(size, &binary);
  *exponent = (int)floor((binary - 1) * 0.30102999566398120); /* may be one too small */
  const int shift = digits - 1 - *exponent;
  long double scaled = shift < 0 ? (long double)size / ten_to(-shift) : size * ten_to(shift);
  if (scaled >= (long double)powers[digits]) {
    scaled /= 10;
    ++*exponent;
  }
  if (!(scaled <= (long double)powers[digits])) return false; /* 10^shift is infinite here */
  *number = (uint64_t)scaled;
  const long double rest = scaled - (long double)*number - 0.5L;
  *number += rest > 0;
  return fabsl(rest) > 16 * LDBL_EPSILON * scaled;
}

/* The same with the C library, which is exact. */
static void scale_exactly(double size, int digits, uint64_t *number, int *exponent) {
  char text[64];
  snprintf(text, sizeof text, "%.*e", digits - 1, size);
  const char *end = strchr(text, 'e'); /* the decimal point depends on the locale */
  *number = (uint64_t)(text[0] - '0');
  for (const char *c = end - (digits - 1); c < end; c++)
    *number = 10 * *number + (uint64_t)(*c - '0');
  *exponent = 0;
  for (const char *c = end + 2; *c; c++) *exponent = 10 * *exponent + (*c - '0');
  if (end[1] == '-') *exponent = -*exponent;
}

/* Writes d.ddde±xx with up to 9 digits, or "NaN" or "Infinity". */
static char *put_scientific(char *text, double value, int digits) {
  if (isnan(value)) return put_word(text, "NaN");
  if (value < 0) *text++ = '-';
  if (isinf(value)) return put_word(text, "Infinity");
  uint64_t number;
  int exponent;
  if (!scale(fabs(value), digits, &number, &exponent))
    scale_exactly(fabs(value), digits, &number, &exponent);
  if (number >= whole_powers[digits]) { /* 9.9999999 */
    number /= 10;
    exponent++;
  }
  put_padded(text + 1, number, digits);
  text[0] = text[1];
  text[1] = '.';
  text += digits + 1;
  *text++ = 'e';
  return number_integer(text, exponent);
}

/* ---- Fixed numbers ------------------------------------------------------------------------- */

/* Rounds size · 10^decimals to nearest. `scaled` is that product as a double, below 2^53. */
static inline uint64_t round_scaled(double size, int decimals, double scaled) {
  if (scaled >= TWO_TO_52) return (uint64_t)scaled;
  const double nearest = scaled + TWO_TO_52 - TWO_TO_52, rest = scaled - nearest;
  const uint64_t number = (uint64_t)(int64_t)nearest;
  if (fabs(rest) != 0.5) return number;
  /* A tie: the rounding error of the product decides. */
  const double lost = fma(size, powers[decimals], -scaled);
  return rest > 0 ? number + (lost > 0) : number - (lost < 0);
}

static inline char *put_fixed(char *text, double value, int decimals) {
  const double size = fabs(value), scaled = size * powers[decimals];
  if (!(scaled < TWO_TO_53)) return put_scientific(text, value, 9);
  const uint64_t number = round_scaled(size, decimals, scaled);
  if (value < 0 && number > 0) *text++ = '-';
  if (decimals < 1 || decimals > 7) {
    const uint64_t whole = number / whole_powers[decimals];
    text = put_unsigned(text, whole);
    if (decimals == 0) return text;
    *text++ = '.';
    return put_padded(text, number - whole * whole_powers[decimals], decimals);
  }
  const uint64_t digits = eight_digits(number % TEN_TO_8);
  if (number < TEN_TO_8)
    return put_point(text, digits, leading_zeros(digits, decimals + 1), decimals);
  text = put_digits(text, eight_digits(number / TEN_TO_8));
  return put_point(text, digits, 0, decimals);
}

char *number_fixed(char *text, double value, int decimals) {
  return put_fixed(text, value, decimals);
}

/* The number of digits after the point for 7 significant digits. */
static inline int short_decimals(double size) {
  if (size < 1) return 7 + (size < 1e-1) + (size < 1e-2) + (size < 1e-3);
  return 6 - (size >= 1e1) - (size >= 1e2) - (size >= 1e3) - (size >= 1e4) - (size >= 1e5) -
         (size >= 1e6);
}

char *number_short(char *text, double value) {
  const double size = fabs(value);
  if (size == 0) return put_word(text, "0");
  if (!(size >= 1e-4 && size < 1e7)) return put_scientific(text, value, 7);
  return number_fixed(text, value, short_decimals(size));
}

/* ---- Columns ------------------------------------------------------------------------------- */

/* Each step processes all numbers in a loop that the compiler vectorises. The functions above
 * handle the remaining numbers. */

/* Marks a number that is at least 10^8 or whose rounding is in doubt. */
#define NOT_PLAIN UINT32_MAX

/* round_scaled for the clear cases. */
static void round_all(const double *values, const double *scales, uint32_t *numbers) {
  for (int i = 0; i < NUMBER_CELLS; i++) {
    const double scaled = fabs(values[i]) * scales[i];
    const union {
      double value;
      uint64_t bits;
    } raised = {scaled + TWO_TO_52};
    const double rest = fabs(scaled - (raised.value - TWO_TO_52));
    const bool plain = (scaled < TEN_TO_8 - 1) & (rest < 0.5);
    numbers[i] = plain ? (uint32_t)raised.bits : NOT_PLAIN;
  }
}

/* The digits of numbers < 10^8, eight bytes each. */
static void digits_of_all(const uint32_t *numbers, uint8_t *digits) {
  uint16_t fours[2 * NUMBER_CELLS], twos[4 * NUMBER_CELLS];
  for (int i = 0; i < NUMBER_CELLS; i++) {
    const uint32_t high = numbers[i] / 10000;
    fours[2 * i] = (uint16_t)high;
    fours[2 * i + 1] = (uint16_t)(numbers[i] - 10000 * high);
  }
  for (int i = 0; i < 2 * NUMBER_CELLS; i++) {
    const uint16_t high = fours[i] / 100;
    twos[2 * i] = high;
    twos[2 * i + 1] = (uint16_t)(fours[i] - 100 * high);
  }
  for (int i = 0; i < 4 * NUMBER_CELLS; i++) {
    const uint8_t high = (uint8_t)(twos[i] * 205 >> 11);
    digits[2 * i] = high;
    digits[2 * i + 1] = (uint8_t)(twos[i] - 10 * high);
  }
}

static inline uint64_t load_digits(const uint8_t *digits) {
  uint64_t word;
  memcpy(&word, digits, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

static void integer_cells(const double *values, int32_t count, number_cell *cells) {
  uint32_t numbers[NUMBER_CELLS];
  uint8_t digits[8 * NUMBER_CELLS];
  for (int i = 0; i < NUMBER_CELLS; i++) {
    const bool plain = values[i] >= 0 && values[i] < TEN_TO_8;
    numbers[i] = plain ? (uint32_t)(int32_t)values[i] : NOT_PLAIN;
  }
  digits_of_all(numbers, digits);
  for (int32_t i = 0; i < count; i++) {
    char *const text = cells[i].text;
    const char *const end = numbers[i] == NOT_PLAIN ? number_integer(text, (int64_t)values[i])
                                                    : put_digits(text, load_digits(digits + 8 * i));
    cells[i].length = (uint8_t)(end - text);
  }
}

/* All numbers have the same decimals. If `each` is not NULL, number i has each[i] decimals, as in
 * number_short. */
static inline void fixed_cells(const double *values, int decimals, const uint8_t *each,
                               int32_t count, number_cell *cells) {
  uint32_t numbers[NUMBER_CELLS];
  uint8_t digits[8 * NUMBER_CELLS];
  double scales[NUMBER_CELLS];
  for (int i = 0; i < NUMBER_CELLS; i++) scales[i] = powers[each ? each[i] : decimals];
  round_all(values, scales, numbers);
  digits_of_all(numbers, digits);
  for (int32_t i = 0; i < count; i++) {
    const int own = each ? each[i] : decimals;
    char *text = cells[i].text;
    if (numbers[i] == NOT_PLAIN || own < 1 || own > 7) {
      text = each ? number_short(text, values[i]) : put_fixed(text, values[i], decimals);
    } else {
      const uint64_t word = load_digits(digits + 8 * i);
      *text = '-';
      text += (values[i] < 0) & (numbers[i] > 0);
      text = put_point(text, word, leading_zeros(word, own + 1), own);
    }
    cells[i].length = (uint8_t)(text - cells[i].text);
  }
}

static void short_cells(const double *values, int32_t count, number_cell *cells) {
  uint8_t decimals[NUMBER_CELLS];
  for (int i = 0; i < NUMBER_CELLS; i++) decimals[i] = (uint8_t)short_decimals(fabs(values[i]));
  fixed_cells(values, 0, decimals, count, cells);
}

void number_cells(const double *values, int32_t count, int decimals, number_cell *cells) {
  double all[NUMBER_CELLS] = {0};
  memcpy(all, values, (size_t)count * sizeof *all);
  switch (decimals) { /* the compiler specialises the loop for the values used in tables */
  case NUMBER_INTEGER: integer_cells(all, count, cells); break;
  case NUMBER_SHORT: short_cells(all, count, cells); break;
  case 3: fixed_cells(all, 3, NULL, count, cells); break;
  case 4: fixed_cells(all, 4, NULL, count, cells); break;
  case 6: fixed_cells(all, 6, NULL, count, cells); break;
  default: fixed_cells(all, decimals, NULL, count, cells); break;
  }
}
