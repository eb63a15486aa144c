/* SPDX-License-Identifier: MIT */
/* Messages in Protocol Buffers' wire format, written field by field into memory. */
#ifndef MODEL_WIRE_WRITE_H
#define MODEL_WIRE_WRITE_H

#include "compute/dtype.h"
#include "model/file/wire.h"

/* Once `failed`, for want of memory, it takes nothing more. */
typedef struct wire_buffer {
  uint8_t *data;
  size_t count, capacity;
  bool failed;
} wire_buffer;

/* Fields of the messages that are written piece by piece. */
enum { MODEL_GRAPH = 7, GRAPH_INITIALIZER = 5 };

void wire_put(wire_buffer *to, const void *data, size_t bytes);
void wire_put_varint(wire_buffer *to, uint64_t value);

/* Whole fields. */
void wire_put_integer(wire_buffer *to, uint32_t number, int64_t value);
void wire_put_float(wire_buffer *to, uint32_t number, float value);
void wire_put_text(wire_buffer *to, uint32_t number, const char *text);
void wire_put_field(wire_buffer *to, const wire_field *field); /* as it was */

/* A message within, which is released. */
void wire_put_message(wire_buffer *to, uint32_t number, wire_buffer *message);

/* What stands before `bytes` bytes of a field. */
void wire_put_length(wire_buffer *to, uint32_t number, uint64_t bytes);

/* All of a graph's initializer but its elements, `bytes` of them, which are to follow. */
void wire_put_initializer(wire_buffer *to, const char *name, int32_t type, compute_shape shape,
                          uint64_t bytes);

void wire_buffer_release(wire_buffer *buffer);

#endif
