/* SPDX-License-Identifier: MIT */
/* Numbers as text, much faster than printf and independent of the locale: tables have millions of
 * lines. The text is the decimal nearest to the double's exact value, ties to even, as in
 * printf. */
#ifndef TOOLS_FIT_NUMBER_TEXT_H
#define TOOLS_FIT_NUMBER_TEXT_H

#include <stdint.h>

#define NUMBER_TEXT_MOST 20 /* length of the longest number */
#define NUMBER_TEXT_BYTES                                                                          \
  32 /* buffer size that each function needs: bytes after the number are undefined */

/* Each function writes to `text` without a terminating zero, and returns the end. */

char *number_integer(char *text, int64_t value);

/* `decimals` (0 … 9) digits after the point, and never "-0.0". A value of at least 2^53 units of
 * the last digit has 9 significant digits and an exponent instead. "NaN", "Infinity",
 * "-Infinity". */
char *number_fixed(char *text, double value, int decimals);

/* 7 significant digits, and an exponent if the value is below 1e-4 or at least 1e7. */
char *number_short(char *text, double value);

/* ---- Many at once -------------------------------------------------------------------------- */

typedef struct number_cell {
  char text[NUMBER_TEXT_BYTES - 1];
  uint8_t length;
} number_cell;

#define NUMBER_CELLS 32 /* numbers per call: all columns of that many rows fit in a cache */

/* Special values for `decimals` in number_cells. */
enum { NUMBER_SHORT = -1, NUMBER_INTEGER = -2 };

/* Writes value i to cell i, for `count` (up to NUMBER_CELLS) values, as number_fixed, number_short
 * or number_integer would. For NUMBER_INTEGER the values are integers below 2^53 in magnitude. */
void number_cells(const double *values, int32_t count, int decimals, number_cell *cells);

#endif
