/* A part of a row by a group, in chunks: elements come into local memory in the order of memory,
 * each item folds SCAN_ITEMS neighbours, the items' folds are scanned, and the results go back the
 * same way. The slots of neighbours lie one apart after SCAN_ITEMS, which keeps items out of each
 * other's banks. Configured as scan.h. */
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
