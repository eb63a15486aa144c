/* SPDX-License-Identifier: MIT */
/* Writes messages in Protocol Buffers' wire format into memory, field by field. */
#ifndef MODEL_WIRE_WRITE_H
#define MODEL_WIRE_WRITE_H

#include "compute/dtype.h"
#include "model/file/wire.h"

/* `failed` means out of memory; later writes are ignored. */
typedef struct wire_buffer {
  uint8_t *data;
  size_t count, capacity;
  bool failed;
} wire_buffer;

/* Field numbers of messages that are written in pieces. */
enum { MODEL_GRAPH = 7, GRAPH_INITIALIZER = 5 };

void wire_put(wire_buffer *to, const void *data, size_t bytes);
void wire_put_varint(wire_buffer *to, uint64_t value);

/* Write whole fields. */
void wire_put_integer(wire_buffer *to, uint32_t number, int64_t value);
void wire_put_float(wire_buffer *to, uint32_t number, float value);
void wire_put_text(wire_buffer *to, uint32_t number, const char *text);
void wire_put_field(wire_buffer *to, const wire_field *field); /* verbatim */

/* Writes a nested message and releases it. */
void wire_put_message(wire_buffer *to, uint32_t number, wire_buffer *message);

/* Writes the key and length of a field of `bytes` bytes. */
void wire_put_length(wire_buffer *to, uint32_t number, uint64_t bytes);

/* Writes a graph's initializer up to its elements. The caller appends their `bytes` bytes. */
void wire_put_initializer(wire_buffer *to, const char *name, int32_t type, compute_shape shape,
                          uint64_t bytes);

void wire_buffer_release(wire_buffer *buffer);

#endif
