/* SPDX-License-Identifier: MIT */
/* Writing Protocol Buffers' wire format. */
#include "model/file/wire_write.h"

#include <string.h>

#include "core/base/alloc.h"

/* Field numbers in TensorProto. */
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };

void wire_put(wire_buffer *to, const void *data, size_t bytes) {
  if (to->failed || base_grow((void **)&to->data, &to->capacity, to->count + bytes, 1)) {
    to->failed = true;
    return;
  }
  if (bytes) memcpy(to->data + to->count, data, bytes);
  to->count += bytes;
}

void wire_put_varint(wire_buffer *to, uint64_t value) {
  uint8_t bytes[10];
  size_t count = 0;
  do {
    bytes[count++] = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
    value >>= 7;
  } while (value);
  wire_put(to, bytes, count);
}

static void put_key(wire_buffer *to, uint32_t number, wire_type type) {
  wire_put_varint(to, (uint64_t)number << 3 | (uint64_t)type);
}

void wire_put_integer(wire_buffer *to, uint32_t number, int64_t value) {
  put_key(to, number, WIRE_VARINT);
  wire_put_varint(to, (uint64_t)value);
}

void wire_put_float(wire_buffer *to, uint32_t number, float value) {
  put_key(to, number, WIRE_FIXED32);
  wire_put(to, &value, sizeof value);
}

void wire_put_length(wire_buffer *to, uint32_t number, uint64_t bytes) {
  put_key(to, number, WIRE_BYTES);
  wire_put_varint(to, bytes);
}

void wire_put_text(wire_buffer *to, uint32_t number, const char *text) {
  wire_put_length(to, number, strlen(text));
  wire_put(to, text, strlen(text));
}

void wire_put_field(wire_buffer *to, const wire_field *field) {
  put_key(to, field->number, field->type);
  switch (field->type) {
  case WIRE_VARINT: wire_put_varint(to, field->value); break;
  case WIRE_FIXED64: wire_put(to, &field->value, 8); break;
  case WIRE_FIXED32: wire_put(to, &field->value, 4); break;
  case WIRE_BYTES:
    wire_put_varint(to, wire_bytes(field->bytes));
    wire_put(to, field->bytes.at, wire_bytes(field->bytes));
    break;
  }
}

void wire_put_message(wire_buffer *to, uint32_t number, wire_buffer *message) {
  wire_put_length(to, number, message->count);
  wire_put(to, message->data, message->count);
  to->failed |= message->failed;
  wire_buffer_release(message);
}

void wire_put_initializer(wire_buffer *to, const char *name, int32_t type, compute_shape shape,
                          uint64_t bytes) {
  wire_buffer head = {0};
  for (int32_t i = 0; i < shape.rank; i++) wire_put_integer(&head, TENSOR_DIMS, shape.size[i]);
  wire_put_integer(&head, TENSOR_TYPE, type);
  wire_put_text(&head, TENSOR_NAME, name);
  wire_put_length(&head, TENSOR_RAW, bytes);
  wire_put_length(to, GRAPH_INITIALIZER, head.count + bytes);
  wire_put(to, head.data, head.count);
  to->failed |= head.failed;
  wire_buffer_release(&head);
}

void wire_buffer_release(wire_buffer *buffer) {
  base_release(buffer->data);
  *buffer = (wire_buffer){0};
}
