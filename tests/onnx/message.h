/* SPDX-License-Identifier: MIT */
/* Writes Protocol Buffers, as far as tests need them to modify ONNX files. */
#ifndef ONNX_MESSAGE_H
#define ONNX_MESSAGE_H

#include "model/file/wire.h"

/* A growing message; all zeros are an empty one. If memory is short, the program ends. */
typedef struct message {
  uint8_t *data;
  size_t bytes, capacity;
} message;

/* Each appends a field. */
void message_integer(message *to, uint32_t number, uint64_t value);
void message_bytes(message *to, uint32_t number, const void *data, size_t bytes);
void message_text(message *to, uint32_t number, const char *text);

/* Appends an integer without a field number, as in packed fields. */
void message_varint(message *to, uint64_t value);

/* Appends another message as a field, then empties and frees it. */
void message_take(message *to, uint32_t number, message *part);

/* Appends all fields of another message, then empties and frees it. */
void message_join(message *to, message *part);

/* Appends a field that was read. */
void message_copy(message *to, const wire_field *field);

void message_release(message *m);

/* The written message, for reading. */
wire message_wire(const message *m);

/* The bytes of the last field with that number; `at` is NULL if there is none. */
wire message_find(wire from, uint32_t number);

/* The value of the last integer field with that number; 0 if there is none. */
uint64_t message_find_integer(wire from, uint32_t number);

#endif
