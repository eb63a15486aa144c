/* SPDX-License-Identifier: MIT */
/* Counts of small integers in rows, or sums of weights. A group has a tile of the bins in local
 * memory, and reads a part of a row. Configured by
 *
 *   BIN_GROUP            items of a group, a power of two
 *   BIN_TILE             bins of a tile
 *   BIN_AT(i)            offset of element i of the current row
 *   BIN_FAULT(at)        notes that the element at this offset is outside the bins
 *   BIN_STORE(bin, sum)  stores the sum of a bin */

/* Finds `place`, the element's bin in the tile, or −1. */
//@ bincount
#define BIN_FIND(i)                                                                                \
  i32 place = -1;                                                                                  \
  {                                                                                                \
    const INDEX at_ = BIN_AT(i);                                                                   \
    const i64 value_ = in0[at_];                                                                   \
    if ((u64)value_ >= (u64)shape.bins) {                                                          \
      BIN_FAULT(at_)                                                                               \
    } else if (value_ >= begin && value_ - begin < BIN_TILE) {                                     \
      place = (i32)(value_ - begin);                                                               \
    }                                                                                              \
  }

/* The body of a loop over tiles of parts of rows: elements first … last − 1, bins from `begin` on.
 * The order of counts does not matter. */
//@ bincount_counts
for (int i = lane; i < BIN_TILE; i += BIN_GROUP) sums[i] = 0;
BARRIER();
for (INDEX i = first + lane; i < last; i += BIN_GROUP) {
  BIN_FIND(i)
  if (place >= 0) ATOMIC_ADD(&sums[place], 1);
}
BARRIER();
for (int i = lane; i < BIN_TILE && i < shape.bins - begin; i += BIN_GROUP) {
  BIN_STORE(begin + i, sums[i])
}

/* The same with weights, VALUEs from BIN_WEIGHT(i). The group reads BIN_CHUNK elements together.
 * Then each item adds up its bins, in order: so every run gives the same bits. */
//@ bincount_weights
for (int i = lane; i < BIN_TILE; i += BIN_GROUP) {
  sums[i] = 0;
  losts[i] = 0;
}
for (INDEX start = first; start < last; start += BIN_CHUNK) {
  const int count = last - start < BIN_CHUNK ? (int)(last - start) : BIN_CHUNK;
  BARRIER();
  for (int i = lane; i < count; i += BIN_GROUP) {
    BIN_FIND(start + i)
    places[i] = place;
    weights[i] = BIN_WEIGHT(start + i);
  }
  BARRIER();
  for (int i = 0; i < count; i++) {
    const i32 place = places[i];
    if (place >= 0 && (place & (BIN_GROUP - 1)) == lane) {
      VALUE lost = losts[place];
      sums[place] = compensated(sums[place], weights[i], &lost);
      losts[place] = lost;
    }
  }
}
for (int i = lane; i < BIN_TILE && i < shape.bins - begin; i += BIN_GROUP) {
  BIN_STORE(begin + i, sums[i])
}
