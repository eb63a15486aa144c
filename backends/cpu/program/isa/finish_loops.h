/* SPDX-License-Identifier: MIT */
/* The loops of finish.c for one type of addends and results. The including file defines STORED
 * (that type), WIDEN(x) and NARROW(x) (its conversions to f32 and back), and NAME(x) (the name of x
 * for this type). */

/* One row. The kinds of addends are constants after inlining. */
CPU_INLINE void NAME(finish_row)(const addend a_kind, const bool has_b, const bool has_c,
                                 int64_t count, const float *x, const STORED *a, const STORED *b,
                                 const STORED *c, float low, float zero, float high, STORED *y) {
  const float repeated = a_kind == REPEATED ? WIDEN(*a) : 0;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    float sum = x[i];
    if (a_kind != ABSENT) sum += a_kind == DENSE ? WIDEN(a[i]) : repeated;
    if (has_b) sum += has_c ? WIDEN(b[i]) + WIDEN(c[i]) : WIDEN(b[i]);
    sum = (low > sum ? low : sum) + zero;
    y[i] = NARROW(high < sum ? high : sum);
  }
}

#define FINISH(name, a_kind, has_b, has_c)                                                         \
  static void NAME(name)(const cpu_finish_lines *l) {                                              \
    for (int64_t row = 0; row < l->rows; row++) NAME(finish_row)                                   \
    (a_kind, has_b, has_c, l->count, l->x + row * l->x_row,                                        \
     a_kind == ABSENT ? NULL : (const STORED *)l->a + row * l->a_row,                              \
     has_b ? (const STORED *)l->b + row * l->b_row : NULL,                                         \
     has_c ? (const STORED *)l->c + row * l->c_row : NULL, l->low, l->zero, l->high,               \
     (STORED *)l->y + row * l->y_row);                                                             \
  }
FINISH(finish_x, ABSENT, false, false)
FINISH(finish_xb, ABSENT, true, false)
FINISH(finish_xbc, ABSENT, true, true)
FINISH(finish_xa, DENSE, false, false)
FINISH(finish_xab, DENSE, true, false)
FINISH(finish_xabc, DENSE, true, true)
FINISH(finish_xr, REPEATED, false, false)
FINISH(finish_xrb, REPEATED, true, false)
FINISH(finish_xrbc, REPEATED, true, true)

static void NAME(run)(const cpu_finish_lines *l) {
  static void (*const loops[3][3])(const cpu_finish_lines *) = {
      {NAME(finish_x), NAME(finish_xb), NAME(finish_xbc)},
      {NAME(finish_xr), NAME(finish_xrb), NAME(finish_xrbc)},
      {NAME(finish_xa), NAME(finish_xab), NAME(finish_xabc)}};
  const addend a = !l->a ? ABSENT : l->a_repeats ? REPEATED : DENSE;
  loops[a][(l->b != NULL) + (l->c != NULL)](l);
}

#undef FINISH
#undef STORED
#undef WIDEN
#undef NARROW
#undef NAME
