/* SPDX-License-Identifier: MIT */
/* A 64-bit hash for tables in memory. Not for keys that an adversary may choose, and not for
 * files. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH_SEED UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t hash_u64(uint64_t seed, uint64_t value) {
  uint64_t x = (seed ^ value) * UINT64_C(0xff51afd7ed558ccd);
  x ^= x >> 32;
  x *= UINT64_C(0xc4ceb9fe1a85ec53);
  return x ^ (x >> 29);
}

/* Mixes eight bytes at a time with hash_u64. The length is mixed in last, so that trailing zeros
 * matter. */
static inline uint64_t hash_bytes(uint64_t seed, const void *data, size_t bytes) {
  const unsigned char *p = data;
  uint64_t hash = seed;
  size_t left = bytes;
  for (; left >= 8; left -= 8, p += 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    hash = hash_u64(hash, word);
  }
  if (left > 0) {
    uint64_t word = 0;
    memcpy(&word, p, left);
    hash = hash_u64(hash, word);
  }
  return hash_u64(hash, bytes);
}

#endif
