/* A 64-bit hash for tables in memory (not for keys that an adversary chooses, nor for files). */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_SEED UINT64_C(0x9e3779b97f4a7c15)

uint64_t hash_bytes(uint64_t seed, const void *data, size_t bytes);

static inline uint64_t hash_u64(uint64_t seed, uint64_t value) {
  uint64_t x = (seed ^ value) * UINT64_C(0xff51afd7ed558ccd);
  x ^= x >> 32;
  x *= UINT64_C(0xc4ceb9fe1a85ec53);
  return x ^ (x >> 29);
}

#endif
