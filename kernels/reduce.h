/* SPDX-License-Identifier: MIT */
/* The body of a kernel: one pass of a reduction by groups of items.
 *
 * A group folds REDUCE_COLUMNS results. For each, REDUCE_LANES items take every REDUCE_LANES-th
 * element, and a tree in local memory combines their partial results. Neighbouring items take
 * neighbouring elements of one result, or with REDUCE_ACROSS of neighbouring results, whichever are
 * contiguous in memory. Each item keeps REDUCE_UNROLL partial results, so that as many loads are
 * pending. It restarts them after REDUCE_BLOCK rounds, to keep the rounding errors of sums small.
 *
 * GROUP_ID_Y is the group's part of the reduced elements.
 *
 * The surrounding code defines the macros KEPT_OFFSETS(kept), REDUCED_OFFSETS(element), ELEMENT,
 * PLACE and FINISH(kept, value, place). If REDUCE_ALIGNED allows loading REDUCE_VECTOR neighbours
 * at once, it also defines VECTOR_ELEMENTS(0, values), used after the offsets of the first. */
//@ reduce_group
#if REDUCE_LANES > 1
LOCAL_ARRAY(VALUE, room, REDUCE_GROUP);
#ifdef FOLD_MORE
LOCAL_ARRAY(INDEX, room_places, REDUCE_GROUP);
#endif
#endif
const u32 item = LOCAL_ID_X;
#if REDUCE_ACROSS
const u32 lane = item / REDUCE_COLUMNS, column = item % REDUCE_COLUMNS;
#else
const u32 lane = item % REDUCE_LANES, column = item / REDUCE_LANES;
#endif
const INDEX first = (INDEX)GROUP_ID_Y * shape.share;
const INDEX end = shape.count - first < shape.share ? shape.count : first + shape.share;
for (INDEX tile = (INDEX)GROUP_ID_X; tile < shape.tiles; tile += (INDEX)GROUP_COUNT_X) {
  const INDEX kept = tile * REDUCE_COLUMNS + (INDEX)column;
  const boolean active = kept < shape.kept;
  FOLD_TOTALS(total, total_places, lost, REDUCE_UNROLL)
  FOLD_ARRAYS(part, part_places, REDUCE_UNROLL)
  UNROLL for (int u = 0; u < REDUCE_UNROLL; u++) {
    FOLD_START(total, total_places, lost, u)
  }
  if (active) {
    KEPT_OFFSETS(kept)
#if REDUCE_VECTOR > 1
    const boolean whole = REDUCE_ALIGNED;
    INDEX element = first + (INDEX)lane * (whole ? REDUCE_VECTOR : 1);
    while (whole && element < end) {
      const INDEX most = REDUCE_BLOCK * REDUCE_UNROLL * REDUCE_LANES;
      const INDEX stop = end - element > most ? element + most : end;
      UNROLL for (int u = 0; u < REDUCE_UNROLL; u++) {
        FOLD_CLEAR(part, part_places, u)
      }
      for (; element < stop; element += 2 * REDUCE_LANES * REDUCE_VECTOR) {
        VALUE values[2][REDUCE_VECTOR];
        const INDEX next = element + REDUCE_LANES * REDUCE_VECTOR;
        UNROLL for (int v = 0; v < REDUCE_VECTOR; v++) values[1][v] = FOLD_IDENTITY;
        {
          REDUCED_OFFSETS(element)
          VECTOR_ELEMENTS(0, values[0])
        }
        if (next < stop) {
          REDUCED_OFFSETS(next)
          VECTOR_ELEMENTS(0, values[1])
        }
        UNROLL for (int v = 0; v < REDUCE_VECTOR;
                    v++){FOLD_TAKE(part, part_places, v % REDUCE_UNROLL, values[0][v],
                                   0)} UNROLL for (int v = 0; v < REDUCE_VECTOR; v++) {
          FOLD_TAKE(part, part_places, v % REDUCE_UNROLL, values[1][v], 0)
        }
      }
      UNROLL for (int u = 0; u < REDUCE_UNROLL; u++) {
        FOLD_ADD(total, total_places, lost, u, part[u], part_places[u])
      }
    }
#else
    INDEX element = first + (INDEX)lane;
#endif
    while (element < end) {
      const INDEX most = REDUCE_BLOCK * REDUCE_UNROLL * REDUCE_LANES;
      const INDEX stop = end - element > most ? element + most : end;
      UNROLL for (int u = 0; u < REDUCE_UNROLL; u++) {
        FOLD_CLEAR(part, part_places, u)
      }
      for (; element + (REDUCE_UNROLL - 1) * REDUCE_LANES < stop;
           element += REDUCE_UNROLL * REDUCE_LANES) {
        UNROLL for (int u = 0; u < REDUCE_UNROLL; u++) {
          const INDEX at = element + u * REDUCE_LANES;
          REDUCED_OFFSETS(at)
          FOLD_TAKE(part, part_places, u, ELEMENT, PLACE)
        }
      }
      for (; element < stop; element += REDUCE_LANES) {
        REDUCED_OFFSETS(element)
        FOLD_TAKE(part, part_places, 0, ELEMENT, PLACE)
      }
      UNROLL for (int u = 0; u < REDUCE_UNROLL; u++) {
        FOLD_ADD(total, total_places, lost, u, part[u], part_places[u])
      }
    }
  }
  UNROLL for (int u = 1; u < REDUCE_UNROLL;
              u++){FOLD_TAKE(total, total_places, 0, total[u], total_places[u])}
#if REDUCE_LANES > 1
  BARRIER();
  room[item] = total[0];
#ifdef FOLD_MORE
  room_places[item] = total_places[0];
#endif
  for (u32 step = REDUCE_LANES / 2; step > 0; step /= 2) {
    BARRIER();
    if (lane < step) {
      const u32 other = item + step * (REDUCE_ACROSS ? REDUCE_COLUMNS : 1);
      FOLD_TAKE(total, total_places, 0, room[other], room_places[other])
      room[item] = total[0];
#ifdef FOLD_MORE
      room_places[item] = total_places[0];
#endif
    }
  }
#endif
  if (active && lane == 0) {
    FINISH(kept, total[0], total_places[0])
  }
}

/* The body of a kernel for CPUs: one pass of a reduction by items that are each a group.
 *
 * An item handles shape.run consecutive tiles. A tile is one result, whose elements are processed
 * in lines of the innermost reduced dimension, REDUCE_LANES at a time. With REDUCE_ACROSS it is
 * instead REDUCE_LANES consecutive results along the innermost kept dimension. In both cases the
 * innermost loop has a constant count and independent steps, so it becomes vector code. Partial
 * sums restart every REDUCE_BLOCK rounds, to keep rounding errors small.
 *
 * GROUP_ID_Y is the item's part of the reduced elements.
 *
 * The surrounding code defines the macros KEPT_OFFSETS(kept), REDUCED_OFFSETS(element),
 * ELEMENT(step) and PLACE(step) for the step-th element along the innermost dimension from there,
 * and FINISH(kept, value, place). */
//@ reduce_item
const INDEX first = (INDEX)GROUP_ID_Y * shape.share;
const INDEX end = shape.count - first < shape.share ? shape.count : first + shape.share;
const INDEX first_tile = (INDEX)GROUP_ID_X * shape.run;
const INDEX tiles = shape.tiles - first_tile < shape.run ? shape.tiles - first_tile : shape.run;
for (INDEX tile = first_tile; tile < first_tile + tiles; tile++) {
  FOLD_TOTALS(total, total_places, lost, REDUCE_LANES)
  FOLD_ARRAYS(part, part_places, REDUCE_LANES)
  for (int lane = 0; lane < REDUCE_LANES; lane++) FOLD_START(total, total_places, lost, lane)
#if REDUCE_ACROSS
  const INDEX line = tile / shape.pieces, start = (tile - line * shape.pieces) * REDUCE_LANES;
  const INDEX kept = line * shape.inner + start;
  const INDEX width = shape.inner - start < REDUCE_LANES ? shape.inner - start : REDUCE_LANES;
  KEPT_OFFSETS(kept)
  INDEX element = first;
  while (element < end) {
    const INDEX stop = end - element > REDUCE_BLOCK ? element + REDUCE_BLOCK : end;
    for (int lane = 0; lane < REDUCE_LANES; lane++) FOLD_CLEAR(part, part_places, lane)
    if (width == REDUCE_LANES) {
      for (; element < stop; element++) {
        REDUCED_OFFSETS(element)
        for (int lane = 0; lane < REDUCE_LANES; lane++)
          FOLD_TAKE(part, part_places, lane, ELEMENT(lane), PLACE(lane))
      }
    } else {
      for (; element < stop; element++) {
        REDUCED_OFFSETS(element)
        for (INDEX lane = 0; lane < width; lane++)
          FOLD_TAKE(part, part_places, lane, ELEMENT(lane), PLACE(lane))
      }
    }
    for (int lane = 0; lane < REDUCE_LANES; lane++)
      FOLD_ADD(total, total_places, lost, lane, part[lane], part_places[lane])
  }
  INDEPENDENT for (INDEX lane = 0; lane < width; lane++) {
    const INDEX at = kept + lane;
    FINISH(at, total[lane], total_places[lane])
  }
#else
  KEPT_OFFSETS(tile)
  INDEX element = first;
  while (element < end) {
    const INDEX most = REDUCE_BLOCK * REDUCE_LANES;
    INDEX length = end - element;
    REDUCED_OFFSETS(element)
#if REDUCE_LINES
    const INDEX left = shape.inner - element % shape.inner;
    length = length < left ? length : left;
#endif
    length = length < most ? length : most;
    for (int lane = 0; lane < REDUCE_LANES; lane++) FOLD_CLEAR(part, part_places, lane)
    INDEX at = 0;
    for (; at + REDUCE_LANES <= length; at += REDUCE_LANES)
      for (int lane = 0; lane < REDUCE_LANES; lane++)
        FOLD_TAKE(part, part_places, lane, ELEMENT(at + lane), PLACE(at + lane))
    for (int lane = 0; lane < length - at; lane++)
      FOLD_TAKE(part, part_places, lane, ELEMENT(at + lane), PLACE(at + lane))
    for (int lane = 0; lane < REDUCE_LANES; lane++)
      FOLD_ADD(total, total_places, lost, lane, part[lane], part_places[lane])
    element += length;
  }
  for (int step = REDUCE_LANES / 2; step > 0; step /= 2)
    for (int lane = 0; lane < step; lane++)
      FOLD_TAKE(total, total_places, lane, total[lane + step], total_places[lane + step])
  FINISH(tile, total[0], total_places[0])
#endif
}
