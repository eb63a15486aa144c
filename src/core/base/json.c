/* SPDX-License-Identifier: MIT */
/* JSON writer and pull parser; see json.h. */
#include "core/base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/arithmetic.h"
#include "core/base/real.h"
#include "core/base/text.h"

/* ---- Writing ------------------------------------------------------------------------------- */

/* The number of leading bytes of `words` that need no escape. */
static size_t plain_length(const char *words) {
  size_t plain = 0;
  for (;;) {
    const char c = words[plain];
    if ((unsigned char)c < 0x20 || c == '"' || c == '\\') return plain;
    const size_t length = utf8_length(words + plain);
    if (length == 0) return plain;
    plain += length;
  }
}

void json_put_string(text_buffer *text, const char *words) {
  text_add(text, "\"");
  for (;;) {
    const size_t plain = plain_length(words);
    if (plain > 0) text_add(text, "%.*s", (int)plain, words);
    words += plain;
    if (!*words) break;
    if (*words == '"' || *words == '\\')
      text_add(text, "\\%c", *words);
    else if ((unsigned char)*words < 0x20)
      text_add(text, "\\u%04x", (unsigned)*words);
    else
      text_add(text, "%s", UTF8_REPLACEMENT);
    words++;
  }
  text_add(text, "\"");
}

void json_put_member(text_buffer *text, const char *name, const char *words) {
  text_add(text, "\"%s\": ", name);
  json_put_string(text, words);
}

void json_put_number(text_buffer *text, const char *name, double value) {
  char number[REAL_TEXT_BYTES];
  text_add(text, ", \"%s\": %s", name, real_decimal(isfinite(value) ? value : 0.0, 9, number));
}

void json_put_count(text_buffer *text, const char *name, uint64_t value) {
  text_add(text, ", \"%s\": %" PRIu64, name, value);
}

/* ---- Reading ------------------------------------------------------------------------------- */

static void skip_blanks(json_input *text) {
  while (text->at < text->end &&
         (*text->at == ' ' || *text->at == '\t' || *text->at == '\n' || *text->at == '\r')) {
    text->at++;
  }
}

bool json_take(json_input *text, char c) {
  skip_blanks(text);
  if (text->at == text->end || *text->at != c) return false;
  text->at++;
  return true;
}

bool json_ends(json_input *text) {
  skip_blanks(text);
  return text->at == text->end;
}

json_number json_take_whole(json_input *text, int64_t *value) {
  skip_blanks(text);
  const char *begin = text->at;
  bool fits = true;
  *value = 0;
  for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++) {
    fits =
        fits && checked_multiply(*value, 10, value) && checked_add(*value, *text->at - '0', value);
  }
  size_t digits = (size_t)(text->at - begin);
  if (digits == 0 || (digits > 1 && *begin == '0')) return JSON_NO_NUMBER;
  char next = *text->at; /* a zero at the end of the input */
  if (next == '.' || next == 'e' || next == 'E') return JSON_NO_NUMBER;
  return fits ? JSON_NUMBER : JSON_TOO_LARGE;
}

/* ---- Strings ------------------------------------------------------------------------------- */

/* Reads four hexadecimal digits; −1 if there are none. */
static int32_t take_hexadecimal(json_input *text) {
  int32_t value = 0;
  if (text->end - text->at < 4) return -1;
  for (int i = 0; i < 4; i++) {
    char c = *text->at++;
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/* Reads the character of a \u escape after its u. A character beyond U+FFFF takes two escapes.
 * Returns 0 if the escape is invalid. */
static uint32_t take_code(json_input *text) {
  int32_t code = take_hexadecimal(text);
  if (code <= 0 || (code >= 0xdc00 && code < 0xe000)) return 0;
  if (code < 0xd800 || code >= 0xe000) return (uint32_t)code;
  if (text->end - text->at < 2 || text->at[0] != '\\' || text->at[1] != 'u') return 0;
  text->at += 2;
  int32_t low = take_hexadecimal(text);
  if (low < 0xdc00 || low >= 0xe000) return 0;
  return 0x10000u + ((uint32_t)(code - 0xd800) << 10 | (uint32_t)(low - 0xdc00));
}

/* Writes at most 4 bytes, and never more than the escape's length. */
static char *put_code(char *to, uint32_t code) {
  if (code < 0x80) {
    *to++ = (char)code;
  } else if (code < 0x800) {
    *to++ = (char)(0xc0 | code >> 6);
    *to++ = (char)(0x80 | (code & 63));
  } else if (code < 0x10000) {
    *to++ = (char)(0xe0 | code >> 12);
    *to++ = (char)(0x80 | (code >> 6 & 63));
    *to++ = (char)(0x80 | (code & 63));
  } else {
    *to++ = (char)(0xf0 | code >> 18);
    *to++ = (char)(0x80 | (code >> 12 & 63));
    *to++ = (char)(0x80 | (code >> 6 & 63));
    *to++ = (char)(0x80 | (code & 63));
  }
  return to;
}

/* Resolves an escape. Returns `to` unchanged if it is invalid. */
static char *take_escape(json_input *text, char *to) {
  static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
  if (text->at == text->end) return to;
  char c = *text->at++;
  if (c == 'u') {
    uint32_t code = take_code(text);
    return code ? put_code(to, code) : to;
  }
  for (size_t i = 0; letters[i]; i++) {
    if (letters[i] != c) continue;
    *to = meanings[i];
    return to + 1;
  }
  return to;
}

bool json_take_string(json_input *text, char **string) {
  if (!json_take(text, '"')) return false;
  char *to = text->at;
  *string = to;
  while (text->at < text->end && *text->at != '"') {
    if ((unsigned char)*text->at < ' ') return false;
    if (*text->at == '\\') {
      text->at++;
      char *after = take_escape(text, to);
      if (after == to) return false;
      to = after;
      continue;
    }
    size_t length = utf8_length(text->at); /* the terminating zero is no continuation byte */
    if (length == 0) return false;
    for (size_t i = 0; i < length; i++) *to++ = *text->at++;
  }
  if (text->at == text->end) return false;
  text->at++;
  *to = 0; /* at the closing quote, or before it */
  return true;
}
