/* The one reader of the environment. The table is in variable.c. */
#ifndef BASE_VARIABLE_H
#define BASE_VARIABLE_H

#include <stdbool.h>
#include <stdint.h>

/* The value of a variable that is in the table, or NULL if it is unset, empty, not in the table, or
 * to be ignored because the program runs with raised privileges (privilege.h). */
const char *variable_text(const char *name);

/* A whole number low … high; `fallback` when unset. A value that is none is logged and ignored. */
int64_t variable_integer(const char *name, int64_t low, int64_t high, int64_t fallback);

#endif
