/* SPDX-License-Identifier: MIT */
/* Real numbers and letters in machine-readable text: kernel sources, JSON, cache keys, and texts
 * that processes compare. printf, strcasecmp and isalnum follow the host's locale: 1.5 is 1,5 in
 * German, and in Turkish "inf" does not equal "INF". The functions here ignore the locale. */
#ifndef BASE_REAL_H
#define BASE_REAL_H

#include <stdbool.h>
#include <stddef.h>

#define REAL_TEXT_BYTES 40

/* Writes a finite value exactly, in C's hexadecimal form: "0x1.8p+0". Returns `text`. */
char *real_hex(double value, char text[REAL_TEXT_BYTES]);

/* Writes `digits` significant digits (1 … 17), as printf's %.*g does in the locale C. Returns
 * `text`. */
char *real_decimal(double value, int digits, char text[REAL_TEXT_BYTES]);

/* `decimals` digits after the point, as printf's %.*f writes them in the locale C, of a value below
 * 10^20. Returns `text`. */
char *real_fixed(double value, int decimals, char text[REAL_TEXT_BYTES]);

/* ---- Letters of ASCII ------------------------------------------------------------------------ */

static inline bool ascii_is_digit(char c) {
  return c >= '0' && c <= '9';
}

static inline bool ascii_is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || ascii_is_digit(c);
}

static inline char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* `true` if `text` begins with `words`; ignores case. */
static inline bool ascii_begins(const char *text, const char *words) {
  size_t i = 0;
  while (words[i] && ascii_lower(text[i]) == ascii_lower(words[i])) i++;
  return !words[i];
}

/* `true` if the texts are equal; ignores case. */
static inline bool ascii_equal(const char *a, const char *b) {
  size_t i = 0;
  while (a[i] && ascii_lower(a[i]) == ascii_lower(b[i])) i++;
  return ascii_lower(a[i]) == ascii_lower(b[i]);
}

#endif
