/* SPDX-License-Identifier: MIT */
/* JSON (RFC 8259) inside the library: functions that write pieces of it, and a pull parser for
 * callers that expect a fixed order. The parser is strict: it refuses everything that the standard
 * does not allow. It never reads past the end, does not allocate, and does not recurse.
 *
 * src/core/README.md explains why this is not a JSON library, which the programs use. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdint.h>

#include "core/base/text.h"

/* ---- Writing ------------------------------------------------------------------------------- */

/* Writes "words" with all necessary escapes. Invalid UTF-8 becomes U+FFFD. */
void json_put_string(text_buffer *text, const char *words);

/* Writes "name": "words". */
void json_put_member(text_buffer *text, const char *name, const char *words);

/* Writes , "name": value. A number that is not finite becomes 0. */
void json_put_number(text_buffer *text, const char *name, double value);
void json_put_count(text_buffer *text, const char *name, uint64_t value);

/* ---- Reading ------------------------------------------------------------------------------- */

/* Input text. Parsing a string modifies the text, because escapes are resolved in place. */
typedef struct json_input {
  char *begin, *at, *end; /* *end is a zero */
} json_input;

/* Skips blanks, and consumes the character (one of { } [ ] : ,) if it is next. */
bool json_take(json_input *text, char c);

/* Consumes a UTF-8 string, resolves its escapes in place and terminates it with a zero. Returns
 * false if the next token is no string, is malformed, or contains U+0000. */
bool json_take_string(json_input *text, char **string);

typedef enum json_number {
  JSON_NUMBER,
  JSON_NO_NUMBER, /* not a whole number of digits only */
  JSON_TOO_LARGE  /* does not fit 63 bits */
} json_number;

json_number json_take_whole(json_input *text, int64_t *value);

/* `true` if only blanks are left. */
bool json_ends(json_input *text);

#endif
