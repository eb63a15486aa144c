/* SPDX-License-Identifier: MIT */
/* Running folds (prefix sums). Configured by
 *
 *   VALUE, FOLD(a, b), FOLD_IDENTITY, FOLD_IS_SUM      as fold
 *   SCAN_EXCLUSIVE                1: an element's result excludes the element
 *   SCAN_GROUP, SCAN_ITEMS        items of a group; elements of an item in a chunk
 *   SCAN_ELEMENT(place)           element of the current row, in the order of the scan
 *   SCAN_STORE(place, value)
 *   SCAN_PARTS                    1: rows are cut into parts of shape.share elements
 *   SCAN_TOTALS                   1: only the fold of each part is computed, as
 *                                 totals[part * rows + row]
 *
 * scan_item and scan_group are bodies of a loop over parts of rows, which sets `at`, `part`, `row`
 * and the offsets of the row.
 *
 * SCAN_ADD adds the fold of a block to a total; sums of floats compensate rounding errors. */
//@ scan
#if FOLD_IS_SUM
#define SCAN_ADD(total, value, lost) compensated(total, value, lost)
#else
#define SCAN_ADD(total, value, lost) FOLD(total, value)
#endif
#define SCAN_BLOCK 32

/* Scans a part of a row by one item, in blocks. Configured as scan. */
//@ scan_item
const INDEX begin_part = part * shape.share;
const INDEX end_part =
    shape.length - begin_part < shape.share ? shape.length : begin_part + shape.share;
VALUE carry = FOLD_IDENTITY;
#if FOLD_IS_SUM
VALUE lost = 0;
#endif
#if SCAN_PARTS && !SCAN_TOTALS
for (INDEX before = 0; before < part; before++)
  carry = SCAN_ADD(carry, totals[before * shape.rows + row], &lost);
#endif
for (INDEX block = begin_part; block < end_part; block += SCAN_BLOCK) {
  const INDEX end_block = end_part - block < SCAN_BLOCK ? end_part : block + SCAN_BLOCK;
  VALUE sum = FOLD_IDENTITY;
  for (INDEX place = block; place < end_block; place++) {
    const VALUE element = SCAN_ELEMENT(place);
#if SCAN_TOTALS
    sum = FOLD(sum, element);
#else
#if SCAN_EXCLUSIVE
    const VALUE value = FOLD(carry, sum);
    sum = FOLD(sum, element);
#else
    sum = FOLD(sum, element);
    const VALUE value = FOLD(carry, sum);
#endif
    SCAN_STORE(place, value)
#endif
  }
  carry = SCAN_ADD(carry, sum, &lost);
}
#if SCAN_TOTALS
totals[at] = carry;
#endif

/* Scans a part of a row by a group, in chunks. Elements are read into local memory in memory order.
 * Each item folds SCAN_ITEMS neighbours, the items' folds are scanned, and the results are written
 * back the same way. One slot of padding follows every SCAN_ITEMS slots, to keep items off each
 * other's banks. Configured as scan. */
//@ scan_group
const INDEX begin_part = part * shape.share;
const INDEX end_part =
    shape.length - begin_part < shape.share ? shape.length : begin_part + shape.share;
VALUE carry = FOLD_IDENTITY;
#if FOLD_IS_SUM
VALUE lost = 0;
#endif
#if SCAN_TOTALS
for (INDEX place = begin_part + lane; place < end_part; place += SCAN_GROUP)
  carry = SCAN_ADD(carry, SCAN_ELEMENT(place), &lost);
BARRIER();
tile[lane] = carry;
for (int width = SCAN_GROUP / 2; width > 0; width /= 2) {
  BARRIER();
  if (lane < width) tile[lane] = FOLD(tile[lane], tile[lane + width]);
}
if (lane == 0) totals[at] = tile[0];
#else
#if SCAN_PARTS
for (INDEX before = 0; before < part; before++)
  carry = SCAN_ADD(carry, totals[before * shape.rows + row], &lost);
#endif
for (INDEX chunk = begin_part; chunk < end_part; chunk += SCAN_GROUP * SCAN_ITEMS) {
  UNROLL for (int u = 0; u < SCAN_ITEMS; u++) {
    const int slot = u * SCAN_GROUP + lane;
    const INDEX place = chunk + slot;
    VALUE element = FOLD_IDENTITY;
    if (place < end_part) element = SCAN_ELEMENT(place);
    tile[slot + slot / SCAN_ITEMS] = element;
  }
  BARRIER();
  VALUE own[SCAN_ITEMS];
  VALUE sum = FOLD_IDENTITY;
  UNROLL for (int u = 0; u < SCAN_ITEMS; u++) {
#if SCAN_EXCLUSIVE
    own[u] = sum;
    sum = FOLD(sum, tile[lane * (SCAN_ITEMS + 1) + u]);
#else
    sum = FOLD(sum, tile[lane * (SCAN_ITEMS + 1) + u]);
    own[u] = sum;
#endif
  }
  int from = 0;
  sums[lane] = sum;
  for (int width = 1; width < SCAN_GROUP; width *= 2) {
    BARRIER();
    if (lane >= width) sum = FOLD(sums[from + lane - width], sum);
    from = SCAN_GROUP - from;
    sums[from + lane] = sum;
  }
  BARRIER();
  const VALUE before = lane > 0 ? FOLD(carry, sums[from + lane - 1]) : carry;
  UNROLL for (int u = 0; u < SCAN_ITEMS; u++)
    tile[lane * (SCAN_ITEMS + 1) + u] = FOLD(before, own[u]);
  carry = SCAN_ADD(carry, sums[from + SCAN_GROUP - 1], &lost);
  BARRIER();
  UNROLL for (int u = 0; u < SCAN_ITEMS; u++) {
    const int slot = u * SCAN_GROUP + lane;
    const INDEX place = chunk + slot;
    if (place < end_part) {
      const VALUE value = tile[slot + slot / SCAN_ITEMS];
      SCAN_STORE(place, value)
    }
  }
}
#endif
