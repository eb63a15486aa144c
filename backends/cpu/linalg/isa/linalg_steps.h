/* SPDX-License-Identifier: MIT */
/* Factors and solutions of matrices in row-major order, without a guard: linalg.c includes this
 * file for each form. A form defines
 *
 *   VALUE, TEST   a number, which may be a pack, and the result of a comparison
 *   FORM(name)    the names of its functions
 *   WIDTH         matrices in a VALUE
 *   UNIT          VALUEs in a pack
 */

/* Columns of a panel and rows of a block, and of the wider panels that hold them. The terms of a sum
 * keep their order, so neither changes a bit. */
enum { FORM(BLOCK) = 8, FORM(PANEL) = 64 };

/* Terms that are added one after the other. Longer sums consist of such parts, so that their error
 * stays small. */
enum { FORM(CHAIN) = 1024 };

ALWAYS_INLINE VALUE FORM(magnitude)(VALUE x) {
  return FORM(pick)((TEST)(x < 0), -x, x);
}

ALWAYS_INLINE VALUE FORM(larger)(VALUE x, VALUE y) {
  return FORM(pick)((TEST)(x > y), x, y);
}

/* ---- Products -------------------------------------------------------------------------------- */

/* The factors of y[r][k] −= sum over t of c[r][t] · x[t][k]. */
typedef struct FORM(product) {
  const VALUE *c;
  int64_t c_row, c_term;
  const VALUE *x;
  int64_t x_term, terms;
  const cpu_linalg_crew *crew; /* or NULL */
} FORM(product);

/* Subtracts terms of columns from y's first one on; x points at that column. */
ALWAYS_INLINE void FORM(tile)(int rows, int units, VALUE *y, int64_t y_row, const VALUE *c,
                              const FORM(product) * p, const VALUE *x) {
  pack sum[6][2];
  for (int r = 0; r < rows; r++)
    for (int u = 0; u < units; u++) sum[r][u] = FORM(get)(y + r * y_row + u * FORM(UNIT));
  for (int64_t t = 0; t < p->terms; t++) {
    pack v[2];
    for (int u = 0; u < units; u++) v[u] = FORM(get)(x + t * p->x_term + u * FORM(UNIT));
    for (int r = 0; r < rows; r++) {
      const pack f = FORM(repeat)(c[r * p->c_row + t * p->c_term]);
      for (int u = 0; u < units; u++) sum[r][u] = NMADD(f, v[u], sum[r][u]);
    }
  }
  for (int r = 0; r < rows; r++)
    for (int u = 0; u < units; u++) FORM(put)(y + r * y_row + u * FORM(UNIT), sum[r][u]);
}

ALWAYS_INLINE void FORM(strip)(int units, VALUE *y, int64_t y_row, int64_t rows,
                               const FORM(product) * p, const VALUE *x) {
  const VALUE *c = p->c;
  int64_t r = 0;
  for (; r + 6 <= rows; r += 6) FORM(tile)(6, units, y + r * y_row, y_row, c + r * p->c_row, p, x);
  for (; r + 2 <= rows; r += 2) FORM(tile)(2, units, y + r * y_row, y_row, c + r * p->c_row, p, x);
  if (r < rows) FORM(tile)(1, units, y + r * y_row, y_row, c + r * p->c_row, p, x);
}

/* Elements of a line after its last pack; lanes have none. */
ALWAYS_INLINE void FORM(rest)(VALUE *y, int64_t y_row, int64_t rows, const FORM(product) * p,
                              int64_t column) {
  for (int64_t r = 0; r < rows; r++) {
    VALUE sum = y[r * y_row + column];
    for (int64_t t = 0; t < p->terms; t++)
      sum = FORM(nmadd)(p->c[r * p->c_row + t * p->c_term], p->x[t * p->x_term + column], sum);
    y[r * y_row + column] = sum;
  }
}

/* Strips whose columns of x are copied side by side, for many rows that read them. Returns the
 * number of columns. */
static int64_t FORM(subtract_copied)(VALUE *y, int64_t y_row, int64_t rows, int64_t columns,
                                     const FORM(product) * p) {
  enum { DEPTH = 128, WIDE = 2 * FORM(UNIT) };
  VALUE copy[DEPTH * WIDE];
  const int64_t whole = columns / WIDE * WIDE;
  for (int64_t t = 0; t < p->terms; t += DEPTH) {
    FORM(product) part = *p;
    part.c += t * p->c_term;
    part.terms = t + DEPTH < p->terms ? DEPTH : p->terms - t;
    part.x_term = WIDE;
    for (int64_t k = 0; k < whole; k += WIDE) {
      for (int64_t i = 0; i < part.terms; i++)
        for (int64_t j = 0; j < WIDE; j++) copy[i * WIDE + j] = p->x[(t + i) * p->x_term + k + j];
      FORM(strip)(2, y + k, y_row, rows, &part, copy);
    }
  }
  return whole;
}

static void FORM(subtract_part)(VALUE *y, int64_t y_row, int64_t rows, int64_t columns,
                                FORM(product) p) {
  enum { UNIT = FORM(UNIT), MANY = 24 };
  int64_t k = 0;
  if (p.terms == 0) return;
  if (UNIT > 1 && rows >= MANY && p.terms >= UNIT)
    k = FORM(subtract_copied)(y, y_row, rows, columns, &p);
  for (; k + 2 * UNIT <= columns; k += 2 * UNIT) FORM(strip)(2, y + k, y_row, rows, &p, p.x + k);
  for (; k + UNIT <= columns; k += UNIT) FORM(strip)(1, y + k, y_row, rows, &p, p.x + k);
  for (; k < columns; k++) FORM(rest)(y, y_row, rows, &p, k);
}

static void FORM(subtract_alone)(VALUE *y, int64_t y_row, int64_t rows, int64_t columns,
                                 FORM(product) p) {
  enum { ROWS = FORM(UNIT) > 1 ? 24 : 4, COLUMNS = 64 };
  if (p.terms <= FORM(CHAIN)) {
    FORM(subtract_part)(y, y_row, rows, columns, p);
    return;
  }
  VALUE sums[ROWS * COLUMNS];
  for (int64_t row = 0; row < rows; row += ROWS)
    for (int64_t column = 0; column < columns; column += COLUMNS) {
      const int64_t m = row + ROWS < rows ? ROWS : rows - row;
      const int64_t n = column + COLUMNS < columns ? COLUMNS : columns - column;
      for (int64_t t = 0; t < p.terms; t += FORM(CHAIN)) {
        FORM(product) part = p;
        part.c += row * p.c_row + t * p.c_term;
        part.x += t * p.x_term + column;
        part.terms = t + FORM(CHAIN) < p.terms ? FORM(CHAIN) : p.terms - t;
        for (int64_t k = 0; k < m * n; k++) sums[k] = FORM(all)(0);
        FORM(subtract_part)(sums, n, m, n, part);
        for (int64_t k = 0; k < m * n; k++) y[(row + k / n) * y_row + column + k % n] += sums[k];
      }
    }
}

/* A product that threads share. */
typedef struct FORM(shares) {
  VALUE *y;
  int64_t y_row, rows, columns;
  FORM(product) p;
} FORM(shares);

/* Some of the rows, or of the columns where those are more. No sum is divided. */
static void FORM(subtract_share)(void *argument, int64_t task, int32_t worker) {
  const FORM(shares) *s = argument;
  const bool by_rows = s->rows > s->columns;
  const int64_t unit = by_rows ? 6 : 2 * FORM(UNIT), count = by_rows ? s->rows : s->columns;
  const int64_t units = (count + unit - 1) / unit, tasks = s->p.crew->tasks;
  const int64_t first = task * units / tasks * unit, last = (task + 1) * units / tasks * unit;
  const int64_t end = last < count ? last : count;
  FORM(product) p = s->p;
  (void)worker;
  p.crew = NULL;
  if (first >= end) return;
  if (by_rows)
    p.c += first * p.c_row;
  else
    p.x += first;
  FORM(subtract_alone)
  (s->y + (by_rows ? first * s->y_row : first), s->y_row, by_rows ? end - first : s->rows,
   by_rows ? s->columns : end - first, p);
}

static void FORM(subtract)(VALUE *y, int64_t y_row, int64_t rows, int64_t columns,
                           FORM(product) p) {
  const double shared = 1 << 17; /* multiplications for which threads pay */
  if (FORM(WIDTH) > 1 || !p.crew || (double)rows * (double)columns * (double)p.terms < shared) {
    FORM(subtract_alone)(y, y_row, rows, columns, p);
    return;
  }
  FORM(shares) s = {y, y_row, rows, columns, p};
  p.crew->share(p.crew, FORM(subtract_share), &s);
}

/* ---- Cholesky -------------------------------------------------------------------------------- */

/* Notes the first failure. */
ALWAYS_INLINE void FORM(note)(TEST failed, int64_t number, VALUE *status) {
  const VALUE first = FORM(pick)((TEST)(*status == 0), FORM(all)((ELEMENT)number), *status);
  *status = FORM(pick)(failed, first, *status);
}

/* Writes the transpose of `rows` rows. */
static void FORM(transposed)(const VALUE *from, int64_t from_row, int64_t rows, int64_t columns,
                             VALUE *to, int64_t to_row) {
  enum { SIDE = 8 }; /* whose lines stay in the caches */
  for (int64_t j = 0; j < columns; j += SIDE)
    for (int64_t i = 0; i < rows; i++)
      for (int64_t k = j; k < columns && k < j + SIDE; k++)
        to[k * to_row + i] = from[i * from_row + k];
}

/* Copies the lower triangle to the upper one. */
static void FORM(mirror)(VALUE *a, int64_t n) {
  enum { SIDE = 8 };
  for (int64_t first = 0; first < n; first += SIDE)
    for (int64_t j = first + 1; j < n; j++)
      for (int64_t i = first; i < j && i < first + SIDE; i++) a[i * n + j] = a[j * n + i];
}

/* U of A = Uᵀ U, in place of the upper triangle; below it, anything. L = Uᵀ replaces l from the
 * diagonal on. */
static void FORM(cholesky)(VALUE *u, VALUE *l, int64_t n, const cpu_linalg_crew *crew,
                           VALUE *status) {
  for (int64_t first = 0; first < n; first += FORM(BLOCK)) {
    const int64_t end = first + FORM(BLOCK) < n ? first + FORM(BLOCK) : n;
    const int64_t panel = first - first % FORM(PANEL);
    const int64_t bottom = panel + FORM(PANEL) < n ? panel + FORM(PANEL) : n;
    if (first == panel) FORM(subtract)
    (u + first * n + first, n, bottom - first, n - first,
     (FORM(product)){l + first * n, n, 1, u + first, n, first, crew});
    FORM(subtract)
    (u + first * n + first, n, end - first, n - first,
     (FORM(product)){l + first * n + panel, n, 1, u + panel * n + first, n, first - panel, crew});
    for (int64_t j = first; j < end; j++) {
      VALUE *row = u + j * n;
      const VALUE *above = u + first * n + j;
      FORM(subtract)(row + j, n, 1, n - j, (FORM(product)){above, 1, n, above, n, j - first, NULL});
      const TEST failed = FORM(not )((TEST)(row[j] > 0));
      FORM(note)(failed, j + 1, status);
      row[j] = FORM(root)(FORM(pick)(failed, FORM(all)(1), row[j]));
      const VALUE divisor = row[j];
      for (int64_t k = j + 1; k < n; k++) row[k] /= divisor;
    }
    FORM(transposed)(u + first * n + first, n, end - first, n - first, l + first * n + first, n);
    for (int64_t j = first; j < end; j++)
      for (int64_t k = j + 1; k < end; k++) l[j * n + k] = FORM(all)(0);
  }
}

/* Subtracts the columns before j from rows i … i + rows − 1 of column j. */
ALWAYS_INLINE void FORM(cholesky_rows)(int rows, VALUE *l, int64_t n, int64_t i, int64_t j,
                                       VALUE factor) {
  VALUE sum[4];
  for (int r = 0; r < rows; r++) sum[r] = l[(i + r) * n + j];
  for (int64_t k = 0; k < j; k++) {
    const VALUE x = l[j * n + k];
    for (int r = 0; r < rows; r++) sum[r] = FORM(nmadd)(l[(i + r) * n + k], x, sum[r]);
  }
  for (int r = 0; r < rows; r++) l[(i + r) * n + j] = sum[r] * factor;
}

/* L in place of the lower triangle of small matrices, a column at a time. */
static void FORM(cholesky_together)(VALUE *l, int64_t n, VALUE *status) {
  for (int64_t j = 0; j < n; j++) {
    FORM(cholesky_rows)(1, l, n, j, j, FORM(all)(1));
    VALUE *pivot = l + j * n + j;
    const TEST failed = FORM(not )((TEST)(*pivot > 0));
    FORM(note)(failed, j + 1, status);
    *pivot = FORM(root)(FORM(pick)(failed, FORM(all)(1), *pivot));
    const VALUE factor = FORM(all)(1) / *pivot;
    int64_t i = j + 1;
    for (; i + 4 <= n; i += 4) FORM(cholesky_rows)(4, l, n, i, j, factor);
    for (; i < n; i++) FORM(cholesky_rows)(1, l, n, i, j, factor);
  }
}

/* ---- Substitution ---------------------------------------------------------------------------- */

/* X of T X = B in place of B, whose rows have `right` elements; `unit`: the diagonal of T counts as
 * ones. */
static void FORM(forward)(const VALUE *t, int64_t t_row, int64_t n, bool unit, VALUE *b,
                          int64_t b_row, int64_t right, const cpu_linalg_crew *crew) {
  for (int64_t first = 0; first < n; first += FORM(BLOCK)) {
    const int64_t end = first + FORM(BLOCK) < n ? first + FORM(BLOCK) : n;
    const int64_t panel = first - first % FORM(PANEL);
    const int64_t bottom = panel + FORM(PANEL) < n ? panel + FORM(PANEL) : n;
    if (first == panel) FORM(subtract)
    (b + first * b_row, b_row, bottom - first, right,
     (FORM(product)){t + first * t_row, t_row, 1, b, b_row, first, crew});
    FORM(subtract)
    (b + first * b_row, b_row, end - first, right,
     (FORM(product)){t + first * t_row + panel, t_row, 1, b + panel * b_row, b_row, first - panel,
                     crew});
    for (int64_t i = first; i < end; i++) {
      FORM(subtract)
      (b + i * b_row, b_row, 1, right,
       (FORM(product)){t + i * t_row + first, t_row, 1, b + first * b_row, b_row, i - first, NULL});
      const VALUE divisor = t[i * t_row + i];
      for (int64_t k = 0; k < right && !unit; k++) b[i * b_row + k] /= divisor;
    }
  }
}

static void FORM(backward)(const VALUE *t, int64_t n, bool unit, VALUE *b, int64_t right,
                           const cpu_linalg_crew *crew) {
  for (int64_t bottom = n; bottom > 0;) {
    const int64_t top = bottom > FORM(PANEL) ? bottom - FORM(PANEL) : 0;
    FORM(subtract)
    (b + top * right, right, bottom - top, right,
     (FORM(product)){t + top * n + bottom, n, 1, b + bottom * right, right, n - bottom, crew});
    for (int64_t end = bottom; end > top;) {
      const int64_t first = end > top + FORM(BLOCK) ? end - FORM(BLOCK) : top;
      FORM(subtract)
      (b + first * right, right, end - first, right,
       (FORM(product)){t + first * n + end, n, 1, b + end * right, right, bottom - end, crew});
      for (int64_t i = end - 1; i >= first; i--) {
        FORM(subtract)
        (b + i * right, right, 1, right,
         (FORM(product)){t + i * n + i + 1, n, 1, b + (i + 1) * right, right, end - i - 1, NULL});
        const VALUE divisor = t[i * n + i];
        for (int64_t k = 0; k < right && !unit; k++) b[i * right + k] /= divisor;
      }
      end = first;
    }
    bottom = top;
  }
}

/* ---- Elimination ----------------------------------------------------------------------------- */

/* A matrix whose rows move, with what moves along. */
typedef struct FORM(rows) {
  VALUE *a;
  int64_t m, n;
  VALUE *b; /* or NULL */
  int64_t right;
  VALUE *order; /* numbers of the original rows, or NULL */
  VALUE sign;
  const cpu_linalg_crew *crew; /* or NULL */
} FORM(rows);

ALWAYS_INLINE void FORM(exchange)(VALUE *x, int64_t columns, int64_t i, int64_t j, int lane) {
  ELEMENT *p = (ELEMENT *)(x + i * columns) + lane, *q = (ELEMENT *)(x + j * columns) + lane;
  for (int64_t k = 0; k < columns; k++) {
    const ELEMENT kept = p[k * FORM(WIDTH)];
    p[k * FORM(WIDTH)] = q[k * FORM(WIDTH)];
    q[k * FORM(WIDTH)] = kept;
  }
}

/* The same where `here`, without a branch for each lane. */
ALWAYS_INLINE void FORM(exchange_where)(TEST here, VALUE *x, int64_t columns, int64_t i,
                                        int64_t j) {
  for (int64_t k = 0; k < columns; k++) {
    const VALUE p = x[i * columns + k], q = x[j * columns + k];
    x[i * columns + k] = FORM(pick)(here, q, p);
    x[j * columns + k] = FORM(pick)(here, p, q);
  }
}

/* Brings the row with the largest element in column k, from row k on, to row k. */
static void FORM(pivot)(FORM(rows) * s, int64_t k) {
  VALUE best = FORM(magnitude)(s->a[k * s->n + k]), at = FORM(all)((ELEMENT)k);
  for (int64_t i = k + 1; i < s->m; i++) {
    const VALUE size = FORM(magnitude)(s->a[i * s->n + k]);
    const TEST larger = (TEST)(size > best);
    best = FORM(pick)(larger, size, best);
    at = FORM(pick)(larger, FORM(all)((ELEMENT)i), at);
  }
  for (int64_t i = k + 1; FORM(WIDTH) > 1 && s->m <= 4 && i < s->m; i++) {
    const TEST here = (TEST)(at == FORM(all)((ELEMENT)i));
    FORM(exchange_where)(here, s->a, s->n, k, i);
    if (s->b) FORM(exchange_where)(here, s->b, s->right, k, i);
    if (s->order) FORM(exchange_where)(here, s->order, 1, k, i);
    s->sign = FORM(pick)(here, -s->sign, s->sign);
  }
  if (FORM(WIDTH) > 1 && s->m <= 4) return;
  for (int lane = 0; lane < FORM(WIDTH); lane++) {
    const int64_t from = (int64_t)((const ELEMENT *)&at)[lane];
    if (from == k) continue;
    FORM(exchange)(s->a, s->n, k, from, lane);
    if (s->b) FORM(exchange)(s->b, s->right, k, from, lane);
    if (s->order) FORM(exchange)(s->order, 1, k, from, lane);
    ((ELEMENT *)&s->sign)[lane] *= -1;
  }
}

/* Columns first … end − 1 of a panel that ends at column `right`. The panel already has
 * the terms of the panels to its left. */
static void FORM(eliminate_block)(FORM(rows) * s, int64_t panel, int64_t first, int64_t end,
                                  int64_t right, VALUE *status) {
  VALUE *a = s->a;
  const int64_t m = s->m, n = s->n;
  FORM(subtract)
  (a + first * n + first, n, m - first, end - first,
   (FORM(product)){a + first * n + panel, n, 1, a + panel * n + first, n, first - panel, s->crew});
  for (int64_t k = first; k < end; k++) {
    FORM(pivot)(s, k);
    const VALUE *row = a + k * n;
    const TEST failed = (TEST)(row[k] == 0);
    const VALUE divisor = FORM(pick)(failed, FORM(all)(1), row[k]);
    FORM(note)(failed, k + 1, status);
    for (int64_t i = k + 1; i < m; i++) {
      VALUE *to = a + i * n;
      const VALUE f = to[k] / divisor;
      to[k] = f;
      for (int64_t j = k + 1; j < end; j++) to[j] = FORM(nmadd)(f, row[j], to[j]);
    }
  }
  FORM(subtract)
  (a + first * n + end, n, end - first, right - end,
   (FORM(product)){a + first * n + panel, n, 1, a + panel * n + end, n, first - panel, NULL});
  FORM(forward)
  (a + first * n + first, n, end - first, true, a + first * n + end, n, right - end, s->crew);
}

/* L and U in place of A, panel by panel. */
static void FORM(eliminate)(FORM(rows) * s, VALUE *status) {
  VALUE *a = s->a;
  const int64_t m = s->m, n = s->n, least = m < n ? m : n;
  for (int64_t panel = 0; panel < least; panel += FORM(PANEL)) {
    const int64_t right = panel + FORM(PANEL) < least ? panel + FORM(PANEL) : least;
    FORM(subtract)
    (a + panel * n + panel, n, m - panel, right - panel,
     (FORM(product)){a + panel * n, n, 1, a + panel, n, panel, s->crew});
    for (int64_t first = panel; first < right; first += FORM(BLOCK)) FORM(eliminate_block)
    (s, panel, first, first + FORM(BLOCK) < right ? first + FORM(BLOCK) : right, right, status);
    FORM(subtract)
    (a + panel * n + right, n, right - panel, n - right,
     (FORM(product)){a + panel * n, n, 1, a + right, n, panel, s->crew});
    FORM(forward)
    (a + panel * n + panel, n, right - panel, true, a + panel * n + right, n, n - right, s->crew);
  }
}
