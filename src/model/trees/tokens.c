/* SPDX-License-Identifier: MIT */
/* Values of JSON and UBJSON; see tokens.h. */
#include "model/trees/tokens.h"

#include <string.h>

#include "core/base/real.h"
#include "io/field_reader.h"

token_reader tokens_begin(char *data, size_t bytes, bool binary) {
  return (token_reader){.text = {data, data, data + bytes}, .binary = binary};
}

static token failed(void) {
  return (token){.kind = TOKEN_ERROR};
}

static bool push(token_reader *reader, token_frame frame) {
  if (reader->depth == TOKEN_DEPTH) return false;
  reader->frames[reader->depth++] = frame;
  return true;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static bool is_scalar(char c) {
  return ascii_is_alphanumeric(c) || c == '-' || c == '+' || c == '.';
}

static bool equals(const token *t, const char *word) {
  return t->length == strlen(word) && memcmp(t->text, word, t->length) == 0;
}

/* A number or a word. NaN and Infinity, which XGBoost writes, are numbers. */
static void take_scalar(token_reader *reader, token *t) {
  json_input *text = &reader->text;
  t->text = text->at;
  while (text->at < text->end && is_scalar(*text->at)) text->at++;
  t->length = (size_t)(text->at - t->text);
  t->kind = t->length == 0 ? TOKEN_ERROR : equals(t, "null") ? TOKEN_NULL : TOKEN_NUMBER;
  const bool truth = equals(t, "true");
  if (!truth && !equals(t, "false")) return;
  t->number = truth;
  t->text = NULL;
}

static token json_value(token_reader *reader, token t) {
  char *string;
  if (json_take(&reader->text, '{')) {
    t.kind = push(reader, (token_frame){.left = -1}) ? TOKEN_OBJECT : TOKEN_ERROR;
  } else if (json_take(&reader->text, '[')) {
    t.kind = push(reader, (token_frame){.array = true, .left = -1}) ? TOKEN_ARRAY : TOKEN_ERROR;
  } else if (reader->text.at < reader->text.end && *reader->text.at == '"') {
    if (!json_take_string(&reader->text, &string)) return failed();
    t.kind = TOKEN_TEXT;
    t.text = string;
    t.length = strlen(string);
  } else {
    take_scalar(reader, &t);
  }
  return t;
}

static token json_next(token_reader *reader) {
  token t = {0};
  char *key;
  if (reader->depth == 0) return json_value(reader, t);
  token_frame *frame = &reader->frames[reader->depth - 1];
  if (json_take(&reader->text, frame->array ? ']' : '}')) {
    reader->depth--;
    return (token){.kind = TOKEN_CLOSE};
  }
  if (frame->later && !json_take(&reader->text, ',')) return failed();
  frame->later = true;
  if (!frame->array) {
    if (!json_take_string(&reader->text, &key)) return failed();
    t.key = key;
    t.key_length = strlen(key);
    if (!json_take(&reader->text, ':')) return failed();
  }
  return json_value(reader, t);
}

/* ---- UBJSON ---------------------------------------------------------------------------------- */

static size_t bytes_left(const token_reader *reader) {
  return (size_t)(reader->text.end - reader->text.at);
}

static char take_byte(token_reader *reader) {
  return bytes_left(reader) ? *reader->text.at++ : '\0';
}

/* Bytes of a number with this marker, or 0. */
static size_t number_bytes(char marker) {
  static const char markers[] = "iUIlLdD";
  static const unsigned char bytes[] = {1, 1, 2, 4, 8, 4, 8};
  const char *found = marker ? strchr(markers, marker) : NULL;
  return found ? bytes[found - markers] : 0;
}

/* A big-endian number with this marker. */
static bool take_number(token_reader *reader, char marker, double *real, int64_t *whole) {
  const size_t bytes = number_bytes(marker);
  uint64_t bits = 0;
  if (bytes == 0 || bytes > bytes_left(reader)) return false;
  for (size_t i = 0; i < bytes; i++) bits = bits << 8 | (unsigned char)*reader->text.at++;
  const uint32_t half = (uint32_t)bits;
  float narrow;
  *whole = marker == 'i'   ? (int8_t)bits
           : marker == 'I' ? (int16_t)bits
           : marker == 'l' ? (int32_t)half
                           : (int64_t)bits;
  *real = (double)*whole;
  if (marker == 'D') memcpy(real, &bits, sizeof *real);
  memcpy(&narrow, &half, sizeof narrow);
  if (marker == 'd') *real = narrow;
  return true;
}

/* A length or count; each of its elements takes at least `each` bytes of the rest. */
static bool take_count(token_reader *reader, size_t each, int64_t *count) {
  const char marker = take_byte(reader);
  double real;
  return marker != 'd' && marker != 'D' && take_number(reader, marker, &real, count) &&
         *count >= 0 && (uint64_t)*count <= bytes_left(reader) / each;
}

static bool take_bytes(token_reader *reader, const char **text, size_t *length) {
  int64_t count;
  if (!take_count(reader, 1, &count)) return false;
  *text = reader->text.at;
  *length = (size_t)count;
  reader->text.at += count;
  return true;
}

/* Opens an object or array. Only numbers may have a common type: elements without bytes could be
 * more than the file is long. */
static bool open_frame(token_reader *reader, bool array) {
  token_frame frame = {.array = array, .left = -1};
  const bool typed = bytes_left(reader) && *reader->text.at == '$';
  if (typed) {
    reader->text.at++;
    frame.type = take_byte(reader);
    if (number_bytes(frame.type) == 0) return false;
  }
  const bool counted = bytes_left(reader) && *reader->text.at == '#';
  if (typed && !counted) return false;
  if (counted) {
    reader->text.at++;
    const size_t each = (typed ? number_bytes(frame.type) : 1) + (array ? 0 : 2);
    if (!take_count(reader, each, &frame.left)) return false;
  }
  return push(reader, frame);
}

static token binary_value(token_reader *reader, token t, char marker) {
  int64_t whole;
  bool fine = true;
  t.kind = TOKEN_NUMBER;
  if (marker == '{' || marker == '[') {
    t.kind = marker == '[' ? TOKEN_ARRAY : TOKEN_OBJECT;
    fine = open_frame(reader, marker == '[');
  } else if (marker == 'S') {
    t.kind = TOKEN_TEXT;
    fine = take_bytes(reader, &t.text, &t.length);
  } else if (marker == 'Z') {
    t.kind = TOKEN_NULL;
  } else if (marker == 'T' || marker == 'F') {
    t.number = marker == 'T';
  } else {
    fine = take_number(reader, marker, &t.number, &whole);
  }
  return fine ? t : failed();
}

static token binary_next(token_reader *reader) {
  token t = {0};
  if (reader->depth == 0) return binary_value(reader, t, take_byte(reader));
  token_frame *frame = &reader->frames[reader->depth - 1];
  const char end = frame->array ? ']' : '}';
  const bool ends =
      frame->left == 0 || (frame->left < 0 && bytes_left(reader) && *reader->text.at == end);
  if (ends) {
    if (frame->left < 0) reader->text.at++;
    reader->depth--;
    return (token){.kind = TOKEN_CLOSE};
  }
  if (frame->left > 0) frame->left--;
  if (!frame->array && !take_bytes(reader, &t.key, &t.key_length)) return failed();
  return binary_value(reader, t, frame->type ? frame->type : take_byte(reader));
}

/* ---- Both ------------------------------------------------------------------------------------ */

token token_next(token_reader *reader) {
  if (reader->depth == 0 && reader->started) {
    const bool ends = reader->binary ? bytes_left(reader) == 0 : json_ends(&reader->text);
    return (token){.kind = ends ? TOKEN_END : TOKEN_ERROR};
  }
  reader->started = true;
  return reader->binary ? binary_next(reader) : json_next(reader);
}

bool token_number(const token *t, locale_t c_locale, double *number) {
  char text[64];
  if (!t->text) {
    *number = t->number;
    return t->kind == TOKEN_NUMBER;
  }
  if (t->length >= sizeof text) return false;
  memcpy(text, t->text, t->length);
  text[t->length] = '\0';
  float narrow;
  const bool whole = strspn(text, "-0123456789") == t->length;
  const number_result result = whole
                                   ? number_parse(text, t->length, COMPUTE_F64, c_locale, number)
                                   : number_parse(text, t->length, COMPUTE_F32, c_locale, &narrow);
  if (!whole && result == NUMBER_OK) *number = narrow;
  return result == NUMBER_OK;
}
