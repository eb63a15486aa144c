/* SPDX-License-Identifier: MIT */
/* Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2,
 * 3", SC 2011. COMPUTE_I_RANDOM defines how key and counter are made. */

//@ random_four
typedef struct random_four {
  u32 word0, word1, word2, word3;
} random_four;

//@ random_words
DEVICE random_four random_words(i64 key, i64 counter, u32 stream) {
  u32 key0 = (u32)(u64)key, key1 = (u32)((u64)key >> 32);
  u32 x0 = (u32)(u64)counter, x1 = (u32)((u64)counter >> 32), x2 = stream, x3 = 0;
  UNROLL
  for (int round = 0; round < 10; round++) {
    const u64 product0 = (u64)x0 * 0xD2511F53u, product2 = (u64)x2 * 0xCD9E8D57u;
    x0 = (u32)(product2 >> 32) ^ x1 ^ key0;
    x1 = (u32)product2;
    x2 = (u32)(product0 >> 32) ^ x3 ^ key1;
    x3 = (u32)product0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  random_four words;
  words.word0 = x0;
  words.word1 = x1;
  words.word2 = x2;
  words.word3 = x3;
  return words;
}

//@ random_f32
DEVICE f32 random_f32(i64 key, i64 counter, u32 stream) {
  return (f32)(i32)(random_words(key, counter, stream).word0 >> 8) * 0x1p-24f;
}

//@ random_f64
/* 53 bits of word1 : word0 with word1 on top. The words are converted separately, because whole
 * 64-bit integers have no vector conversion before AVX-512. Both conversions and the sum are
 * exact. */
DEVICE f64 random_f64(i64 key, i64 counter, u32 stream) {
  const random_four words = random_words(key, counter, stream);
  const f64 high = (f64)(i32)(words.word1 ^ 0x80000000u) + 0x1p31;
  return high * 0x1p-32 + (f64)(i32)(words.word0 >> 11) * 0x1p-53;
}
