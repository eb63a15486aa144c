/* SPDX-License-Identifier: MIT */
/* Long sums in f32. One running sum loses what it adds last: its error grows with its length. Where
 * SUM_PART is defined, so many terms are summed by themselves and then added to `total`. That is
 * volatile, so that it is in memory: registers hold the sums that every term needs.
 *
 * `sums` of them; `sum_i` is sum number i_, `terms` how many terms each gets until the next
 * SUM_PARTS_ADD. */
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
