/* JSON (RFC 8259), piece by piece, for those who know what must come next. Strict: what a writer
 * must not write is refused, and nothing is guessed. Never reads past the end; no recursion. */
#ifndef IO_JSON_H
#define IO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The text is changed where strings are taken: their escapes are resolved in place. */
typedef struct json_text {
  char *begin, *at, *end; /* *end is a zero */
} json_text;

/* Takes the character (one of { } [ ] : ,) if it is next after blanks. */
bool json_take(json_text *text, char c);

/* Takes a string: UTF-8 with all escapes resolved, ended by a zero. It stays where it stood. False
 * if none is next, or if it is not well-formed or contains U+0000. */
bool json_take_string(json_text *text, char **string);

typedef enum json_number {
  JSON_NUMBER,
  JSON_NO_NUMBER, /* not a whole number of digits alone */
  JSON_TOO_LARGE  /* for 63 bits */
} json_number;

json_number json_take_whole(json_text *text, int64_t *value);

/* Whether nothing but blanks is left. */
bool json_ends(json_text *text);

#endif
