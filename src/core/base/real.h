/* SPDX-License-Identifier: MIT */
/* Real numbers and letters in text that a machine reads: sources of kernels, JSON, keys of caches,
 * texts that processes compare. The locale is the host's, and printf, strcasecmp and isalnum follow
 * it: 1.5 is 1,5 in German, and in Turkish "inf" is not "INF". Nothing here does. */
#ifndef BASE_REAL_H
#define BASE_REAL_H

#include <stdbool.h>
#include <stddef.h>

#define REAL_TEXT_BYTES 40

/* The exact number in hexadecimal, as C reads it: "0x1.8p+0". Of a finite value. Returns `text`. */
char *real_hex(double value, char text[REAL_TEXT_BYTES]);

/* `digits` significant digits (1 … 17), as printf's %.*g writes them in the locale C. Returns
 * `text`. */
char *real_decimal(double value, int digits, char text[REAL_TEXT_BYTES]);

/* `decimals` digits after the point, as printf's %.*f writes them in the locale C, of a value below
 * 10^20. Returns `text`. */
char *real_fixed(double value, int decimals, char text[REAL_TEXT_BYTES]);

/* ---- Letters of ASCII -------------------------------------------------------------------------
 */

static inline bool ascii_is_digit(char c) {
  return c >= '0' && c <= '9';
}

static inline bool ascii_is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || ascii_is_digit(c);
}

static inline char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* Whether `text` begins with `words`, in any case. */
static inline bool ascii_begins(const char *text, const char *words) {
  size_t i = 0;
  while (words[i] && ascii_lower(text[i]) == ascii_lower(words[i])) i++;
  return !words[i];
}

/* Whether the texts are equal, in any case. */
static inline bool ascii_equal(const char *a, const char *b) {
  size_t i = 0;
  while (a[i] && ascii_lower(a[i]) == ascii_lower(b[i])) i++;
  return ascii_lower(a[i]) == ascii_lower(b[i]);
}

#endif
