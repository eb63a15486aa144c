/* The body of a loop over rows, each by a group. What beats the last of the best so far gathers in
 * local memory behind them, in whatever order; when a round may not fit any more, all is sorted.
 * Configured as top_k.h; TOP_ROUND: elements of an item in a round; TOP_WINDOW: elements that local
 * memory holds, a power of two, at least shape.wanted and a round. */
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
for (INDEX rank = lane; rank < shape.wanted; rank += TOP_GROUP) { TOP_STORE(rank, places[rank]) }
