/* Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as
 * 1, 2, 3", SC 2011. How key and counter are made is fixed by COMPUTE_I_RANDOM. */
#ifndef CPU_ISA_RANDOM_H
#define CPU_ISA_RANDOM_H

#include "tile_loops.h"

/* Writes words 0 and 1 of the block. */
CPU_INLINE void philox_words(uint64_t key, uint64_t counter, uint32_t stream, uint32_t *word0,
                             uint32_t *word1) {
  uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
  uint32_t x0 = (uint32_t)counter, x1 = (uint32_t)(counter >> 32), x2 = stream, x3 = 0;
  for (int round = 0; round < 10; round++) {
    const uint64_t product0 = (uint64_t)x0 * 0xD2511F53u, product2 = (uint64_t)x2 * 0xCD9E8D57u;
    x0 = (uint32_t)(product2 >> 32) ^ x1 ^ key0;
    x1 = (uint32_t)product2;
    x2 = (uint32_t)(product0 >> 32) ^ x3 ^ key1;
    x3 = (uint32_t)product0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  *word0 = x0;
  *word1 = x1;
}

CPU_INLINE float random_f32(int64_t key, int64_t counter, int64_t stream) {
  uint32_t word0, word1;
  philox_words((uint64_t)key, (uint64_t)counter, (uint32_t)stream, &word0, &word1);
  return (float)(int32_t)(word0 >> 8) * 0x1p-24f;
}

/* 53 bits of word1 : word0 with word1 on top. The halves are converted apart: whole 64-bit integers
 * have no vector conversion before AVX-512, and both parts and their sum are exact. */
CPU_INLINE double random_f64(int64_t key, int64_t counter, int64_t stream) {
  uint32_t word0, word1;
  philox_words((uint64_t)key, (uint64_t)counter, (uint32_t)stream, &word0, &word1);
  const double high = (double)(int32_t)(word1 ^ 0x80000000u) + 0x1p31;
  return high * 0x1p-32 + (double)(int32_t)(word0 >> 11) * 0x1p-53;
}

#endif
