/* SPDX-License-Identifier: MIT */
/* Row operations. Configured by
 *
 *   VALUE               type of the elements
 *   ROW_OPERATION       one of the three below
 *   ROW_EXP             for arguments up to 0
 *   ROW_LOG, ROW_ROOT
 *   ROW_INFINITY, ROW_NAN
 *   ROW_RESCALES        1: normalize multiplies rows of large or tiny elements by a power of two,
 *                       so that their squares are normal numbers
 *
 * and for groups of items by
 *
 *   ROW_LANES           items that share a row
 *   ROW_PITCH           distance between them
 *   ROW_SHUFFLE         exchanges values between the items of a warp, if they can and their pitch
 *                       is 1
 *   ROW_ITEMS           elements that an item holds at once
 *   ROW_VECTOR          elements per vector load
 *   ROW_ALIGNED         1: buffers and sizes allow vector loads
 *
 * A row has two or three statistics. For softmax and log-softmax they are its peak and the sum of
 * exp(x − peak). For normalize they are a shift near its mean, the sum of x − shift, and the sum of
 * the squares of x − shift. These give mean and variance without cancellation (Chan, Golub &
 * LeVeque, "Algorithms for computing the sample variance", 1983). */
//@ row
#define ROW_IS_SOFTMAX     0
#define ROW_IS_LOG_SOFTMAX 1
#define ROW_IS_NORMALIZE   2

#if ROW_OPERATION == ROW_IS_NORMALIZE
/* A row's `unit` is the factor of its elements; the results do not depend on it. Squares of f32
 * beyond 2^64 would be infinite, and below 2^-63 they lose digits. The loss matters only with an
 * even smaller epsilon. */
#define ROW_DOWN ((VALUE)0x1p-70f)
#define ROW_UP   ((VALUE)0x1p+100f)
#if ROW_RESCALES
#define ROW_UNIT(unit, x) ((unit) * (x))
#define ROW_LESS          ((VALUE)0x1p-24f) /* keeps a sum of large elements finite */
#define ROW_MORE          ((VALUE)0x1p+24f)
DEVICE boolean row_tiny_matters(VALUE epsilon) {
  return epsilon < (VALUE)0x1p-80f;
}
/* Chooses the unit by the largest magnitude, before computing squares. */
DEVICE VALUE row_unit_of_peak(VALUE peak, VALUE epsilon) {
  return peak > (VALUE)0x1p+50f                                ? ROW_DOWN
         : peak < (VALUE)0x1p-50f && row_tiny_matters(epsilon) ? ROW_UP
                                                               : 1;
}
/* Chooses the unit by the squares of unscaled elements. */
DEVICE VALUE row_unit_of_squares(VALUE squares, VALUE count, VALUE epsilon) {
  return !(squares < ROW_INFINITY)                                         ? ROW_DOWN
         : squares < count * (VALUE)0x1p-100f && row_tiny_matters(epsilon) ? ROW_UP
                                                                           : 1;
}
DEVICE VALUE row_magnitude(VALUE a, VALUE b) {
  const VALUE size = b < 0 ? -b : b;
  return size > a ? size : a;
}
/* Combines the units of parts: the result is small enough for all of them. */
DEVICE VALUE row_common_unit(VALUE a, VALUE b) {
  return a < b ? a : b;
}
#else
#define ROW_UNIT(unit, x)                            (x)
#define ROW_LESS                                     ((VALUE)1)
#define ROW_MORE                                     ((VALUE)1)
#define row_unit_of_peak(peak, epsilon)              ((VALUE)1)
#define row_unit_of_squares(squares, count, epsilon) ((VALUE)1)
#define row_magnitude(a, b)                          (a)
#define row_common_unit(a, b)                        ((VALUE)1)
#endif
/* True if the shift is closer to the mean than the standard deviation. False for NaN. */
DEVICE boolean row_is_near(VALUE sum, VALUE squares, VALUE count) {
  return 2 * sum * sum <= squares * count;
}
/* Rounding may make a spread negative; a NaN stays. */
DEVICE VALUE row_scale(VALUE spread, VALUE count, VALUE epsilon, VALUE unit) {
  return 1 / ROW_ROOT((spread < 0 ? 0 : spread) / count + ROW_UNIT(unit, ROW_UNIT(unit, epsilon)));
}
#define ROW_FINISHED(x) ((ROW_UNIT(unit, x) - shift - offset) * factor)
#else
DEVICE VALUE row_higher(VALUE a, VALUE b) {
  return b > a ? b : a;
}
/* Replaces a peak of −infinity, because subtracting it would give NaN. */
DEVICE VALUE row_finite(VALUE peak) {
  return peak == -ROW_INFINITY ? 0 : peak;
}
/* The factor that rescales a sum from `peak` to `highest`. An empty sum is 0 or NaN and stays
 * so. */
DEVICE VALUE row_relative(VALUE peak, VALUE highest) {
  return peak == -ROW_INFINITY ? 1 : ROW_EXP(peak - highest);
}
/* A row of only −infinity, or with +infinity, is NaN throughout, as the formula gives. */
DEVICE VALUE row_total(VALUE peak, VALUE total) {
  return peak == ROW_INFINITY || peak == -ROW_INFINITY ? ROW_NAN : total;
}
#if ROW_OPERATION == ROW_IS_SOFTMAX
#define ROW_FINISHED(x) (ROW_EXP((x)-shift) * factor)
#else
#define ROW_FINISHED(x) ((x)-shift - offset)
#endif
#endif

#ifdef ROW_LANES
/* Combines up to two values of all items of a row: `combine` adds `other` to `mine`. Warps shuffle
 * if they hold a whole row, or if a row has a whole number of warps; otherwise a tree in local
 * memory combines. Both give every item of a row the same bits. */
#ifdef ROW_SHUFFLE
#define ROW_WARP  (ROW_LANES < 32 ? ROW_LANES : 32)
#define ROW_WARPS (ROW_LANES / ROW_WARP)
#define ROW_ROOM  (2 * (ROW_GROUP / 32))
/* Two buffers alternate, so that no item overwrites values that others still read. */
#define ROW_TREE(name, count, combine)                                                             \
  DEVICE void name(LOCAL VALUE *room, u32 *turn, u32 item, u32 lane, VALUE *mine) {                \
    VALUE other[2];                                                                                \
    UNROLL for (int step = ROW_WARP / 2; step > 0; step /= 2) {                                    \
      UNROLL for (int i = 0; i < count; i++) other[i] = ROW_SHUFFLE(mine[i], step);                \
      combine                                                                                      \
    }                                                                                              \
    if (ROW_WARPS > 1) {                                                                           \
      LOCAL VALUE *here = room + *turn;                                                            \
      *turn = ROW_ROOM - *turn;                                                                    \
      if (lane % 32 == 0) {                                                                        \
        UNROLL for (int i = 0; i < count; i++) here[item / 32 * 2 + i] = mine[i];                  \
      }                                                                                            \
      BARRIER();                                                                                   \
      here += (item - lane) / 32 * 2;                                                              \
      UNROLL for (int i = 0; i < count; i++) mine[i] = here[i];                                    \
      UNROLL for (int warp = 1; warp < ROW_WARPS; warp++) {                                        \
        UNROLL for (int i = 0; i < count; i++) other[i] = here[warp * 2 + i];                      \
        combine                                                                                    \
      }                                                                                            \
    }                                                                                              \
  }
#else
#define ROW_ROOM ROW_GROUP
#define ROW_TREE(name, count, combine)                                                             \
  DEVICE void name(LOCAL VALUE *room, u32 *turn, u32 item, u32 lane, VALUE *mine) {                \
    VALUE other[2];                                                                                \
    for (u32 step = ROW_LANES / 2; step > 0; step /= 2) {                                          \
      BARRIER();                                                                                   \
      UNROLL for (int i = 0; i < count; i++) room[i * ROW_ROOM + item] = mine[i];                  \
      BARRIER();                                                                                   \
      UNROLL for (int i = 0; i < count; i++) other[i] =                                            \
          room[i * ROW_ROOM + item + ((lane & step) ? -(int)step : (int)step) * ROW_PITCH];        \
      combine                                                                                      \
    }                                                                                              \
  }
#endif
ROW_TREE(row_tree_sum, 1, mine[0] += other[0];)
#if ROW_OPERATION == ROW_IS_NORMALIZE
ROW_TREE(row_tree_sums, 2, mine[0] += other[0]; mine[1] += other[1];)
#define ROW_SUMS(mine) row_tree_sums(room, &turn, item, lane, mine)
#if ROW_RESCALES
ROW_TREE(row_tree_span, 2, mine[0] += other[0]; mine[1] = row_magnitude(mine[1], other[1]);)
ROW_TREE(row_tree_unit, 1, mine[0] = row_common_unit(mine[0], other[0]);)
#define ROW_SPAN(mine)        row_tree_span(room, &turn, item, lane, mine)
#define ROW_UNIT_OF_ALL(mine) row_tree_unit(room, &turn, item, lane, &(mine))
#else
#define ROW_SPAN(mine) row_tree_sum(room, &turn, item, lane, mine)
#define ROW_UNIT_OF_ALL(mine)
#endif
#else
ROW_TREE(row_tree_peak, 1, mine[0] = row_higher(mine[0], other[0]);)
#define ROW_PEAK(mine) row_tree_peak(room, &turn, item, lane, &(mine))
#endif
#define ROW_SUM(mine) row_tree_sum(room, &turn, item, lane, &(mine))

/* Loads and stores ROW_ITEMS elements at once: the elements at start + lane, ROW_LANES apart, or
 * with `whole` vectors of ROW_VECTOR neighbours. ROW_HOLD is the number of existing elements if
 * `left` follow `start`; they come first. Loads have no condition, so all are pending before the
 * first one is needed. */
#define ROW_COUNT(left, near)                                                                      \
  ((left) <= (INDEX)lane * (near)                                                                  \
       ? 0                                                                                         \
       : ((left) - (INDEX)lane * (near)-1) / (ROW_LANES * (near)) * (near) + (near))
#define ROW_HOLD(left) (whole ? ROW_COUNT(left, ROW_VECTOR) : ROW_COUNT(left, 1))
#define ROW_READ_APART(start, none)                                                                \
  UNROLL for (int u = 0; u < ROW_ITEMS; u++) {                                                     \
    const INDEX from = u < held ? (start) + (INDEX)lane + u * ROW_LANES : 0;                       \
    const VALUE element = ELEMENT(from);                                                           \
    value[u] = u < held ? element : (none);                                                        \
  }
#define ROW_WRITE_APART(start)                                                                     \
  UNROLL for (int u = 0; u < ROW_ITEMS; u++) {                                                     \
    const INDEX to = (start) + (INDEX)lane + u * ROW_LANES;                                        \
    if (u < held) {                                                                                \
      FINISH(to, value[u])                                                                         \
    }                                                                                              \
  }
#if ROW_VECTOR > 1
#define ROW_READ(start, none)                                                                      \
  if (whole) {                                                                                     \
    UNROLL for (int u = 0; u < ROW_ITEMS; u += ROW_VECTOR) {                                       \
      const INDEX from = u < held ? (start) + (INDEX)lane * ROW_VECTOR + u * ROW_LANES : 0;        \
      VECTOR_ELEMENTS(from, value + u)                                                             \
      UNROLL for (int v = u; v < u + ROW_VECTOR; v++) value[v] = u < held ? value[v] : (none);     \
    }                                                                                              \
  } else {                                                                                         \
    ROW_READ_APART(start, none)                                                                    \
  }
#define ROW_WRITE(start)                                                                           \
  if (whole) {                                                                                     \
    UNROLL for (int u = 0; u < ROW_ITEMS; u += ROW_VECTOR) {                                       \
      const INDEX to = u < held ? (start) + (INDEX)lane * ROW_VECTOR + u * ROW_LANES : 0;          \
      VECTOR_FINISH(to, u < held, value + u)                                                       \
    }                                                                                              \
  } else {                                                                                         \
    ROW_WRITE_APART(start)                                                                         \
  }
#else
#define ROW_READ  ROW_READ_APART
#define ROW_WRITE ROW_WRITE_APART
#endif
#endif
