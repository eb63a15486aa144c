/* SPDX-License-Identifier: MIT */
/* Messages by table: which fields of a kind of message are read, where to, and what they become. */
#ifndef MODEL_MESSAGE_H
#define MODEL_MESSAGE_H

#include "model/file/decode.h"

/* Of the struct that a message's fields are put into. */
enum { MOST_RAW_BYTES = 192 };

typedef enum field_kind {
  FIELD_INTEGER,  /* int64_t */
  FIELD_GIVEN,    /* given_integer */
  FIELD_FLOAT,    /* float */
  FIELD_TEXT,     /* const char *, NULL without the field */
  FIELD_BYTES,    /* wire */
  FIELD_MESSAGE,  /* pointer to the result, NULL without the field */
  FIELD_PRESENT,  /* bool */
  FIELD_IN_SET,   /* the bit of this number in a uint32_t, if the field is not empty */
  FIELD_TEXTS,    /* message_list of const char * */
  FIELD_INTEGERS, /* of int64_t */
  FIELD_FLOATS,   /* of float */
  FIELD_MESSAGES  /* of results */
} field_kind;

/* An integer that may be left out, which is not the same as 0. */
typedef struct given_integer {
  bool given;
  int64_t value;
} given_integer;

typedef struct message_type message_type;

typedef struct message_field {
  uint32_t number;
  field_kind kind;
  size_t offset; /* in the raw struct. Two lists of one result may share a place. */
  const message_type *type;
} message_field;

/* Makes the result from the raw struct, which goes afterwards. */
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

/* Reads `message` into *result, which is zeroed memory for its type's result. decoder->raws has
 * room for MOST_NESTED_MESSAGES raw structs. */
compute_status decode_message(onnx_decoder *decoder, const message_type *type, wire message,
                              void *result);

#endif
