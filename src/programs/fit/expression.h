/* SPDX-License-Identifier: MIT */
/* Conditions over the columns of a table, for --where. They consist of numbers, names of columns,
 * arithmetic (+ - * /), comparisons (< <= > >= == !=), && || ! and parentheses, with C's
 * precedence. Comparisons with NaN are false, except !=. */
#ifndef TOOLS_FIT_EXPRESSION_H
#define TOOLS_FIT_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "programs/fit/failure.h"

#define EXPRESSION_MOST_ROWS 128 /* rows evaluated at a time */

typedef struct expression expression;

/* The columns that an expression may name. */
typedef struct expression_names {
  const void *table;
  int32_t (*find)(const void *table, const char *name, size_t length); /* −1: not found */
  const char *(*name)(const void *table, int32_t column);              /* NULL past the last */
} expression_names;

/* Parses `text`. A failure (COMPUTE_ERROR_INVALID_ARGUMENT) describes the expected text and points
 * at the place. Release the result with free(). */
compute_status expression_parse(const char *text, const expression_names *names,
                                expression **parsed, failure *why);

/* Writes the values of a column for the evaluated rows. */
typedef void (*expression_values)(const void *rows, int32_t column, double *values);

/* Evaluates the expression for `count` (up to EXPRESSION_MOST_ROWS) rows. Conditions are 0 or 1.
 * Thread-safe if `values` is. */
void expression_evaluate(const expression *e, int32_t count, expression_values values,
                         const void *rows, double *result);

#endif
