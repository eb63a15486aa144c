/* SPDX-License-Identifier: MIT */
/* JSON (RFC 8259) for the library itself: writing pieces of it to a text, and a pull parser for
 * callers that know what must come next. The parser is strict: it refuses everything that the
 * standard does not allow. It never reads past the end, allocates nothing, and does not
 * recurse.
 *
 * docs/internals/design.md says why this does not use a JSON library, as the programs do. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdint.h>

#include "core/base/text.h"

/* ---- Writing ------------------------------------------------------------------------------- */

/* "words", with everything escaped that must be; invalid UTF-8 becomes U+FFFD. */
void json_put_string(text_buffer *text, const char *words);

/* "name": "words" */
void json_put_member(text_buffer *text, const char *name, const char *words);

/* , "name": value, with 0 for a number that is not finite. */
void json_put_number(text_buffer *text, const char *name, double value);
void json_put_count(text_buffer *text, const char *name, uint64_t value);

/* ---- Reading ------------------------------------------------------------------------------- */

/* Strings are modified in the text: their escapes are resolved in place. */
typedef struct json_input {
  char *begin, *at, *end; /* *end is a zero */
} json_input;

/* Consumes the character (one of { } [ ] : ,) if it is next after blanks. */
bool json_take(json_input *text, char c);

/* Consumes a string: UTF-8 with all escapes resolved, zero-terminated, in place. False if none is
 * next, or if it is malformed or contains U+0000. */
bool json_take_string(json_input *text, char **string);

typedef enum json_number {
  JSON_NUMBER,
  JSON_NO_NUMBER, /* not a whole number of digits alone */
  JSON_TOO_LARGE  /* for 63 bits */
} json_number;

json_number json_take_whole(json_input *text, int64_t *value);

/* Whether nothing but blanks is left. */
bool json_ends(json_input *text);

#endif
