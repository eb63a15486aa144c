/* A part of a row by one item, in blocks. Configured as scan.h. */
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
