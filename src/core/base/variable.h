/* SPDX-License-Identifier: MIT */
/* The one reader of the environment. The table is in variable.c. */
#ifndef BASE_VARIABLE_H
#define BASE_VARIABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of a variable that is in the table, or NULL if it is unset, empty, not in the table, or
 * ignored because the program runs with raised privileges. */
const char *variable_text(const char *name);

/* A whole number low … high; `fallback` when unset. An invalid value is logged and ignored:
 * contexts do not open with one, so it was set later. */
int64_t variable_integer(const char *name, int64_t low, int64_t high, int64_t fallback);

/* The first of libcompute's own variables whose value is invalid, and the rule that it breaks: "it
 * must be …"; NULL if there is none. Variables that options override, according to `overridden`,
 * are skipped.
 */
const char *variables_check(bool (*overridden)(const void *user, const char *name),
                            const void *user, char *rule, size_t rule_bytes);

/* ---- Privileges ------------------------------------------------------------------------------ */

/* True in a program that was started set-user-ID, set-group-ID or with file capabilities: its
 * environment comes from a less privileged user. Constant while the process lives, even after it
 * has dropped its privileges. The condition of secure_getenv.
 *
 * In its own file, so that tests that link the private objects can replace it. */
bool privilege_raised(void);

#endif
