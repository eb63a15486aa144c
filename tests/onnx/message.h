/* SPDX-License-Identifier: MIT */
/* Writing of Protocol Buffers, as far as tests make ONNX files from others. */
#ifndef ONNX_MESSAGE_H
#define ONNX_MESSAGE_H

#include "model/file/wire.h"

/* A message that grows. Zeros are an empty one. The program ends when memory is short. */
typedef struct message {
  uint8_t *data;
  size_t bytes, capacity;
} message;

/* Each appends a field. */
void message_integer(message *to, uint32_t number, uint64_t value);
void message_bytes(message *to, uint32_t number, const void *data, size_t bytes);
void message_text(message *to, uint32_t number, const char *text);

/* Appends an integer without a field's number, as packed fields have them. */
void message_varint(message *to, uint64_t value);

/* The same for a message, which is emptied and freed. */
void message_take(message *to, uint32_t number, message *part);

/* Appends the fields of a message, which is emptied and freed. */
void message_join(message *to, message *part);

/* The same for a field as it was read. */
void message_copy(message *to, const wire_field *field);

void message_release(message *m);

/* What was written, to be read. */
wire message_wire(const message *m);

/* The bytes of the last field of that number; `at` is NULL if there is none. */
wire message_find(wire from, uint32_t number);

/* The value of the last one that is an integer; 0 if there is none. */
uint64_t message_find_integer(wire from, uint32_t number);

#endif
