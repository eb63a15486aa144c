/* SPDX-License-Identifier: MIT */
/* The order of elements. Configured by
 *
 *   VALUE             type of elements
 *   KEY, KEY_BITS(x)  an unsigned type of the same size, and the element's bits in it
 *   KEY_IS_REAL       1: elements are floats; KEY_INFINITY: the bits of infinity
 *   KEY_TOP_BIT       the number of the sign bit
 *   TOP_SMALLEST      1: the smallest elements come first
 *   TOP_NOWHERE       a position past all others
 *   TOP_ELEMENT(place), TOP_STORE(rank, place)      for the current row
 *
 * A larger key comes first; among equal keys, the lower position. NaN is larger than all numbers,
 * and zeros are equal. A missing element has key 0 and loses to everything. */
//@ top_k
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

/* Sorts keys and places 0 … TOP_LENGTH − 1, a power of two, with the best first (K. E. Batcher,
 * "Sorting networks and their applications", 1968). All items take part; it begins and ends with a
 * barrier. Positions are below TOP_LENGTH, so they fit an INDEX. */
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

/* Finds the best elements of a row one after the other: each is the best of the elements that the
 * previous one beats. Configured as top_k. */
//@ top_k_plain
KEY last_key = 0;
INDEX last_place = -1;
for (INDEX rank = 0; rank < shape.wanted; rank++) {
  KEY best_key = 0;
  INDEX best_place = TOP_NOWHERE;
  for (INDEX place = 0; place < shape.length; place++) {
    const KEY key = top_key(TOP_ELEMENT(place));
    const boolean left = (rank == 0) | top_beats(last_key, last_place, key, place);
    if (left & top_beats(key, place, best_key, best_place)) {
      best_key = key;
      best_place = place;
    }
  }
  TOP_STORE(rank, best_place)
  last_key = best_key;
  last_place = best_place;
}

/* The body of a loop over rows, or with TOP_PARTS over parts of rows, each by a group. Each item
 * keeps a sorted list of its best TOP_LIST elements. Then the best head of all lists is taken
 * repeatedly, and its list advances. TOP_MERGE: elements are the best of the parts, from the
 * workspace. Configured as top_k. */
//@ top_k_lists
KEY list_keys[TOP_LIST];
INDEX list_places[TOP_LIST];
UNROLL for (int j = 0; j < TOP_LIST; j++) {
  list_keys[j] = 0;
  list_places[j] = TOP_NOWHERE;
}
#if TOP_MERGE
const INDEX begin_part = 0, end_part = shape.candidates;
#elif TOP_PARTS
const INDEX begin_part = part * shape.share;
const INDEX end_part =
    shape.length - begin_part < shape.share ? shape.length : begin_part + shape.share;
#else
const INDEX begin_part = 0, end_part = shape.length;
#endif
for (INDEX place = begin_part + lane; place < end_part; place += TOP_GROUP) {
#if TOP_MERGE
  KEY key = keys[row * shape.candidates + place];
  INDEX at_place = places[row * shape.candidates + place];
#else
  KEY key = top_key(TOP_ELEMENT(place));
  INDEX at_place = place;
#endif
  if (top_beats(key, at_place, list_keys[TOP_LIST - 1], list_places[TOP_LIST - 1])) {
    UNROLL for (int j = 0; j < TOP_LIST; j++) {
      const KEY held_key = list_keys[j];
      const INDEX held_place = list_places[j];
      const boolean beats = top_beats(key, at_place, held_key, held_place);
      list_keys[j] = beats ? key : held_key;
      list_places[j] = beats ? at_place : held_place;
      key = beats ? held_key : key;
      at_place = beats ? held_place : at_place;
    }
  }
}
for (INDEX rank = 0; rank < shape.wanted; rank++) {
  BARRIER();
  head_keys[lane] = list_keys[0];
  head_places[lane] = list_places[0];
  for (int width = TOP_GROUP / 2; width > 0; width /= 2) {
    BARRIER();
    if (lane < width) {
      const KEY other_key = head_keys[lane + width];
      const INDEX other_place = head_places[lane + width];
      if (top_beats(other_key, other_place, head_keys[lane], head_places[lane])) {
        head_keys[lane] = other_key;
        head_places[lane] = other_place;
      }
    }
  }
  BARRIER();
  const KEY best_key = head_keys[0];
  const INDEX best_place = head_places[0];
  if (lane == 0) {
#if TOP_PARTS
    keys[row * shape.candidates + part * shape.wanted + rank] = best_key;
    places[row * shape.candidates + part * shape.wanted + rank] = best_place;
#else
    TOP_STORE(rank, best_place)
#endif
  }
  if (list_places[0] == best_place) {
    UNROLL for (int j = 0; j + 1 < TOP_LIST; j++) {
      list_keys[j] = list_keys[j + 1];
      list_places[j] = list_places[j + 1];
    }
    list_keys[TOP_LIST - 1] = 0;
    list_places[TOP_LIST - 1] = TOP_NOWHERE;
  }
}

/* The body of a loop over rows, each by a group. Elements that beat the last of the best so far are
 * collected after them in local memory, in any order. When the next round may not fit, all are
 * sorted. Configured as top_k, and by TOP_ROUND: elements of an item in a round, and TOP_WINDOW:
 * elements that local memory holds, a power of two, at least shape.wanted plus a round. */
//@ top_k_gather
KEY bar_key = 0;
INDEX bar_place = TOP_NOWHERE;
BARRIER();
if (lane == 0) filled[0] = 0;
BARRIER();
for (INDEX start = 0; start < shape.length; start += TOP_GROUP * TOP_ROUND) {
  for (int u = 0; u < TOP_ROUND; u++) {
    const INDEX place = start + u * TOP_GROUP + lane;
    if (place < shape.length) {
      const KEY key = top_key(TOP_ELEMENT(place));
      if (top_beats(key, place, bar_key, bar_place)) {
        const i32 slot = ATOMIC_ADD(&filled[0], 1);
        keys[slot] = key;
        places[slot] = place;
      }
    }
  }
  BARRIER();
  const int count = filled[0];
  BARRIER();
  const boolean is_last = shape.length - start <= TOP_GROUP * TOP_ROUND;
  if (is_last || count > TOP_WINDOW - TOP_GROUP * TOP_ROUND) {
    for (int slot = count + lane; slot < TOP_WINDOW; slot += TOP_GROUP) {
      keys[slot] = 0;
      places[slot] = TOP_NOWHERE;
    }
    TOP_SORT
    bar_key = keys[shape.wanted - 1];
    bar_place = places[shape.wanted - 1];
    if (lane == 0) filled[0] = (i32)shape.wanted;
    BARRIER();
  }
}
for (INDEX rank = lane; rank < shape.wanted; rank += TOP_GROUP) {
  TOP_STORE(rank, places[rank])
}

/* The body of a loop over rows, each sorted by a group in a separate part of the workspace.
 * Configured as top_k. */
//@ top_k_sort
TOP_BARRIER;
for (INDEX place = lane; place < shape.window; place += TOP_GROUP) {
  KEY key = 0;
  if (place < shape.length) key = top_key(TOP_ELEMENT(place));
  keys[place] = key;
  places[place] = place < shape.length ? place : TOP_NOWHERE;
}
TOP_SORT
for (INDEX rank = lane; rank < shape.wanted; rank += TOP_GROUP) {
  TOP_STORE(rank, places[rank])
}
