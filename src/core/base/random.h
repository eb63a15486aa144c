/* SPDX-License-Identifier: MIT */
/* Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
 * 2011), with the counter layout of COMPUTE_I_RANDOM in compute/backend/kernel_descriptor.h. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

/* Computes all four words for a key and a counter of four words. */
static inline void random_block(uint64_t key, const uint32_t counter[4], uint32_t words[4]) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)c0 * 0xD2511F53u, p1 = (uint64_t)c2 * 0xCD9E8D57u;
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  words[0] = c0;
  words[1] = c1;
  words[2] = c2;
  words[3] = c3;
}

/* Computes the first two words for a key, a counter and a stream. */
static inline void random_words(uint64_t key, uint64_t counter, uint32_t stream, uint32_t *word0,
                                uint32_t *word1) {
  const uint32_t place[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), stream, 0};
  uint32_t words[4];
  random_block(key, place, words);
  *word0 = words[0];
  *word1 = words[1];
}

/* A step of SplitMix64 (Steele, Lea and Flood, 2014): mixes the bits of a seed or a counter. */
static inline uint64_t random_mix(uint64_t counter) {
  uint64_t x = counter + UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* A number that differs from call to call, thread to thread and process to process. Not for
 * secrets. */
uint64_t random_fresh(void);

/* Uniform in [0, 1). */
static inline float random_f32(uint64_t key, uint64_t counter, uint32_t stream) {
  uint32_t word0, word1;
  random_words(key, counter, stream, &word0, &word1);
  return (float)(word0 >> 8) * 0x1p-24f;
}

static inline double random_f64(uint64_t key, uint64_t counter, uint32_t stream) {
  uint32_t word0, word1;
  random_words(key, counter, stream, &word0, &word1);
  return (double)(((uint64_t)word1 << 32 | word0) >> 11) * 0x1p-53;
}

#endif
