/* SPDX-License-Identifier: MIT */
/* Sorting of rows. Configured as top_k of top_k.h (TOP_GROUP, TOP_LENGTH and TOP_BARRIER for
 * TOP_SORT), and by
 *
 *   SORT_STORE(rank, place)   stores the element at `place` of the current row as result `rank` */

/* NaN comes last in either order, so it gets the key of a missing element, which then loses by
 * position. */
//@ sort
DEVICE KEY sort_key(VALUE element) {
  KEY key = top_key(element);
#if KEY_IS_REAL && !TOP_SMALLEST
  key = key == ~(KEY)0 ? 0 : key;
#endif
  return key;
}

/* The body of a loop over elements: stores element `place` of a short row after all elements that
 * beat it. */
//@ sort_count
const KEY key = sort_key(TOP_ELEMENT(place));
INDEX rank = 0;
for (INDEX other = 0; other < shape.length; other++) {
  rank += top_beats(sort_key(TOP_ELEMENT(other)), other, key, place) ? 1 : 0;
}
SORT_STORE(rank, place)

/* The body of a loop over blocks of TOP_LENGTH elements of a row, from position `first` on, each by
 * a group. It sorts the block in local memory, and writes it to the workspace (SORT_RUNS), or to
 * the result if the block is the whole row. */
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

/* The body of a loop over elements: merges neighbouring sorted runs of shape.run elements into runs
 * of shape.span. Element i is written after all elements that beat it: the elements in front of it
 * in its run, and in each other run as many as a binary search finds. Writes to the workspace, or
 * with SORT_LAST to the result. */
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
