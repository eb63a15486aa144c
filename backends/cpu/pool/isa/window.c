/* SPDX-License-Identifier: MIT */
/* Loops for WINDOW, once per instruction set (core/isa.h) and element type; window_table.h has
 * their contracts. Averages and gradients exist for floats only. */
#include <stdbool.h>
#include <string.h>

#include "program/isa/element.h"
#include "program/isa/tile_loops.h"
#include "window_table.h"

/* Loops over short lines process multiples of STRIDE elements, for any length; the excess results
 * are unused. They process STAGED elements of lines before the next pass over them, which should
 * find them in the level-1 cache. */
enum { STRIDE = 16, STAGED = 2048 };
enum { AHEAD = 4096 / (int)sizeof(ELEMENT) }; /* prefetch distance */
#define WHOLE(length) (((length) + STRIDE - 1) & -(int64_t)STRIDE)

CPU_INLINE ELEMENT combine(bool maximum, ELEMENT a, ELEMENT b) {
  if (!maximum) return a + b;
  const ELEMENT larger = a > b ? a : b; /* b if either is NaN */
  return IS_NAN(a) ? a : larger;
}

/* Folds lines `apart` elements apart, three at a time, so that the result is seldom stored. */
CPU_INLINE void fold_lines(bool maximum, ELEMENT *restrict result, const ELEMENT *source,
                           int64_t lines, int64_t apart, int64_t length) {
  const ELEMENT *a = source, *b = source + apart, *c = source + 2 * apart;
  int64_t done = lines < 3 ? lines : 3;
  if (done == 1)
    memcpy(result, a, (size_t)length * sizeof *result);
  else if (done == 2)
    for (int64_t i = 0; i < length; i++) result[i] = combine(maximum, a[i], b[i]);
  else
    for (int64_t i = 0; i < length; i++)
      result[i] = combine(maximum, combine(maximum, a[i], b[i]), c[i]);
  for (; done + 1 < lines; done += 2) {
    a = source + done * apart;
    b = a + apart;
    for (int64_t i = 0; i < length; i++)
      result[i] = combine(maximum, combine(maximum, result[i], a[i]), b[i]);
  }
  if (done < lines) {
    a = source + done * apart;
    for (int64_t i = 0; i < length; i++) result[i] = combine(maximum, result[i], a[i]);
  }
}

/* Folds one element per position. Parameters are constants after inlining. */
CPU_INLINE void fold_strided(bool maximum, ELEMENT *restrict result, const ELEMENT *source,
                             int64_t count, int64_t step, int64_t taps, int64_t tap_step) {
  for (int64_t q = 0; q < count; q++) {
    ELEMENT folded = source[q * step];
    for (int64_t t = 1; t < taps; t++)
      folded = combine(maximum, folded, source[q * step + t * tap_step]);
    result[q] = folded;
  }
}

CPU_INLINE void fold(bool maximum, void *to, const void *from, int64_t count, int64_t step,
                     int64_t taps, int64_t tap_step, int64_t lanes) {
  ELEMENT *restrict result = to;
  const ELEMENT *source = from;
  if (step == 1) {
    fold_lines(maximum, result, source, taps, tap_step * lanes, count * lanes);
  } else if (lanes > 1) {
    for (int64_t q = 0; q < count; q++, result += lanes, source += step * lanes)
      fold_lines(maximum, result, source, taps, tap_step * lanes, lanes);
  } else if (step == 2 && tap_step == 1 && taps == 2) {
    fold_strided(maximum, result, source, count, 2, 2, 1);
  } else if (step == 2 && tap_step == 1 && taps == 3) {
    fold_strided(maximum, result, source, count, 2, 3, 1);
  } else {
    fold_strided(maximum, result, source, count, step, taps, tap_step);
  }
}

static void maximum(void *result, const void *source, int64_t count, int64_t step, int64_t taps,
                    int64_t tap_step, int64_t lanes) {
  fold(true, result, source, count, step, taps, tap_step, lanes);
}

/* `true`, as a bit mask, if `value` replaces `old`. NaN counts as the maximum. */
CPU_INLINE MASK is_larger(ELEMENT value, ELEMENT old) {
  return -(MASK)(value > old) | (-(MASK)IS_NAN(value) & ~-(MASK)IS_NAN(old));
}

CPU_INLINE void challenge(ELEMENT *best, MASK *tap, ELEMENT value, MASK code) {
  const MASK larger = is_larger(value, *best) | -(MASK)(*tap < 0);
  *best = larger ? value : *best;
  *tap = larger ? code : *tap;
}

CPU_INLINE void search_line(ELEMENT *restrict best, MASK *restrict tap,
                            const ELEMENT *restrict source, int64_t count, int64_t step,
                            MASK code) {
  for (int64_t i = 0; i < count; i++) {
    ELEMENT largest = best[i];
    MASK from = tap[i];
    challenge(&largest, &from, source[i * step], code);
    best[i] = largest;
    tap[i] = from;
  }
}

CPU_INLINE void search_pairs(ELEMENT *restrict best, MASK *restrict tap,
                             const ELEMENT *restrict source, int64_t count, MASK code) {
  for (int64_t i = 0; i < count; i++) {
    ELEMENT largest = best[i];
    MASK from = tap[i];
    challenge(&largest, &from, source[2 * i], code);
    challenge(&largest, &from, source[2 * i + 1], code + 1);
    best[i] = largest;
    tap[i] = from;
  }
}

static void search(void *best, void *tap, const void *source, int64_t count, int64_t step,
                   int64_t lanes, int64_t code, bool pair) {
  ELEMENT *b = best;
  MASK *t = tap;
  const ELEMENT *x = source;
  if (pair)
    search_pairs(b, t, x, count, (MASK)code);
  else if (step == 1)
    search_line(b, t, x, count * lanes, 1, (MASK)code);
  else if (lanes > 1)
    for (int64_t q = 0; q < count; q++)
      search_line(b + q * lanes, t + q * lanes, x + q * step * lanes, lanes, 1, (MASK)code);
  else if (step == 2)
    search_line(b, t, x, count, 2, (MASK)code);
  else
    search_line(b, t, x, count, step, (MASK)code);
}

#if IS_FLOAT
static void sum(void *result, const void *source, int64_t count, int64_t step, int64_t taps,
                int64_t tap_step, int64_t lanes) {
  fold(false, result, source, count, step, taps, tap_step, lanes);
}

static void divide(void *values, int64_t rows, const void *columns, int64_t count, int64_t lanes) {
  ELEMENT *v = values;
  const ELEMENT *c = columns, r = (ELEMENT)rows;
  if (lanes == 1) {
    for (int64_t q = 0; q < count; q++) v[q] /= r * c[q];
    return;
  }
  for (int64_t q = 0; q < count; q++, v += lanes) {
    const ELEMENT divisor = r * c[q];
    for (int64_t l = 0; l < lanes; l++) v[l] /= divisor;
  }
}

/* Finds the first maximum of the four: 0 … 3. */
CPU_INLINE void find_quarters(MASK *restrict tap, const ELEMENT *a, const ELEMENT *b,
                              int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const MASK right = is_larger(a[2 * i + 1], a[2 * i]);
    const MASK right_below = is_larger(b[2 * i + 1], b[2 * i]);
    const ELEMENT top = right ? a[2 * i + 1] : a[2 * i];
    const ELEMENT bottom = right_below ? b[2 * i + 1] : b[2 * i];
    const MASK down = is_larger(bottom, top);
    tap[i] = (down & (2 - right_below)) | (~down & -right);
  }
}

CPU_INLINE void place_pairs(ELEMENT *restrict to, const ELEMENT *restrict from,
                            const MASK *restrict tap, int64_t count, MASK code) {
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    to[2 * i] = tap[i] == code ? from[i] : 0;
    to[2 * i + 1] = tap[i] == code + 1 ? from[i] : 0;
  }
}

static void halve(void *upper, void *lower, const void *above, const void *below,
                  const void *source, int64_t count) {
  MASK tap[256];
  for (int64_t first = 0; first < count; first += 256) {
    const int64_t part = count - first < 256 ? count - first : 256;
    const ELEMENT *from = (const ELEMENT *)source + first;
    find_quarters(tap, (const ELEMENT *)above + 2 * first, (const ELEMENT *)below + 2 * first,
                  part);
    place_pairs((ELEMENT *)upper + 2 * first, from, tap, part, 0);
    place_pairs((ELEMENT *)lower + 2 * first, from, tap, part, 2);
  }
}

/* With `pair`, two neighbours per position: a gap of one element would keep compilers from
 * vectorizing the loop. */
static void expand(void *target, const void *source, int64_t count, int64_t step, int64_t lanes,
                   bool pair) {
  ELEMENT *restrict to = target;
  const ELEMENT *restrict from = source;
  if (pair) {
    CPU_INDEPENDENT
    for (int64_t q = 0; q < count; q++) {
      to[2 * q] += from[q];
      to[2 * q + 1] += from[q];
    }
  } else if (step == 1) {
    for (int64_t i = 0; i < count * lanes; i++) to[i] += from[i];
  } else if (lanes == 1) {
    for (int64_t q = 0; q < count; q++) to[q * step] += from[q];
  } else {
    for (int64_t q = 0; q < count; q++)
      for (int64_t l = 0; l < lanes; l++) to[q * step * lanes + l] += from[q * lanes + l];
  }
}

CPU_INLINE void deliver_line(ELEMENT *restrict to, const ELEMENT *restrict from,
                             const MASK *restrict tap, int64_t count, int64_t step, MASK code) {
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) to[i * step] += tap[i] == code ? from[i] : 0;
}

CPU_INLINE void deliver_pairs(ELEMENT *to, const ELEMENT *from, const MASK *tap, int64_t count,
                              MASK code) {
  CPU_INDEPENDENT
  for (int64_t q = 0; q < count; q++) {
    to[2 * q] += tap[q] == code ? from[q] : 0;
    to[2 * q + 1] += tap[q] == code + 1 ? from[q] : 0;
  }
}

static void deliver(void *target, const void *source, const void *tap, int64_t count, int64_t step,
                    int64_t lanes, int64_t code, bool pair) {
  ELEMENT *to = target;
  const ELEMENT *from = source;
  const MASK *t = tap;
  const MASK c = (MASK)code;
  if (pair)
    deliver_pairs(to, from, t, count, c);
  else if (step == 1)
    deliver_line(to, from, t, count * lanes, 1, c);
  else if (lanes == 1)
    deliver_line(to, from, t, count, step, c);
  else
    for (int64_t q = 0; q < count; q++)
      deliver_line(to + q * step * lanes, from + q * lanes, t + q * lanes, lanes, 1, c);
}

static void scatter(void *target, const void *source, const void *tap, const int64_t *offset,
                    int64_t count, int64_t step, int64_t lanes) {
  ELEMENT *to = target;
  const ELEMENT *from = source;
  const MASK *t = tap;
  for (int64_t q = 0; q < count; q++)
    for (int64_t l = 0; l < lanes; l++) {
      const int64_t i = q * lanes + l;
      if (t[i] < 0 || offset[t[i]] == CPU_WINDOW_ELSEWHERE) continue;
      to[offset[t[i]] + q * step * lanes + l] += from[i];
    }
}
#endif

/* ---- Short lines ----------------------------------------------------------------------------- */

/* With lines of 7 or 14 results, compilers' loops would run almost only their scalar remainder.
 * Passes over columns are not affected, because pairs of columns continue from line to line. Passes
 * that combine two lines process whole vectors for any line length; the next line overwrites the
 * excess. Only the last lines, after which nothing may be read, are processed at their exact
 * length. */

/* The number of lines of a block that may be read as `whole` elements. */
CPU_INLINE int64_t lines_with_room(int64_t lines, int64_t length, int64_t whole) {
  return lines * length < whole ? 0 : (lines * length - whole) / length + 1;
}

CPU_INLINE void fold_two(bool maximum, ELEMENT *restrict to, const ELEMENT *restrict a,
                         const ELEMENT *restrict b, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = combine(maximum, a[i], b[i]);
}

CPU_INLINE void ask(const ELEMENT *from, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / (int)sizeof *from) __builtin_prefetch(from + i);
}

/* Reduces two lines of `length` elements to one, result line by result line. Lines further down are
 * prefetched, because the hardware prefetcher does not look far enough ahead in two short
 * streams. */
CPU_INLINE void fold_line_pairs(bool maximum, ELEMENT *to, const ELEMENT *source, int64_t rows,
                                int64_t length) {
  const int64_t whole = WHOLE(length);
  const int64_t ample = lines_with_room(2 * rows, length, whole) / 2;
  for (int64_t p = 0; p < rows; p++) {
    ask(source + 2 * p * length + AHEAD, 2 * length);
    fold_two(maximum, to + p * length, source + 2 * p * length, source + (2 * p + 1) * length,
             p < ample ? whole : length);
  }
}

CPU_INLINE void fold_short(bool maximum, void *result, const void *from, int64_t rows,
                           int64_t count) {
  ELEMENT folded[STAGED + STRIDE];
  ELEMENT *restrict to = result;
  const ELEMENT *source = from;
  const int64_t most = STAGED / (2 * count);
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t part = rows - first < most ? rows - first : most;
    fold_line_pairs(maximum, folded, source, part, 2 * count);
    for (int64_t i = 0; i < part * count; i++) {
      const ELEMENT both = combine(maximum, folded[2 * i], folded[2 * i + 1]);
      to[i] = maximum ? both : both / 4;
    }
    source += 4 * part * count;
    to += part * count;
  }
}

static void maximum_short(void *result, const void *source, int64_t rows, int64_t count) {
  fold_short(true, result, source, rows, count);
}

#if IS_FLOAT
static void average_short(void *result, const void *source, int64_t rows, int64_t count) {
  fold_short(false, result, source, rows, count);
}

CPU_INLINE void find_pairs(ELEMENT *restrict largest, MASK *restrict right,
                           const ELEMENT *restrict x, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const MASK is_right = is_larger(x[2 * i + 1], x[2 * i]);
    largest[i] = is_right ? x[2 * i + 1] : x[2 * i];
    right[i] = is_right;
  }
}

/* Keeps the source where the window's first maximum is above (or below); the rest is 0. */
CPU_INLINE void keep_line(ELEMENT *restrict to, const ELEMENT *restrict above,
                          const ELEMENT *restrict below, const ELEMENT *restrict source,
                          bool keep_below, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const MASK down = is_larger(below[i], above[i]);
    to[i] = (keep_below ? down : ~down) ? source[i] : 0;
  }
}

CPU_INLINE void keep_lines(ELEMENT *to, const ELEMENT *largest, const ELEMENT *source, int64_t rows,
                           int64_t length) {
  const int64_t whole = WHOLE(length);
  const int64_t ample = lines_with_room(rows, length, whole);
  for (int64_t p = 0; p < rows; p++, to += 2 * length, largest += 2 * length, source += length) {
    const int64_t count = p < ample ? whole : length;
    keep_line(to, largest, largest + length, source, false, count);
    keep_line(to + length, largest, largest + length, source, true, count);
  }
}

CPU_INLINE void place_sides(ELEMENT *restrict to, const ELEMENT *restrict kept,
                            const MASK *restrict right, int64_t count) {
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    to[2 * i] = right[i] ? 0 : kept[i];
    to[2 * i + 1] = right[i] ? kept[i] : 0;
  }
}

static void halve_short(void *to, const void *data, const void *source, int64_t rows,
                        int64_t count) {
  ELEMENT largest[STAGED / 2 + 2 * STRIDE], kept[STAGED / 2 + 2 * STRIDE];
  MASK right[STAGED / 2];
  const int64_t most = STAGED / 4 / count; /* lines of results, at least 2 */
  ELEMENT *target = to;
  const ELEMENT *x = data, *from = source;
  memset(largest, 0, sizeof largest); /* read past the last line */
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t part = rows - first < most ? rows - first : most, pairs = 2 * part * count;
    find_pairs(largest, right, x, pairs);
    keep_lines(kept, largest, from, part, count);
    place_sides(target, kept, right, pairs);
    x += 2 * pairs;
    target += 2 * pairs;
    from += part * count;
  }
}
#endif

#if IS_FLOAT
#include "window_stride2.h"
#endif
#include "window_fold.h"

const cpu_window_loops CPU_VARIANT_SYMBOL(cpu_window) = {
    .maximum = maximum,
    .maximum_short = maximum_short,
    .search = search,
    .fold_maxima = fold_maxima,
#if IS_FLOAT
    .fold_sums = fold_sums,
    .sum = sum,
    .divide = divide,
    .halve = halve,
    .expand = expand,
    .deliver = deliver,
    .scatter = scatter,
    .halve_short = halve_short,
    .average_short = average_short,
    .spread_maxima = spread_maxima,
    .spread_averages = spread_averages,
#endif
};
