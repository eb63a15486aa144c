/* SPDX-License-Identifier: MIT */
/* JSON (RFC 8259) for the library itself: pieces of it written to a text, and read by a caller who
 * knows what must come next. The reader is strict: what a writer must not write is refused, and
 * nothing is guessed. It never reads past the end, takes no memory, and does not recurse.
 *
 * docs/internals/design.md says why this is not left to a library of JSON as in the programs. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdint.h>

#include "base/text.h"

/* ---- Writing ------------------------------------------------------------------------------- */

/* "words", with everything escaped that must be; invalid UTF-8 becomes U+FFFD. */
void json_put_string(text_buffer *text, const char *words);

/* "name": "words" */
void json_put_member(text_buffer *text, const char *name, const char *words);

/* , "name": value, with 0 for a number that is not finite. */
void json_put_number(text_buffer *text, const char *name, double value);
void json_put_count(text_buffer *text, const char *name, uint64_t value);

/* ---- Reading ------------------------------------------------------------------------------- */

/* The text is changed where strings are taken: their escapes are resolved in place. */
typedef struct json_input {
  char *begin, *at, *end; /* *end is a zero */
} json_input;

/* Takes the character (one of { } [ ] : ,) if it is next after blanks. */
bool json_take(json_input *text, char c);

/* Takes a string: UTF-8 with all escapes resolved, ended by a zero. It stays where it stood. False
 * if none is next, or if it is not well-formed or contains U+0000. */
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
