/* The best elements of a row one after the other: each is the best of those that the one before
 * beats. Configured as top_k.h. */
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
