/* The loops of window_table.h for one element type: a template, included by isa/window.c with
 *
 *   ELEMENT   the type
 *   TAP       the signed integer type as wide
 *   NAME(x)   x with the type's suffix
 *   IS_NAN(x) whether x is not a number
 *   FLOATING  1 where there are averages and gradients */

CPU_INLINE ELEMENT NAME(combine)(bool maximum, ELEMENT a, ELEMENT b) {
  if (!maximum) return a + b;
  const ELEMENT larger = a > b ? a : b; /* b if either is NaN */
  return IS_NAN(a) ? a : larger;
}

/* Lines `apart` elements from each other, three at a time, so that the result is seldom stored. */
CPU_INLINE void NAME(fold_lines)(bool maximum, ELEMENT *restrict result, const ELEMENT *source,
                                 int64_t lines, int64_t apart, int64_t length) {
  const ELEMENT *a = source, *b = source + apart, *c = source + 2 * apart;
  int64_t done = lines < 3 ? lines : 3;
  if (done == 1)
    memcpy(result, a, (size_t)length * sizeof *result);
  else if (done == 2)
    for (int64_t i = 0; i < length; i++) result[i] = NAME(combine)(maximum, a[i], b[i]);
  else
    for (int64_t i = 0; i < length; i++)
      result[i] = NAME(combine)(maximum, NAME(combine)(maximum, a[i], b[i]), c[i]);
  for (; done + 1 < lines; done += 2) {
    a = source + done * apart;
    b = a + apart;
    for (int64_t i = 0; i < length; i++)
      result[i] = NAME(combine)(maximum, NAME(combine)(maximum, result[i], a[i]), b[i]);
  }
  if (done < lines) {
    a = source + done * apart;
    for (int64_t i = 0; i < length; i++) result[i] = NAME(combine)(maximum, result[i], a[i]);
  }
}

/* One element at each position; constants where the caller passes them. */
CPU_INLINE void NAME(fold_strided)(bool maximum, ELEMENT *restrict result, const ELEMENT *source,
                                   int64_t count, int64_t step, int64_t taps, int64_t tap_step) {
  for (int64_t q = 0; q < count; q++) {
    ELEMENT folded = source[q * step];
    for (int64_t t = 1; t < taps; t++)
      folded = NAME(combine)(maximum, folded, source[q * step + t * tap_step]);
    result[q] = folded;
  }
}

CPU_INLINE void NAME(fold)(bool maximum, void *to, const void *from, int64_t count, int64_t step,
                           int64_t taps, int64_t tap_step, int64_t lanes) {
  ELEMENT *restrict result = to;
  const ELEMENT *source = from;
  if (step == 1) {
    NAME(fold_lines)(maximum, result, source, taps, tap_step * lanes, count * lanes);
  } else if (lanes > 1) {
    for (int64_t q = 0; q < count; q++, result += lanes, source += step * lanes)
      NAME(fold_lines)(maximum, result, source, taps, tap_step * lanes, lanes);
  } else if (step == 2 && tap_step == 1 && taps == 2) {
    NAME(fold_strided)(maximum, result, source, count, 2, 2, 1);
  } else if (step == 2 && tap_step == 1 && taps == 3) {
    NAME(fold_strided)(maximum, result, source, count, 2, 3, 1);
  } else {
    NAME(fold_strided)(maximum, result, source, count, step, taps, tap_step);
  }
}

static void NAME(maximum)(void *result, const void *source, int64_t count, int64_t step,
                          int64_t taps, int64_t tap_step, int64_t lanes) {
  NAME(fold)(true, result, source, count, step, taps, tap_step, lanes);
}

#if FLOATING
static void NAME(sum)(void *result, const void *source, int64_t count, int64_t step, int64_t taps,
                      int64_t tap_step, int64_t lanes) {
  NAME(fold)(false, result, source, count, step, taps, tap_step, lanes);
}

static void NAME(divide)(void *values, int64_t rows, const void *columns, int64_t count,
                         int64_t lanes) {
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

/* Whether `value` takes the place of `old`, as a mask of bits. A NaN is the largest. */
CPU_INLINE TAP NAME(is_larger)(ELEMENT value, ELEMENT old) {
  return -(TAP)(value > old) | (-(TAP)IS_NAN(value) & ~-(TAP)IS_NAN(old));
}

CPU_INLINE void NAME(challenge)(ELEMENT *best, TAP *tap, ELEMENT value, TAP code) {
  const TAP larger = NAME(is_larger)(value, *best) | -(TAP)(*tap < 0);
  *best = larger ? value : *best;
  *tap = larger ? code : *tap;
}

CPU_INLINE void NAME(search_line)(ELEMENT *restrict best, TAP *restrict tap,
                                  const ELEMENT *restrict source, int64_t count, int64_t step,
                                  TAP code) {
  for (int64_t i = 0; i < count; i++) {
    ELEMENT largest = best[i];
    TAP from = tap[i];
    NAME(challenge)(&largest, &from, source[i * step], code);
    best[i] = largest;
    tap[i] = from;
  }
}

CPU_INLINE void NAME(search_pairs)(ELEMENT *restrict best, TAP *restrict tap,
                                   const ELEMENT *restrict source, int64_t count, TAP code) {
  for (int64_t i = 0; i < count; i++) {
    ELEMENT largest = best[i];
    TAP from = tap[i];
    NAME(challenge)(&largest, &from, source[2 * i], code);
    NAME(challenge)(&largest, &from, source[2 * i + 1], code + 1);
    best[i] = largest;
    tap[i] = from;
  }
}

static void NAME(search)(void *best, void *tap, const void *source, int64_t count, int64_t step,
                         int64_t lanes, int64_t code, bool pair) {
  ELEMENT *b = best;
  TAP *t = tap;
  const ELEMENT *x = source;
  if (pair)
    NAME(search_pairs)(b, t, x, count, (TAP)code);
  else if (step == 1)
    NAME(search_line)(b, t, x, count * lanes, 1, (TAP)code);
  else if (lanes > 1)
    for (int64_t q = 0; q < count; q++)
      NAME(search_line)(b + q * lanes, t + q * lanes, x + q * step * lanes, lanes, 1, (TAP)code);
  else if (step == 2)
    NAME(search_line)(b, t, x, count, 2, (TAP)code);
  else
    NAME(search_line)(b, t, x, count, step, (TAP)code);
}

/* The first of the four that is the largest: 0 … 3. */
CPU_INLINE void NAME(find_quarters)(TAP *restrict tap, const ELEMENT *a, const ELEMENT *b,
                                    int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const TAP right = NAME(is_larger)(a[2 * i + 1], a[2 * i]);
    const TAP right_below = NAME(is_larger)(b[2 * i + 1], b[2 * i]);
    const ELEMENT top = right ? a[2 * i + 1] : a[2 * i];
    const ELEMENT bottom = right_below ? b[2 * i + 1] : b[2 * i];
    const TAP down = NAME(is_larger)(bottom, top);
    tap[i] = (down & (2 - right_below)) | (~down & -right);
  }
}

CPU_INLINE void NAME(place_pairs)(ELEMENT *restrict to, const ELEMENT *restrict from,
                                  const TAP *restrict tap, int64_t count, TAP code) {
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    to[2 * i] = tap[i] == code ? from[i] : 0;
    to[2 * i + 1] = tap[i] == code + 1 ? from[i] : 0;
  }
}

static void NAME(halve)(void *upper, void *lower, const void *above, const void *below,
                        const void *source, int64_t count) {
  TAP tap[256];
  for (int64_t first = 0; first < count; first += 256) {
    const int64_t part = count - first < 256 ? count - first : 256;
    const ELEMENT *from = (const ELEMENT *)source + first;
    NAME(find_quarters)
    (tap, (const ELEMENT *)above + 2 * first, (const ELEMENT *)below + 2 * first, part);
    NAME(place_pairs)((ELEMENT *)upper + 2 * first, from, tap, part, 0);
    NAME(place_pairs)((ELEMENT *)lower + 2 * first, from, tap, part, 2);
  }
}

/* With `pair`, two neighbours at each position: gaps of one element would keep compilers from
 * making vectors of the loop. */
static void NAME(expand)(void *target, const void *source, int64_t count, int64_t step,
                         int64_t lanes, bool pair) {
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

CPU_INLINE void NAME(deliver_line)(ELEMENT *restrict to, const ELEMENT *restrict from,
                                   const TAP *restrict tap, int64_t count, int64_t step, TAP code) {
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) to[i * step] += tap[i] == code ? from[i] : 0;
}

CPU_INLINE void NAME(deliver_pairs)(ELEMENT *to, const ELEMENT *from, const TAP *tap, int64_t count,
                                    TAP code) {
  CPU_INDEPENDENT
  for (int64_t q = 0; q < count; q++) {
    to[2 * q] += tap[q] == code ? from[q] : 0;
    to[2 * q + 1] += tap[q] == code + 1 ? from[q] : 0;
  }
}

static void NAME(deliver)(void *target, const void *source, const void *tap, int64_t count,
                          int64_t step, int64_t lanes, int64_t code, bool pair) {
  ELEMENT *to = target;
  const ELEMENT *from = source;
  const TAP *t = tap;
  const TAP c = (TAP)code;
  if (pair)
    NAME(deliver_pairs)(to, from, t, count, c);
  else if (step == 1)
    NAME(deliver_line)(to, from, t, count * lanes, 1, c);
  else if (lanes == 1)
    NAME(deliver_line)(to, from, t, count, step, c);
  else
    for (int64_t q = 0; q < count; q++)
      NAME(deliver_line)(to + q * step * lanes, from + q * lanes, t + q * lanes, lanes, 1, c);
}

static void NAME(scatter)(void *target, const void *source, const void *tap, const int64_t *offset,
                          int64_t count, int64_t step, int64_t lanes) {
  ELEMENT *to = target;
  const ELEMENT *from = source;
  const TAP *t = tap;
  for (int64_t q = 0; q < count; q++)
    for (int64_t l = 0; l < lanes; l++) {
      const int64_t i = q * lanes + l;
      if (t[i] < 0 || offset[t[i]] == CPU_WINDOW_ELSEWHERE) continue;
      to[offset[t[i]] + q * step * lanes + l] += from[i];
    }
}
#endif
