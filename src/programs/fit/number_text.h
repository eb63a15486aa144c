/* SPDX-License-Identifier: MIT */
/* Numbers as text, far faster than printf and the same in every locale: tables have millions of
 * lines. Every number is the decimal nearest to the double's exact value, ties to even, as printf
 * rounds. */
#ifndef TOOLS_FIT_NUMBER_TEXT_H
#define TOOLS_FIT_NUMBER_TEXT_H

#include <stdint.h>

#define NUMBER_TEXT_MOST 20 /* length of the longest number */
#define NUMBER_TEXT_BYTES                                                                          \
  32 /* buffer size that each function needs: bytes after the number are undefined */

/* Each writes to `text`, without a terminating zero, and returns its end. */

char *number_integer(char *text, int64_t value);

/* With `decimals` (0 … 9) digits after the point, and never "-0.0". Values of at least 2^53 units
 * of the last digit have 9 significant digits and an exponent instead. "NaN", "Infinity",
 * "-Infinity".
 */
char *number_fixed(char *text, double value, int decimals);

/* With 7 significant digits, and an exponent if the value is below 1e-4 or at least 1e7. */
char *number_short(char *text, double value);

/* ---- Many at once -------------------------------------------------------------------------- */

typedef struct number_cell {
  char text[NUMBER_TEXT_BYTES - 1];
  uint8_t length;
} number_cell;

#define NUMBER_CELLS 32 /* converted at a time: all columns of that many rows fit in a cache */

/* `decimals` of number_cells that are not a number of digits. */
enum { NUMBER_SHORT = -1, NUMBER_INTEGER = -2 };

/* Writes each of `count` (up to NUMBER_CELLS) values to a cell of its own, as number_fixed,
 * number_short or number_integer would. Values of NUMBER_INTEGER are whole, below 2^53 in size. */
void number_cells(const double *values, int32_t count, int decimals, number_cell *cells);

#endif
