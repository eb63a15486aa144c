/* SPDX-License-Identifier: MIT */
/* The only reader of the environment. The table is in variable.c. */
#ifndef BASE_VARIABLE_H
#define BASE_VARIABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of a variable. Returns NULL if it is unset, empty, not in the table, or ignored because
 * the program has raised privileges. */
const char *variable_text(const char *name);

/* A whole number in low … high; `fallback` if unset. An invalid value is logged and ignored.
 * Contexts do not open with an invalid value, so it was set later. */
int64_t variable_integer(const char *name, int64_t low, int64_t high, int64_t fallback);

/* Returns the first of libcompute's variables with an invalid value, and the rule that it breaks:
 * "it must be …". Returns NULL if there is none. Skips variables that options override, as
 * `overridden` reports. */
const char *variables_check(bool (*overridden)(const void *user, const char *name),
                            const void *user, char *rule, size_t rule_bytes);

#endif
