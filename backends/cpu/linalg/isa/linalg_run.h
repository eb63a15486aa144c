/* SPDX-License-Identifier: MIT */
/* One call: from matrices in memory to their results. Included as linalg_steps.h is. */

typedef enum FORM(part) { FORM(WHOLE), FORM(UPPER), FORM(LOWER) } FORM(part);

/* Strides of rows and columns. */
typedef struct FORM(strides) {
  int64_t row, column;
} FORM(strides);

/* Reads elements j … end − 1 of a row, which begins at number `at`. */
ALWAYS_INLINE void FORM(read_row)(const ELEMENT *const *from, int64_t at, int64_t step, int64_t j,
                                  int64_t end, VALUE *to) {
  for (; step == 1 && j + pack_lanes <= end; j += pack_lanes) FORM(gather)(from, at + j, to + j);
  for (; j < end; j++)
    for (int lane = 0; lane < FORM(WIDTH); lane++)
      ((ELEMENT *)(to + j))[lane] = from[lane][at + j * step];
}

/* Reads a part of a matrix, without the diagonal if `strict`; elsewhere is 0. Lanes without a
 * matrix repeat the first. */
static void FORM(read)(const void *const *matrices, int32_t count, int64_t rows, int64_t columns,
                       FORM(strides) s, FORM(part) part, bool strict, VALUE *to) {
  const ELEMENT *from[FORM(WIDTH)];
  for (int lane = 0; lane < FORM(WIDTH); lane++) from[lane] = matrices[lane < count ? lane : 0];
  if (part == FORM(WHOLE) && s.column == 1 && s.row == columns) {
    columns *= rows;
    rows = rows > 0;
  }
  for (int64_t i = 0; i < rows; i++) {
    const int64_t diagonal = strict ? 1 : 0;
    int64_t j = part == FORM(UPPER) ? i + diagonal : 0, end = columns;
    if (part == FORM(LOWER) && i + 1 - diagonal < end) end = i + 1 - diagonal;
    VALUE *row = to + i * columns;
    for (int64_t k = 0; k < j && k < columns; k++) row[k] = FORM(all)(0);
    /* Reads whole packs. The values beyond the part become 0 below. */
    int64_t last = part == FORM(LOWER) ? (end + pack_lanes - 1) / pack_lanes * pack_lanes : end;
    if (last > columns) last = end;
    FORM(read_row)(from, i * s.row, s.column, j, last, row);
    for (j = j > end ? j : end; j < columns; j++) row[j] = FORM(all)(0);
  }
}

/* Where a number is not finite. */
static TEST FORM(strange)(const VALUE *x, int64_t count) {
  enum { UNIT = FORM(UNIT) };
  pack sums[4] = {{0}};
  int64_t k = 0;
  for (; k + 4 * UNIT <= count; k += 4 * UNIT)
    for (int u = 0; u < 4; u++) sums[u] += FORM(get)(x + k + u * UNIT) * pack_all(0);
  VALUE sum = FORM(total)((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; k < count; k++) sum += x[k] * FORM(all)(0);
  return (TEST)(sum != sum);
}

/* Writes `count` results from number `start` on; NaN where `bad`. */
static void FORM(write)(const cpu_linalg_problem *p, const cpu_linalg_matrices *m, int64_t start,
                        const VALUE *from, int64_t count, TEST bad) {
  ELEMENT *to[FORM(WIDTH)];
  int64_t k = 0;
  for (int lane = 0; lane < FORM(WIDTH); lane++) to[lane] = m->y[lane < m->count ? lane : 0];
  for (; p->step == 1 && m->count == FORM(WIDTH) && k + pack_lanes <= count; k += pack_lanes) {
    VALUE x[pack_lanes];
    for (int i = 0; i < pack_lanes; i++)
      x[i] = FORM(pick)(bad, FORM(all)(NOT_A_NUMBER), from[k + i]);
    FORM(scatter)(x, to, start + k);
  }
  for (; k < count; k++) {
    const VALUE x = FORM(pick)(bad, FORM(all)(NOT_A_NUMBER), from[k]);
    for (int lane = 0; lane < FORM(WIDTH) && lane < m->count; lane++)
      to[lane][(start + k) * p->step] = ((const ELEMENT *)&x)[lane];
  }
}

/* The status is the last result. */
static void FORM(conclude)(const cpu_linalg_problem *p, const cpu_linalg_matrices *m, int64_t at,
                           VALUE status) {
  FORM(write)(p, m, at, &status, 1, (TEST)(status != status));
}

static VALUE FORM(first_status)(const VALUE *a, int64_t count) {
  return FORM(pick)(FORM(strange)(a, count), FORM(all)(-1), FORM(all)(0));
}

/* ---- Functions ------------------------------------------------------------------------------- */

static void FORM(run_cholesky)(const cpu_linalg_problem *p, const cpu_linalg_matrices *m,
                               VALUE *memory) {
  const int64_t n = p->rows;
  VALUE *l = FORM(WIDTH) > 1 ? memory : memory + n * n;
  FORM(read)
  (m->a, m->count, n, n, (FORM(strides)){p->a_row, p->a_column}, FORM(LOWER), false, l);
  VALUE status = FORM(first_status)(l, n * n);
  if (FORM(WIDTH) > 1) {
    FORM(cholesky_together)(l, n, &status);
  } else {
    FORM(transposed)(l, n, n, n, memory, n);
    FORM(cholesky)(memory, l, n, m->crew, &status);
  }
  FORM(write)(p, m, 0, l, n * n, (TEST)(status != 0));
  FORM(conclude)(p, m, n * n, status);
}

static void FORM(run_triangular)(const cpu_linalg_problem *p, const cpu_linalg_matrices *m,
                                 VALUE *memory) {
  const int64_t n = p->rows, right = p->right;
  const bool upper = p->flags & COMPUTE_LINALG_UPPER;
  const bool unit = p->flags & COMPUTE_LINALG_UNIT_DIAGONAL;
  VALUE *b = memory + n * n;
  FORM(read)
  (m->a, m->count, n, n, (FORM(strides)){p->a_row, p->a_column}, upper ? FORM(UPPER) : FORM(LOWER),
   unit, memory);
  FORM(read)
  (m->b, m->count, n, right, (FORM(strides)){p->b_row, p->b_column}, FORM(WHOLE), false, b);
  VALUE status = FORM(first_status)(memory, n * n);
  for (int64_t i = 0; i < n && !unit; i++)
    FORM(note)((TEST)(memory[i * n + i] == 0), i + 1, &status);
  if (upper)
    FORM(backward)(memory, n, unit, b, right, m->crew);
  else
    FORM(forward)(memory, n, n, unit, b, right, right, m->crew);
  FORM(write)(p, m, 0, b, n * right, (TEST)(status != 0));
  FORM(conclude)(p, m, n * right, status);
}

static void FORM(run_lu)(const cpu_linalg_problem *p, const cpu_linalg_matrices *m, VALUE *memory) {
  const int64_t rows = p->rows, columns = p->columns, count = rows * columns;
  FORM(rows)
  s = {.a = memory,
       .m = rows,
       .n = columns,
       .order = memory + count,
       .sign = FORM(all)(1),
       .crew = m->crew};
  FORM(read)
  (m->a, m->count, rows, columns, (FORM(strides)){p->a_row, p->a_column}, FORM(WHOLE), false,
   memory);
  for (int64_t i = 0; i < rows; i++) s.order[i] = FORM(all)((ELEMENT)i);
  VALUE status = FORM(first_status)(memory, count);
  const TEST bad = (TEST)(status != 0), none = (TEST)(status != status);
  FORM(eliminate)(&s, &status);
  FORM(write)(p, m, 0, memory, count, bad);
  FORM(write)(p, m, count, s.order, rows, none);
  FORM(write)(p, m, count + rows, &s.sign, 1, bad);
  FORM(conclude)(p, m, count + rows + 1, status);
}

static void FORM(run_solve)(const cpu_linalg_problem *p, const cpu_linalg_matrices *m,
                            VALUE *memory) {
  const int64_t n = p->rows, right = p->right;
  FORM(rows)
  s = {.a = memory,
       .m = n,
       .n = n,
       .b = memory + n * n,
       .right = right,
       .sign = FORM(all)(1),
       .crew = m->crew};
  FORM(read)
  (m->a, m->count, n, n, (FORM(strides)){p->a_row, p->a_column}, FORM(WHOLE), false, memory);
  FORM(read)
  (m->b, m->count, n, right, (FORM(strides)){p->b_row, p->b_column}, FORM(WHOLE), false, s.b);
  VALUE status = FORM(first_status)(memory, n * n);
  FORM(eliminate)(&s, &status);
  FORM(forward)(memory, n, n, true, s.b, right, right, m->crew);
  FORM(backward)(memory, n, false, s.b, right, m->crew);
  FORM(write)(p, m, 0, s.b, n * right, (TEST)(status != 0));
  FORM(conclude)(p, m, n * right, status);
}
