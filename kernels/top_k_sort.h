/* The body of a loop over rows, each sorted by a group in a part of the workspace of its own.
 * Configured as top_k.h. */
TOP_BARRIER;
for (INDEX place = lane; place < shape.window; place += TOP_GROUP) {
  KEY key = 0;
  if (place < shape.length) key = top_key(TOP_ELEMENT(place));
  keys[place] = key;
  places[place] = place < shape.length ? place : TOP_NOWHERE;
}
TOP_SORT
for (INDEX rank = lane; rank < shape.wanted; rank += TOP_GROUP) { TOP_STORE(rank, places[rank]) }
