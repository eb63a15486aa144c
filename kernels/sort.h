/* SPDX-License-Identifier: MIT */
/* Sorting rows. Configured by what top_k of top_k.h is configured by (TOP_GROUP, TOP_LENGTH and
 * TOP_BARRIER for TOP_SORT), and
 *
 *   SORT_STORE(rank, place)   the element at `place` of the row at hand as its result `rank` */

/* NaN, which comes last in either order, is as what has no place; that loses to it by position. */
//@ sort
DEVICE KEY sort_key(VALUE element) {
  KEY key = top_key(element);
#if KEY_IS_REAL && !TOP_SMALLEST
  key = key == ~(KEY)0 ? 0 : key;
#endif
  return key;
}

/* The body of a loop over elements: element `place` of a short row is written after all that beat
 * it. */
//@ sort_count
const KEY key = sort_key(TOP_ELEMENT(place));
INDEX rank = 0;
for (INDEX other = 0; other < shape.length; other++) {
  rank += top_beats(sort_key(TOP_ELEMENT(other)), other, key, place) ? 1 : 0;
}
SORT_STORE(rank, place)

/* The body of a loop over blocks of TOP_LENGTH elements of a row, each by a group, from position
 * `first` of the row: in local memory, then to the workspace (SORT_RUNS) or, if it is all of the
 * row, to where it belongs. */
//@ sort_block
const INDEX left = shape.length - first;
const INDEX count = left < TOP_LENGTH ? left : TOP_LENGTH;
BARRIER();
for (INDEX i = lane; i < TOP_LENGTH; i += TOP_GROUP) {
  keys[i] = 0;
  places[i] = TOP_NOWHERE;
  if (i < count) {
    keys[i] = sort_key(TOP_ELEMENT(first + i));
    places[i] = first + i;
  }
}
TOP_SORT
for (INDEX i = lane; i < count; i += TOP_GROUP) {
#if SORT_RUNS
  run_keys[row * shape.length + first + i] = keys[i];
  run_places[row * shape.length + first + i] = places[i];
#else
  SORT_STORE(i, places[i])
#endif
}

/* The body of a loop over elements: element i of a row's sorted runs of shape.run elements, some
 * neighbours of which become one run of shape.span, is written after all that beat it: those in
 * front of it in its own run, and in the others as many as a binary search finds. To the workspace,
 * or (SORT_LAST) to where it belongs. */
//@ sort_merge
const INDEX base = row * shape.length;
const KEY key = from_keys[base + i];
const INDEX place = from_places[base + i];
const INDEX own = DIVIDE(i, shape.run) * shape.run;
const INDEX begin = DIVIDE(i, shape.span) * shape.span;
const INDEX end = shape.length - begin < shape.span ? shape.length : begin + shape.span;
INDEX rank = begin + (i - own);
for (INDEX start = begin; start < end; start += shape.run) {
  if (start != own) {
    INDEX low = start, high = end - start < shape.run ? end : start + shape.run;
    while (low < high) {
      const INDEX middle = low + (high - low) / 2;
      if (top_beats(from_keys[base + middle], from_places[base + middle], key, place)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    rank += low - start;
  }
}
#if SORT_LAST
SORT_STORE(rank, place)
#else
to_keys[base + rank] = key;
to_places[base + rank] = place;
#endif
