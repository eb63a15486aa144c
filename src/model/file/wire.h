/* SPDX-License-Identifier: MIT */
/* Protocol Buffers' wire format, read in place: a message is a sequence of fields, each with a
 * number, a type and a value. protobuf-c would copy all byte fields, including all weights, to
 * the heap, and it allocates a length before it checks that the bytes exist. ONNX needs only a
 * dozen message types. */
#ifndef MODEL_WIRE_H
#define MODEL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wire {
  const uint8_t *at, *end;
} wire;

typedef enum wire_type {
  WIRE_VARINT = 0,
  WIRE_FIXED64 = 1,
  WIRE_BYTES = 2,
  WIRE_FIXED32 = 5
} wire_type;

typedef struct wire_field {
  uint32_t number;
  wire_type type;
  uint64_t value; /* VARINT, FIXED64, FIXED32 */
  wire bytes;     /* BYTES: inside the message */
} wire_field;

typedef enum wire_result { WIRE_END, WIRE_FIELD, WIRE_MALFORMED } wire_result;

/* Reads the next field of a message. */
wire_result wire_next(wire *message, wire_field *field);

/* Reads a varint at the start of `bytes`, for packed fields. Returns false at the end or if it
 * is malformed. */
bool wire_take_varint(wire *bytes, uint64_t *value);

/* Reads a little-endian number of `size` ≤ 8 bytes. */
bool wire_take_fixed(wire *bytes, size_t size, uint64_t *value);

static inline size_t wire_bytes(wire message) {
  return (size_t)(message.end - message.at);
}

#endif
