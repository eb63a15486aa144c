/* Order of elements. Configured by
 *
 *   VALUE             type of elements
 *   KEY, KEY_BITS(x)  an unsigned type as large, and the element as one, bit by bit
 *   KEY_IS_REAL       whether elements are floats; KEY_INFINITY: the bits of infinity
 *   KEY_TOP_BIT       the number of the sign's bit
 *   TOP_SMALLEST      whether the smallest are asked for
 *   TOP_NOWHERE       a position past all others
 *   TOP_ELEMENT(place), TOP_STORE(rank, place)      of the row at hand
 *
 * A larger key comes first, of equal ones that of the lower place. NaN is larger than all numbers,
 * and zeros are equal. What has no place has key 0 and loses to everything. */
DEVICE KEY top_key(VALUE element) {
  KEY bits = KEY_BITS(element);
  const KEY sign = (KEY)1 << KEY_TOP_BIT;
#if KEY_IS_REAL
  const boolean is_nan = (bits & ~sign) > KEY_INFINITY;
  bits = (bits & ~sign) == 0 ? 0 : bits;
  bits = bits & sign ? ~bits : bits | sign;
  bits = is_nan ? ~(KEY)0 : bits;
#else
  bits ^= sign;
#endif
#if TOP_SMALLEST
  bits = ~bits;
#endif
  return bits;
}

DEVICE boolean top_beats(KEY a, INDEX a_place, KEY b, INDEX b_place) {
  return (a > b) | ((a == b) & (a_place < b_place));
}

/* Sorts keys and places 0 … TOP_LENGTH − 1, a power of two, the best first (K. E. Batcher, "Sorting
 * networks and their applications", 1968). All items take part; it begins and ends with a barrier.
 * Positions are those of TOP_LENGTH elements, so they fit an INDEX. */
#define TOP_SORT                                                                                   \
  for (INDEX size = 2; size <= TOP_LENGTH; size *= 2) {                                            \
    for (INDEX apart = size / 2; apart > 0; apart /= 2) {                                          \
      TOP_BARRIER;                                                                                 \
      for (INDEX pair = lane; pair < TOP_LENGTH / 2; pair += TOP_GROUP) {                          \
        const INDEX a = 2 * pair - (pair & (apart - 1)), b = a + apart;                            \
        const KEY a_key = keys[a], b_key = keys[b];                                                \
        const INDEX a_place = places[a], b_place = places[b];                                      \
        const boolean turned = (a & size) != 0;                                                    \
        if (turned ? top_beats(a_key, a_place, b_key, b_place)                                     \
                   : top_beats(b_key, b_place, a_key, a_place)) {                                  \
          keys[a] = b_key;                                                                         \
          keys[b] = a_key;                                                                         \
          places[a] = b_place;                                                                     \
          places[b] = a_place;                                                                     \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  TOP_BARRIER;
