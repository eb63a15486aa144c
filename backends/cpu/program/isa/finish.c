/* SPDX-License-Identifier: MIT */
/* Adding to finished sums and limiting them; core/isa.h says how this file is compiled,
 * finish_table.h what the loop does. */
#include "finish_table.h"
#include "program/isa/tile_loops.h"

typedef enum addend { ABSENT, REPEATED, DENSE } addend;

/* One row; what there is of addends is constant wherever this is inlined. */
CPU_INLINE void finish_row(const addend a_kind, const bool has_b, const bool has_c, int64_t count,
                           const float *x, const float *a, const float *b, const float *c,
                           float low, float zero, float high, float *y) {
  const float repeated = a_kind == REPEATED ? *a : 0;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    float sum = x[i];
    if (a_kind != ABSENT) sum += a_kind == DENSE ? a[i] : repeated;
    if (has_b) sum += has_c ? b[i] + c[i] : b[i];
    sum = (low > sum ? low : sum) + zero;
    y[i] = high < sum ? high : sum;
  }
}

#define FINISH(name, a_kind, has_b, has_c)                                                         \
  static void name(const cpu_finish_lines *l) {                                                    \
    for (int64_t row = 0; row < l->rows; row++)                                                    \
      finish_row(a_kind, has_b, has_c, l->count, l->x + row * l->x_row,                            \
                 a_kind == ABSENT ? NULL : l->a + row * l->a_row,                                  \
                 has_b ? l->b + row * l->b_row : NULL, has_c ? l->c + row * l->c_row : NULL,       \
                 l->low, l->zero, l->high, l->y + row * l->y_row);                                 \
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

static void run(const cpu_finish_lines *l) {
  static void (*const loops[3][3])(const cpu_finish_lines *) = {
      {finish_x, finish_xb, finish_xbc},
      {finish_xr, finish_xrb, finish_xrbc},
      {finish_xa, finish_xab, finish_xabc}};
  const addend a = !l->a ? ABSENT : l->a_repeats ? REPEATED : DENSE;
  loops[a][(l->b != NULL) + (l->c != NULL)](l);
}

const cpu_finish_table CPU_SYMBOL(cpu_finish) = {run};
