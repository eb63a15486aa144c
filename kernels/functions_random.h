/* Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as
 * 1, 2, 3", SC 2011. How key and counter are made is fixed by COMPUTE_I_RANDOM. */

//@ random_words
/* Word 0 in the low half, word 1 in the high half. */
DEVICE u64 random_words(i64 key, i64 counter, u32 stream) {
  u32 key0 = (u32)(u64)key, key1 = (u32)((u64)key >> 32);
  u32 x0 = (u32)(u64)counter, x1 = (u32)((u64)counter >> 32), x2 = stream, x3 = 0;
  UNROLL
  for (int round = 0; round < 10; round++) {
    const u32 high0 = MUL_HI(x0, 0xD2511F53u), high2 = MUL_HI(x2, 0xCD9E8D57u);
    const u32 low0 = x0 * 0xD2511F53u, low2 = x2 * 0xCD9E8D57u;
    x0 = high2 ^ x1 ^ key0;
    x1 = low2;
    x2 = high0 ^ x3 ^ key1;
    x3 = low0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return (u64)x1 << 32 | x0;
}

//@ random_f32
DEVICE f32 random_f32(i64 key, i64 counter, u32 stream) {
  return (f32)(i32)((u32)random_words(key, counter, stream) >> 8) * 0x1p-24f;
}

//@ random_f64
DEVICE f64 random_f64(i64 key, i64 counter, u32 stream) {
  return (f64)(i64)(random_words(key, counter, stream) >> 11) * 0x1p-53;
}
