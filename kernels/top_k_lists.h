/* The body of a loop over rows, or (TOP_PARTS) parts of rows, each by a group. Items keep the best
 * TOP_LIST elements of those they read, in order; then the best of all heads is taken, and its list
 * moves up. TOP_MERGE: elements are the best of the parts, from the workspace. Configured as
 * top_k.h. */
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
