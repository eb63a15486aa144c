/* SPDX-License-Identifier: MIT */
/* JSON strings from any bytes. */
#ifndef TOOLS_JSON_TEXT_H
#define TOOLS_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>

/* Returns a JSON string. Bytes that are not UTF-8 become U+FFFD. NULL gives JSON null. Returns NULL
 * only when out of memory. */
json_t *json_text(const char *text);

/* Returns the value, or JSON null for NaN and infinities, which JSON lacks. */
json_t *json_number(double value);

/* Writes `root` and a line break to `path` ("-": standard output). Returns 0, or -1 with errno set.
 */
int json_write(const json_t *root, const char *path);

/* Returns true if json_write replaces `path` as a whole by a plain file. */
bool json_is_replaced(const char *path);

#endif
