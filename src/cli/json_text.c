/* Strings of any bytes as JSON strings: the environment, paths and error texts of other libraries
 * are not always UTF-8, but JSON must be. */
#include "cli/json_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the well-formed UTF-8 character at `s` (Unicode 15, table 3-7), or 0. */
static size_t utf8_length(const unsigned char *s) {
  if (s[0] < 0x80) return 1;
  size_t length = s[0] >= 0xc2 && s[0] < 0xe0   ? 2
                  : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                  : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                                : 0;
  for (size_t i = 1; i < length; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
      (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
    return 0;
  return length;
}

json_t *json_text(const char *text) {
  static const char replacement[] = "\xef\xbf\xbd";
  if (!text) return json_null();
  char *clean = malloc(3 * strlen(text) + 1);
  if (!clean) return NULL;
  size_t used = 0;
  for (const char *s = text; *s;) {
    size_t length = utf8_length((const unsigned char *)s);
    memcpy(clean + used, length ? s : replacement, length ? length : 3);
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
