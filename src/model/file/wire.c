/* SPDX-License-Identifier: MIT */
/* Protocol Buffers' wire format. Strict: a varint has at most 64 bits in at most 10 bytes.
 * Groups are malformed, because ONNX has never used them. */
#include "model/file/wire.h"

bool wire_take_varint(wire *bytes, uint64_t *value) {
  uint64_t result = 0;
  for (unsigned shift = 0; shift < 64 && bytes->at < bytes->end; shift += 7) {
    const uint64_t byte = *bytes->at++;
    if (shift == 63 && byte > 1) return false;
    result |= (byte & 127) << shift;
    if (byte < 128) {
      *value = result;
      return true;
    }
  }
  return false;
}

bool wire_take_fixed(wire *bytes, size_t size, uint64_t *value) {
  if (wire_bytes(*bytes) < size) return false;
  uint64_t result = 0;
  for (size_t i = size; i-- > 0;) result = result << 8 | bytes->at[i];
  bytes->at += size;
  *value = result;
  return true;
}

static bool take_value(wire *message, wire_field *field) {
  uint64_t length;
  switch (field->type) {
  case WIRE_VARINT: return wire_take_varint(message, &field->value);
  case WIRE_FIXED64: return wire_take_fixed(message, 8, &field->value);
  case WIRE_FIXED32: return wire_take_fixed(message, 4, &field->value);
  case WIRE_BYTES:
    if (!wire_take_varint(message, &length) || length > wire_bytes(*message)) return false;
    field->bytes = (wire){message->at, message->at + length};
    message->at += length;
    return true;
  }
  return false;
}

wire_result wire_next(wire *message, wire_field *field) {
  uint64_t tag;
  if (message->at == message->end) return WIRE_END;
  if (!wire_take_varint(message, &tag) || tag > UINT32_MAX || tag < 8) return WIRE_MALFORMED;
  *field = (wire_field){.number = (uint32_t)(tag >> 3), .type = (wire_type)(tag & 7)};
  return take_value(message, field) ? WIRE_FIELD : WIRE_MALFORMED;
}
