/* SPDX-License-Identifier: MIT */
/* Long sums in f32. The error of one running sum grows with its length. If SUM_PART is defined,
 * parts of that many terms are summed separately and then added to `total`. `total` is volatile to
 * keep it in memory, because registers hold the sums that every term needs.
 *
 * There are `sums` sums; `sum_i` is sum number i_, and `terms` is the number of terms that each
 * gets until the next SUM_PARTS_ADD. */
//@ sum_parts
#ifdef SUM_PART
#define SUM_PARTS_BEGIN(sums)                                                                      \
  volatile SUM total[sums];                                                                        \
  int summed = 0;                                                                                  \
  UNROLL for (int i_ = 0; i_ < (sums); i_++) total[i_] = 0;
#define SUM_PARTS_ADD(sums, sum_i, terms)                                                          \
  if (summed >= SUM_PART) {                                                                        \
    UNROLL for (int i_ = 0; i_ < (sums); i_++) {                                                   \
      total[i_] += sum_i;                                                                          \
      sum_i = 0;                                                                                   \
    }                                                                                              \
    summed = 0;                                                                                    \
  }                                                                                                \
  summed += (int)(terms);
#define SUM_PARTS_END(sums, sum_i) UNROLL for (int i_ = 0; i_ < (sums); i_++) sum_i += total[i_];
#else
#define SUM_PARTS_BEGIN(sums)
#define SUM_PARTS_ADD(sums, sum_i, terms)
#define SUM_PARTS_END(sums, sum_i)
#endif
#define TILE_SUM sum[i_ / ITEM_N][i_ % ITEM_N]
