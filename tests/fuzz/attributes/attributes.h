/* SPDX-License-Identifier: MIT */
/* Attributes of a kernel from random bytes, for fuzz_descriptor.c. */
#ifndef FUZZ_ATTRIBUTES_H
#define FUZZ_ATTRIBUTES_H

#include <math.h>

#include "fuzz/fuzz.h"
#include "support/samples/attributes.h"

typedef struct reader {
  const uint8_t *data;
  size_t left;
} reader;

static inline uint8_t byte(reader *r) {
  if (r->left == 0) return 0;
  r->left--;
  return *r->data++;
}

/* Mostly small; sometimes at the edges of its range. */
static inline int64_t number(reader *r) {
  static const int64_t wild[] = {INT64_MIN, INT64_MAX,        -1,     INT32_MAX, 65536,
                                 INT32_MIN, INT64_C(1) << 40, 1000003};
  uint8_t b = byte(r);
  return b < 240 ? b % 17 : wild[b & 7];
}

/* Mostly `usual`; sometimes any number. */
static inline double real(reader *r, double usual) {
  static const double wild[] = {(double)NAN, (double)INFINITY, -1, 0, 1e-30, 1e30, 0.5, 20};
  const uint8_t b = byte(r);
  return b < 250 ? usual : wild[b & 7];
}

static inline uint32_t bits(reader *r, uint32_t usual) {
  const uint8_t b = byte(r);
  return b < 250 ? b & usual : b * UINT32_C(77);
}

/* The reader of each kind. A new kind needs a file with its function. */
#define READ_KIND(code, number, name) void read_##name(reader *r, compute_##name##_attributes *a);
COMPUTE_KERNEL_KINDS(READ_KIND)
#undef READ_KIND

#endif
