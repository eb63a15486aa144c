/* Numbers as text, faster than printf and the same in every locale: tables have millions of lines.
 */
#ifndef CLI_FIT_NUMBER_TEXT_H
#define CLI_FIT_NUMBER_TEXT_H

#include <stdint.h>

#define NUMBER_TEXT_BYTES 32 /* the most that one of these writes */

/* Each writes to `text`, without a zero at the end, and returns where it ended. */

char *number_integer(char *text, int64_t value);

/* With `decimals` (0 … 9) digits behind the point, to nearest. Values past 2^53 in units of the
 * last digit have 9 significant digits and an exponent instead. "NaN", "Infinity", "-Infinity". */
char *number_fixed(char *text, double value, int decimals);

/* With 7 significant digits, and an exponent where the value is small or large. */
char *number_short(char *text, double value);

#endif
