/* How well classes fit each other; kernel_class.h has the grammar. */
#include "tune/kernel_class.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Fit ----------------------------------------------------------------------------------- */

bool kernel_class_valid(const char *text, size_t length) {
  if (length == 0 || length >= KERNEL_CLASS_BYTES) return false;
  int parts = 1;
  bool empty = true;
  for (size_t i = 0; i < length; i++) {
    char c = text[i];
    bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strchr("_.+>", c);
    if (c == '\0' || (c == '/' ? empty || ++parts > 4 : !word)) return false;
    empty = c == '/';
  }
  const char *slash = memchr(text, '/', length);
  const size_t kind_length = slash ? (size_t)(slash - text) : length;
  return !empty && kernel_kind_exists(text, kind_length);
}

/* The next "letter number" of both sizes; false when they do not go on alike. */
static bool next_buckets(const char **a, const char **b, int *difference) {
  if (**a != **b || !isdigit((unsigned char)(*a)[1]) || !isdigit((unsigned char)(*b)[1]))
    return false;
  char *end_a, *end_b;
  long value_a = strtol(*a + 1, &end_a, 10), value_b = strtol(*b + 1, &end_b, 10);
  if (value_a > 64 || value_b > 64) return false;
  *difference = abs((int)(value_a - value_b));
  *a = end_a;
  *b = end_b;
  return true;
}

static int size_fit(const char *a, const char *b) {
  int sum = 0;
  while (*a && *b) {
    int difference;
    if (!next_buckets(&a, &b, &difference) || difference > KERNEL_CLASS_REACH)
      return KERNEL_CLASS_APART;
    sum += difference;
  }
  return *a || *b ? KERNEL_CLASS_APART : sum;
}

int kernel_class_fit(const char *selector, const char *kernel_class) {
  const size_t length = strlen(selector);
  if (!strcmp(selector, kernel_class)) return 0;
  const char *size = strrchr(kernel_class, '/');
  if (!size) return KERNEL_CLASS_APART;
  const size_t head = (size_t)(size - kernel_class) + 1;
  if (length > head && !strncmp(selector, kernel_class, head))
    return size_fit(selector + head, size + 1);
  if (strncmp(selector, kernel_class, length) != 0 || kernel_class[length] != '/')
    return KERNEL_CLASS_APART;
  return 2 * KERNEL_CLASS_BYTES - (int)length;
}
