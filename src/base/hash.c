/* hash_bytes: eight bytes at a time through the mixing step of hash_u64. The length goes in last,
 * so that trailing zeros count. */
#include "base/hash.h"

#include <string.h>

uint64_t hash_bytes(uint64_t seed, const void *data, size_t bytes) {
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
