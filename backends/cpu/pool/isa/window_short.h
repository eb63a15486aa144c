/* The loops of window_table.h over short lines for one element type: a template as
 * window_kernels.h, included after it.
 *
 * Lines of 7 or 14 results leave compilers' loops no whole vector: nearly all would be their
 * scalar rests. Passes over columns do not meet that: pairs of columns follow each other from line
 * to line. Passes that combine two lines take whole vectors whatever the line's length; what they
 * write too far the next line overwrites. Only the last lines, after which there is nothing to
 * read, are done as they are. */

/* Of a block of lines: how many may be read as `whole` elements. */
CPU_INLINE int64_t NAME(lines_with_room)(int64_t lines, int64_t length, int64_t whole) {
  return lines * length < whole ? 0 : (lines * length - whole) / length + 1;
}

CPU_INLINE void NAME(fold_two)(bool maximum, ELEMENT *restrict to, const ELEMENT *restrict a,
                               const ELEMENT *restrict b, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = NAME(combine)(maximum, a[i], b[i]);
}

/* Line by line of results: two lines of `length` elements become one. */
CPU_INLINE void NAME(fold_line_pairs)(bool maximum, ELEMENT *to, const ELEMENT *source,
                                      int64_t rows, int64_t length) {
  const int64_t whole = WHOLE(length);
  const int64_t ample = NAME(lines_with_room)(2 * rows, length, whole) / 2;
  for (int64_t p = 0; p < rows; p++) NAME(fold_two)
  (maximum, to + p * length, source + 2 * p * length, source + (2 * p + 1) * length,
   p < ample ? whole : length);
}

CPU_INLINE void NAME(fold_short)(bool maximum, void *result, const void *from, int64_t rows,
                                 int64_t count) {
  ELEMENT folded[STAGED + STRIDE];
  ELEMENT *restrict to = result;
  const ELEMENT *source = from;
  const int64_t most = STAGED / (2 * count);
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t part = rows - first < most ? rows - first : most;
    NAME(fold_line_pairs)(maximum, folded, source, part, 2 * count);
    for (int64_t i = 0; i < part * count; i++) {
      const ELEMENT both = NAME(combine)(maximum, folded[2 * i], folded[2 * i + 1]);
      to[i] = maximum ? both : both / 4;
    }
    source += 4 * part * count;
    to += part * count;
  }
}

static void NAME(maximum_short)(void *result, const void *source, int64_t rows, int64_t count) {
  NAME(fold_short)(true, result, source, rows, count);
}

#if FLOATING
static void NAME(average_short)(void *result, const void *source, int64_t rows, int64_t count) {
  NAME(fold_short)(false, result, source, rows, count);
}

CPU_INLINE void NAME(find_pairs)(ELEMENT *restrict largest, TAP *restrict right,
                                 const ELEMENT *restrict x, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const TAP is_right = NAME(is_larger)(x[2 * i + 1], x[2 * i]);
    largest[i] = is_right ? x[2 * i + 1] : x[2 * i];
    right[i] = is_right;
  }
}

/* The source where the window's first largest lies above (or below), else 0. */
CPU_INLINE void NAME(keep_line)(ELEMENT *restrict to, const ELEMENT *restrict above,
                                const ELEMENT *restrict below, const ELEMENT *restrict source,
                                bool keep_below, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const TAP down = NAME(is_larger)(below[i], above[i]);
    to[i] = (keep_below ? down : ~down) ? source[i] : 0;
  }
}

CPU_INLINE void NAME(keep_lines)(ELEMENT *to, const ELEMENT *largest, const ELEMENT *source,
                                 int64_t rows, int64_t length) {
  const int64_t whole = WHOLE(length);
  const int64_t ample = NAME(lines_with_room)(rows, length, whole);
  for (int64_t p = 0; p < rows; p++, to += 2 * length, largest += 2 * length, source += length) {
    const int64_t count = p < ample ? whole : length;
    NAME(keep_line)(to, largest, largest + length, source, false, count);
    NAME(keep_line)(to + length, largest, largest + length, source, true, count);
  }
}

CPU_INLINE void NAME(place_sides)(ELEMENT *restrict to, const ELEMENT *restrict kept,
                                  const TAP *restrict right, int64_t count) {
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    to[2 * i] = right[i] ? 0 : kept[i];
    to[2 * i + 1] = right[i] ? kept[i] : 0;
  }
}

static void NAME(halve_short)(void *to, const void *data, const void *source, int64_t rows,
                              int64_t count) {
  ELEMENT largest[STAGED / 2 + 2 * STRIDE], kept[STAGED / 2 + 2 * STRIDE];
  TAP right[STAGED / 2];
  const int64_t most = STAGED / 4 / count; /* of the short, at least 2 */
  ELEMENT *target = to;
  const ELEMENT *x = data, *from = source;
  memset(largest, 0, sizeof largest); /* what is read behind the last line */
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t part = rows - first < most ? rows - first : most, pairs = 2 * part * count;
    NAME(find_pairs)(largest, right, x, pairs);
    NAME(keep_lines)(kept, largest, from, part, count);
    NAME(place_sides)(target, kept, right, pairs);
    x += 2 * pairs;
    target += 2 * pairs;
    from += part * count;
  }
}
#endif
