/* SPDX-License-Identifier: MIT */
/* Growing text for explanations and long messages, sizes as text, and UTF-8. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "compute/export.h"

typedef struct text_buffer {
  char *data; /* zero-terminated after the first addition */
  size_t length, capacity;
  bool failed; /* out of memory; data holds the part that fitted */
} text_buffer;

void text_add(text_buffer *text, const char *format, ...) COMPUTE_PRINTF(2, 3);
void text_release(text_buffer *text);

/* Writes "22.9 GiB" or "512 bytes" to `text`, and returns it. */
static inline const char *bytes_text(uint64_t bytes, char *text, size_t text_size) {
  static const char unit[] = "KMGTPE";
  double value = (double)bytes / 1024;
  size_t i = 0;
  for (; value >= 1024 && unit[i + 1]; i++) value /= 1024;
  if (bytes < 1024)
    snprintf(text, text_size, "%d byte%s", (int)bytes, bytes == 1 ? "" : "s");
  else
    snprintf(text, text_size, value < 100 ? "%.1f %ciB" : "%.0f %ciB", value, unit[i]);
  return text;
}

/* UTF-8, for writing texts of unknown origin as JSON. Header-only, so that the programs can use it
 * without a private symbol of the library. */

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* The bytes of the well-formed character at `text` (Unicode 15, table 3-7), or 0. `text` ends in a
 * zero. */
static inline size_t utf8_length(const char *text) {
  const unsigned char *s = (const unsigned char *)text;
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

#endif
