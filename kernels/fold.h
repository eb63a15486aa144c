/* SPDX-License-Identifier: MIT */
/* Adds to a total and keeps the rounding error: Kahan, "Further remarks on reducing truncation
 * errors", 1965. Long sums add the sums of short blocks this way, so their error is no larger than
 * a block's. */
//@ fold_compensated
DEVICE VALUE compensated(VALUE total, VALUE value, VALUE *lost) {
  const VALUE corrected = value - *lost, sum = total + corrected;
  const VALUE rest = (sum - total) - corrected;
  *lost = rest - rest == 0 ? rest : 0; /* infinities and NaN lose nothing */
  return sum;
}

/* The combining operation of reductions. Configured by
 *
 *   VALUE            type of the elements
 *   FOLD(a, b)       combines two elements; or, for the position of an extremum,
 *   FOLD_MORE(b, a)  1 if b is more extreme than a
 *   FOLD_NAN(x)      1 if x is NaN
 *   FOLD_IDENTITY    the neutral element
 *   FOLD_NOWHERE     a place past all others
 *   FOLD_IS_SUM      1 for sums of floats
 *
 * A search keeps a place beside each value. Among equal values the lowest place wins, in any order
 * of arrival; NaN wins over everything.
 *
 * FOLD_ADD adds the result of a block to a total; sums use compensation (fold_compensated). */
//@ fold
#ifdef FOLD_MORE
DEVICE boolean fold_wins(VALUE b, INDEX b_place, VALUE a, INDEX a_place) {
  const boolean alike = (a == b) | (FOLD_NAN(a) & FOLD_NAN(b));
  return FOLD_MORE(b, a) | (FOLD_NAN(b) & !FOLD_NAN(a)) | (alike & (b_place < a_place));
}
#define FOLD_TAKE(values, places, at, value, place)                                                \
  {                                                                                                \
    const VALUE taken = value;                                                                     \
    const INDEX taken_place = place;                                                               \
    const boolean wins = fold_wins(taken, taken_place, values[at], places[at]);                    \
    values[at] = wins ? taken : values[at];                                                        \
    places[at] = wins ? taken_place : places[at];                                                  \
  }
#define FOLD_CLEAR(values, places, at)                                                             \
  {                                                                                                \
    values[at] = FOLD_IDENTITY;                                                                    \
    places[at] = FOLD_NOWHERE;                                                                     \
  }
#define FOLD_ARRAYS(values, places, count)                                                         \
  VALUE values[count];                                                                             \
  INDEX places[count];
#define FOLD_TOTALS(values, places, lost, count)         FOLD_ARRAYS(values, places, count)
#define FOLD_ADD(values, places, lost, at, value, place) FOLD_TAKE(values, places, at, value, place)
#define FOLD_START(values, places, lost, at)             FOLD_CLEAR(values, places, at)
#else
DEVICE VALUE fold_two(VALUE a, VALUE b) {
  return FOLD(a, b);
}
#define FOLD_TAKE(values, places, at, value, place) values[at] = fold_two(values[at], value);
#define FOLD_CLEAR(values, places, at)              values[at] = FOLD_IDENTITY;
#define FOLD_ARRAYS(values, places, count)          VALUE values[count];
#if FOLD_IS_SUM
#define FOLD_TOTALS(values, places, lost, count) VALUE values[count], lost[count];
#define FOLD_ADD(values, places, lost, at, value, place)                                           \
  values[at] = compensated(values[at], value, &lost[at]);
#define FOLD_START(values, places, lost, at) values[at] = lost[at] = 0;
#else
#define FOLD_TOTALS(values, places, lost, count)         FOLD_ARRAYS(values, places, count)
#define FOLD_ADD(values, places, lost, at, value, place) FOLD_TAKE(values, places, at, value, place)
#define FOLD_START(values, places, lost, at)             FOLD_CLEAR(values, places, at)
#endif
#endif
