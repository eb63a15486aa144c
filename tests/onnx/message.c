/* SPDX-License-Identifier: MIT */
/* Writing of Protocol Buffers: see message.h. */
#include "onnx/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(message *to, const void *data, size_t bytes) {
  if (to->capacity - to->bytes < bytes) {
    to->capacity = 2 * (to->bytes + bytes) + 64;
    to->data = realloc(to->data, to->capacity);
    if (!to->data) {
      fprintf(stderr, "out of memory\n");
      exit(EXIT_FAILURE);
    }
  }
  if (bytes) memcpy(to->data + to->bytes, data, bytes);
  to->bytes += bytes;
}

void message_varint(message *to, uint64_t value) {
  uint8_t byte;
  for (; value > 127; value >>= 7) {
    byte = (uint8_t)(value | 128);
    append(to, &byte, 1);
  }
  byte = (uint8_t)value;
  append(to, &byte, 1);
}

static void append_tag(message *to, uint32_t number, wire_type type) {
  message_varint(to, (uint64_t)number << 3 | type);
}

static void append_fixed(message *to, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) append(to, &(uint8_t){(uint8_t)(value >> 8 * i)}, 1);
}

void message_integer(message *to, uint32_t number, uint64_t value) {
  append_tag(to, number, WIRE_VARINT);
  message_varint(to, value);
}

void message_bytes(message *to, uint32_t number, const void *data, size_t bytes) {
  append_tag(to, number, WIRE_BYTES);
  message_varint(to, bytes);
  append(to, data, bytes);
}

void message_text(message *to, uint32_t number, const char *text) {
  message_bytes(to, number, text, strlen(text));
}

void message_take(message *to, uint32_t number, message *part) {
  message_bytes(to, number, part->data, part->bytes);
  message_release(part);
}

void message_join(message *to, message *part) {
  append(to, part->data, part->bytes);
  message_release(part);
}

void message_copy(message *to, const wire_field *field) {
  switch (field->type) {
  case WIRE_VARINT: message_integer(to, field->number, field->value); break;
  case WIRE_BYTES:
    message_bytes(to, field->number, field->bytes.at, wire_bytes(field->bytes));
    break;
  case WIRE_FIXED64:
  case WIRE_FIXED32:
    append_tag(to, field->number, field->type);
    append_fixed(to, field->value, field->type == WIRE_FIXED64 ? 8 : 4);
  }
}

void message_release(message *m) {
  free(m->data);
  *m = (message){0};
}

wire message_wire(const message *m) {
  return (wire){m->data, m->data + m->bytes};
}

wire message_find(wire from, uint32_t number) {
  wire found = {0};
  for (wire_field field; wire_next(&from, &field) == WIRE_FIELD;)
    if (field.number == number && field.type == WIRE_BYTES) found = field.bytes;
  return found;
}

uint64_t message_find_integer(wire from, uint32_t number) {
  uint64_t found = 0;
  for (wire_field field; wire_next(&from, &field) == WIRE_FIELD;)
    if (field.number == number && field.type == WIRE_VARINT) found = field.value;
  return found;
}
