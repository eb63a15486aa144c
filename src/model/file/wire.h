/* SPDX-License-Identifier: MIT */
/* Protocol Buffers' wire format, read in place: a message is a run of fields, each a number, a
 * type and a value. protobuf-c would copy every byte field, that is all weights, to the heap, and
 * allocates as a length says before it has seen the bytes; ONNX needs a dozen messages of it. */
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

/* The next field of a message. */
wire_result wire_next(wire *message, wire_field *field);

/* A varint at the beginning of `bytes`, as packed fields have them; false at the end or if it is
 * malformed. */
bool wire_take_varint(wire *bytes, uint64_t *value);

/* The same for a little-endian number of `size` bytes, at most 8. */
bool wire_take_fixed(wire *bytes, size_t size, uint64_t *value);

static inline size_t wire_bytes(wire message) {
  return (size_t)(message.end - message.at);
}

#endif
