/* SPDX-License-Identifier: MIT */
/* Table-driven decoding of messages: a table lists the fields to read, their places and their
 * conversions. */
#ifndef MODEL_MESSAGE_H
#define MODEL_MESSAGE_H

#include "model/file/decode.h"

/* Size limit of the raw struct that receives a message's fields. */
enum { MOST_RAW_BYTES = 192 };

typedef enum field_kind {
  FIELD_INTEGER,  /* int64_t */
  FIELD_GIVEN,    /* given_integer */
  FIELD_FLOAT,    /* float */
  FIELD_TEXT,     /* const char *, NULL if absent */
  FIELD_BYTES,    /* wire */
  FIELD_MESSAGE,  /* pointer to the result, NULL if absent */
  FIELD_PRESENT,  /* bool */
  FIELD_IN_SET,   /* sets bit `number` in a uint32_t if the field is not empty */
  FIELD_TEXTS,    /* list of const char * */
  FIELD_INTEGERS, /* list of int64_t */
  FIELD_FLOATS,   /* list of float */
  FIELD_MESSAGES  /* list of results */
} field_kind;

/* An optional integer; absent differs from 0. */
typedef struct given_integer {
  bool given;
  int64_t value;
} given_integer;

typedef struct message_type message_type;

typedef struct message_field {
  uint32_t number;
  field_kind kind;
  size_t offset; /* in the raw struct; two lists of one result type may share it */
  const message_type *type;
} message_field;

/* Makes the result from the raw struct, which is discarded afterwards. */
typedef compute_status (*message_finish)(onnx_decoder *decoder, const void *raw, wire message,
                                         void *result);

struct message_type {
  const char *name;
  const message_field *fields;
  size_t field_count, raw_bytes, bytes;
  message_finish finish;
};

#define MESSAGE_TYPE(type, fields, raw, result, finish)                                            \
  { type, fields, sizeof(fields) / sizeof *(fields), sizeof(raw), sizeof(result), finish }

/* Decodes `message` into *result, zeroed memory for the type's result. decoder->raws has room
 * for MOST_NESTED_MESSAGES raw structs. */
compute_status decode_message(onnx_decoder *decoder, const message_type *type, wire message,
                              void *result);

#endif
