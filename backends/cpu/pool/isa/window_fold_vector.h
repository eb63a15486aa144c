/* SPDX-License-Identifier: MIT */
/* The functions of window_fold.h for one type of vectors. A template: VECTOR is the type, MASK_VECTOR
 * the comparison's, VECTOR_LANES the number of elements, and NAME(x) a name with a suffix. */

CPU_INLINE VECTOR NAME(combine)(fold_kind kind, VECTOR a, VECTOR b) {
  if (kind == FOLD_SUM) return a + b;
  VECTOR larger = b;
  for (int j = 0; j < VECTOR_LANES; j++)
    larger[j] = a[j] > b[j] ? a[j] : b[j]; /* b if either is NaN */
  if (kind == FOLD_NUMBERS) return larger;
  const MASK_VECTOR nan = (MASK_VECTOR)PACK_NAN(a);
  return (VECTOR)(((MASK_VECTOR)a & nan) | ((MASK_VECTOR)larger & ~nan));
}

CPU_INLINE VECTOR NAME(load)(const ELEMENT *from) {
  VECTOR v;
  memcpy(&v, from, sizeof v);
  return v;
}

CPU_INLINE void NAME(store)(const window_lines_fold *f, int64_t line, int64_t i, VECTOR folded) {
#if IS_FLOAT
  if (f->rows) folded /= (ELEMENT)f->rows[line * f->row_step].count * NAME(load)(f->divisors + i);
#endif
  memcpy(f->to + line * f->to_pitch + i, &folded, sizeof folded);
}

/* Folds a vector of each of `lines` lines, or `places` successive vectors of one line. */
CPU_INLINE void NAME(fold)(fold_kind kind, bool scattered, const window_lines_fold *f, int64_t line,
                           int64_t i, int lines, int places) {
  const ELEMENT *from = f->from + line * f->from_pitch + i;
  const int64_t next = lines > 1 ? f->from_pitch : VECTOR_LANES;
  const int count = lines * places;
  VECTOR folded[4];
  for (int v = 0; v < count; v++) folded[v] = NAME(load)(from + v * next);
  for (int64_t t = 1; t < f->taps; t++) {
    const ELEMENT *tap = from + (scattered ? f->offset[t] : t * f->apart);
    for (int v = 0; v < count; v++)
      folded[v] = NAME(combine)(kind, folded[v], NAME(load)(tap + v * next));
  }
  for (int v = 0; v < count; v++)
    NAME(store)(f, line + (lines > 1 ? v : 0), i + (lines > 1 ? 0 : v * VECTOR_LANES), folded[v]);
}

/* Folds `lines` lines of at least a vector. */
CPU_INLINE void NAME(lines)(fold_kind kind, bool scattered, const window_lines_fold *f,
                            int64_t line, int lines) {
  int64_t i = 0;
  if (lines == 1)
    for (; i + 4 * VECTOR_LANES <= f->count; i += 4 * VECTOR_LANES)
      NAME(fold)(kind, scattered, f, line, i, 1, 4);
  for (; i + VECTOR_LANES <= f->count; i += VECTOR_LANES)
    NAME(fold)(kind, scattered, f, line, i, lines, 1);
  if (i < f->count) NAME(fold)(kind, scattered, f, line, f->count - VECTOR_LANES, lines, 1);
}
