/* The loops of ARGMAX and ARGMIN for one element type: a template like reduce_kernels.h, and
 * included after it.
 *
 * A line is searched in two passes over blocks that stay in the L1 cache: the extremum of the block
 * as a fold, and, only if it beats what was found before, a search for its place. */

/* Whether `b` is more extreme than `a`; both comparisons with a NaN are false. */
ALWAYS_INLINE int NAME(beats)(ELEMENT b, ELEMENT a, int largest) {
  const int better = largest ? b > a : b < a;
  return better | (IS_NAN(b) & !IS_NAN(a));
}

ALWAYS_INLINE int64_t NAME(find)(const ELEMENT *x, ELEMENT wanted) {
  int64_t i = 0;
  while (!((x[i] == wanted) | IS_NAN(x[i]))) i++;
  return i;
}

ALWAYS_INLINE void NAME(search_rows)(const void *source, int64_t step, int64_t lines,
                                     int64_t length, int64_t first, int64_t stride, void *values,
                                     int64_t *positions, int largest) {
  enum { block = 1024 };
  ELEMENT *result = values;
  for (int64_t l = 0; l < lines; l++) {
    const ELEMENT *x = (const ELEMENT *)source + l * step;
    for (int64_t start = 0; start < length; start += block) {
      const int64_t count = length - start < block ? length - start : block;
      const ELEMENT extremum =
          largest ? NAME(fold_line)(x + start, count, LOWEST, NAME(larger), NAME(pack_larger))
                  : NAME(fold_line)(x + start, count, HIGHEST, NAME(smaller), NAME(pack_smaller));
      if (start > 0 && !NAME(beats)(extremum, result[l], largest)) continue;
      result[l] = extremum;
      positions[l] = first + stride * (start + NAME(find)(x + start, extremum));
    }
  }
}

ALWAYS_INLINE void NAME(search_columns)(const void *source, int64_t step, int64_t lines,
                                        int64_t length, int64_t first, int64_t stride, void *values,
                                        int64_t *positions, int largest) {
  enum { strip = 128 };
  ELEMENT best[strip];
  MASK line[strip]; /* as wide as the elements, so that both share one mask */
  for (int64_t start = 0; start < length; start += strip) {
    const int64_t count = length - start < strip ? length - start : strip;
    const ELEMENT *x = (const ELEMENT *)source + start;
    for (int64_t i = 0; i < count; i++) {
      best[i] = x[i];
      line[i] = 0;
    }
    for (int64_t l = 1; l < lines; l++) {
      x += step;
      for (int64_t i = 0; i < count; i++) {
        const int better = NAME(beats)(x[i], best[i], largest);
        best[i] = better ? x[i] : best[i];
        line[i] = better ? (MASK)l : line[i];
      }
    }
    for (int64_t i = 0; i < count; i++) {
      ((ELEMENT *)values)[start + i] = best[i];
      positions[start + i] = first + stride * (int64_t)line[i];
    }
  }
}

ALWAYS_INLINE void NAME(search_merge)(void *values, int64_t *positions, const void *other_values,
                                      const int64_t *other_positions, int64_t length, int largest) {
  ELEMENT *a = values;
  const ELEMENT *b = other_values;
  for (int64_t i = 0; i < length; i++) {
    const int alike = (a[i] == b[i]) | (IS_NAN(a[i]) & IS_NAN(b[i]));
    if (NAME(beats)(b[i], a[i], largest) || (alike && other_positions[i] < positions[i])) {
      a[i] = b[i];
      positions[i] = other_positions[i];
    }
  }
}

#define SEARCH(operation, largest)                                                                 \
  static void NAME(operation##_rows)(const void *source, int64_t step, int64_t lines,              \
                                     int64_t length, int64_t first, int64_t stride, void *values,  \
                                     int64_t *positions) {                                         \
    NAME(search_rows)(source, step, lines, length, first, stride, values, positions, largest);     \
  }                                                                                                \
  static void NAME(operation##_columns)(const void *source, int64_t step, int64_t lines,           \
                                        int64_t length, int64_t first, int64_t stride,             \
                                        void *values, int64_t *positions) {                        \
    NAME(search_columns)(source, step, lines, length, first, stride, values, positions, largest);  \
  }                                                                                                \
  static void NAME(operation##_merge)(void *values, int64_t *positions, const void *other_values,  \
                                      const int64_t *other_positions, int64_t length) {            \
    NAME(search_merge)(values, positions, other_values, other_positions, length, largest);         \
  }
SEARCH(largest, 1)
SEARCH(smallest, 0)
#undef SEARCH
