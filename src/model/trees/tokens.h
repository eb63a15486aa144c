/* SPDX-License-Identifier: MIT */
/* Values of a JSON or UBJSON file one after another, in constant memory and without recursion.
 *
 * UBJSON (ubjson.org, draft 12) is JSON in bytes: a marker precedes each value, and the count of an
 * array may precede its elements. Every length is compared with the bytes that are left. */
#ifndef MODEL_TREES_TOKENS_H
#define MODEL_TREES_TOKENS_H

#include <locale.h>

#include "core/base/json.h"

enum { TOKEN_DEPTH = 32 }; /* objects and arrays within each other */

typedef enum token_kind {
  TOKEN_OBJECT,
  TOKEN_ARRAY,
  TOKEN_CLOSE, /* the end of an object or array */
  TOKEN_TEXT,
  TOKEN_NUMBER, /* also true and false: 1 and 0 */
  TOKEN_NULL,
  TOKEN_END,  /* of the file */
  TOKEN_ERROR /* damaged, cut off, or nested too deeply */
} token_kind;

typedef struct token {
  token_kind kind;
  const char *key, *text; /* of a member of an object, or NULL; of texts, and of numbers in JSON */
  size_t key_length, length;
  double number; /* without text */
} token;

/* An open object or array. */
typedef struct token_frame {
  bool array, later; /* a value came before */
  char type;         /* UBJSON: of all elements, or 0 */
  int64_t left;      /* UBJSON: elements, or −1: up to its end marker */
} token_frame;

typedef struct token_reader {
  json_input text; /* texts of JSON are decoded in place */
  bool binary;     /* UBJSON */
  bool started;
  int depth;
  token_frame frames[TOKEN_DEPTH];
} token_reader;

token_reader tokens_begin(char *data, size_t bytes, bool binary);

/* The next value; texts live as long as the data. */
token token_next(token_reader *reader);

/* The number of a token, also of a text such as "5E-1". With a fraction or exponent it is rounded
 * to f32 once, as XGBoost does. False if it is none. */
bool token_number(const token *token, locale_t c_locale, double *number);

#endif
