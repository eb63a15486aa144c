/* SPDX-License-Identifier: MIT */
/* Strings of any bytes as JSON strings: the environment, paths and error messages of other
 * libraries are not always UTF-8, but JSON must be. */
#include "tools/json_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

json_t *json_text(const char *text) {
  if (!text) return json_null();
  char *clean = malloc(3 * strlen(text) + 1);
  if (!clean) return NULL;
  size_t used = 0;
  for (const char *s = text; *s;) {
    size_t length = utf8_length(s);
    memcpy(clean + used, length ? s : UTF8_REPLACEMENT, length ? length : 3);
    used += length ? length : 3;
    s += length ? length : 1;
  }
  json_t *result = json_stringn(clean, used);
  free(clean);
  return result;
}

json_t *json_number(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

int json_write(const json_t *root, const char *path) {
  FILE *file = strcmp(path, "-") ? fopen(path, "w") : stdout;
  if (!file) return -1;
  int result = json_dumpf(root, file, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) ? -1 : 0;
  if (fputc('\n', file) == EOF || fflush(file)) result = -1;
  if (file != stdout && fclose(file)) result = -1;
  return result;
}
