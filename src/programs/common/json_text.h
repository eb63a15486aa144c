/* SPDX-License-Identifier: MIT */
/* Strings of any bytes as JSON strings. */
#ifndef TOOLS_JSON_TEXT_H
#define TOOLS_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>

/* A JSON string; bytes that are not UTF-8 become U+FFFD. NULL gives JSON null. Returns NULL only
 * when out of memory. */
json_t *json_text(const char *text);

/* The value, or JSON null for NaN and infinities, which JSON lacks. */
json_t *json_number(double value);

/* Writes `root` and a line break to `path` ("-": standard output). Returns 0, or -1 with errno set.
 */
int json_write(const json_t *root, const char *path);

/* Whether json_write makes a plain file of `path`, which it replaces as a whole. */
bool json_is_replaced(const char *path);

#endif
