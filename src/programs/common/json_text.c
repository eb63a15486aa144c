/* SPDX-License-Identifier: MIT */
/* JSON strings from any bytes. The environment, paths and error messages of other libraries are not
 * always UTF-8, but JSON must be. */
#include "programs/common/json_text.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Returns the bytes of the first UTF-8 character of `text`, which must not be empty; 0: not
 * UTF-8. */
static size_t character_length(const char *text) {
  for (size_t length = 1; length <= 4 && text[length - 1]; length++) {
    json_t *character = json_stringn(text, length);
    json_decref(character);
    if (character) return length;
  }
  return 0;
}

json_t *json_text(const char *text) {
  if (!text) return json_null();
  json_t *whole = json_string(text);
  if (whole) return whole;
  static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
  char *clean = malloc(3 * strlen(text) + 1);
  if (!clean) return NULL;
  size_t used = 0;
  for (const char *s = text; *s;) {
    const size_t length = character_length(s);
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

static int dump(const json_t *root, FILE *file) {
  const int result = json_dumpf(root, file, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) ? -1 : 0;
  return fputc('\n', file) == EOF || fflush(file) ? -1 : result;
}

/* Returns true for an existing file that is not a plain file, such as a pipe or a link. Such a file
 * is written in place. */
static bool is_special(const char *path) {
  struct stat status;
  return lstat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

bool json_is_replaced(const char *path) {
  return strcmp(path, "-") != 0 && !is_special(path);
}

static int write_to(const json_t *root, const char *path) {
  FILE *file = fopen(path, "we");
  if (!file) return -1;
  const int result = dump(root, file), code = errno;
  if (fclose(file)) return -1;
  errno = code;
  return result;
}

int json_write(const json_t *root, const char *path) {
  if (strcmp(path, "-") == 0) return dump(root, stdout);
  if (is_special(path)) return write_to(root, path);
  char *temporary = malloc(strlen(path) + sizeof ".incomplete");
  if (!temporary) return -1;
  sprintf(temporary, "%s.incomplete", path);
  int result = write_to(root, temporary);
  if (!result) result = rename(temporary, path) ? -1 : 0;
  if (result) {
    const int code = errno;
    remove(temporary);
    errno = code;
  }
  free(temporary);
  return result;
}
