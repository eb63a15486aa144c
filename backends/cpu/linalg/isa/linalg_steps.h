/* SPDX-License-Identifier: MIT */
/* Factors and solutions of matrices in row-major order, without a guard: linalg.c includes this
 * file for each form. A form defines
 *
 *   VALUE, TEST   a number, which may be a pack, and the result of a comparison
 *   FORM(name)    the names of its functions
 *   WIDTH         matrices in a VALUE
 *   UNIT          VALUEs in a pack
 */

/* Columns of a panel, rows of a block. */
enum { FORM(BLOCK) = 8 };

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
} FORM(product);

ALWAYS_INLINE void FORM(tile)(int rows, int units, VALUE *y, int64_t y_row, const FORM(product) * p,
                              int64_t row, int64_t column) {
  const VALUE *c = p->c + row * p->c_row, *x = p->x + column;
  pack sum[4][2];
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
                               const FORM(product) * p, int64_t column) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) FORM(tile)(4, units, y + r * y_row + column, y_row, p, r, column);
  for (; r + 2 <= rows; r += 2) FORM(tile)(2, units, y + r * y_row + column, y_row, p, r, column);
  if (r < rows) FORM(tile)(1, units, y + r * y_row + column, y_row, p, r, column);
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

static void FORM(subtract_part)(VALUE *y, int64_t y_row, int64_t rows, int64_t columns,
                                FORM(product) p) {
  int64_t k = 0;
  if (p.terms == 0) return;
  for (; k + 2 * FORM(UNIT) <= columns; k += 2 * FORM(UNIT)) FORM(strip)(2, y, y_row, rows, &p, k);
  for (; k + FORM(UNIT) <= columns; k += FORM(UNIT)) FORM(strip)(1, y, y_row, rows, &p, k);
  for (; k < columns; k++) FORM(rest)(y, y_row, rows, &p, k);
}

static void FORM(subtract)(VALUE *y, int64_t y_row, int64_t rows, int64_t columns,
                           FORM(product) p) {
  enum { ROWS = 4, COLUMNS = 64 };
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

/* ---- Cholesky -------------------------------------------------------------------------------- */

/* Notes the first failure. */
ALWAYS_INLINE void FORM(note)(TEST failed, int64_t number, VALUE *status) {
  const VALUE first = FORM(pick)((TEST)(*status == 0), FORM(all)((ELEMENT)number), *status);
  *status = FORM(pick)(failed, first, *status);
}

/* U of A = Uᵀ U, in place of the upper triangle; below it, anything. */
static void FORM(cholesky)(VALUE *u, int64_t n, VALUE *status) {
  for (int64_t first = 0; first < n; first += FORM(BLOCK)) {
    const int64_t end = first + FORM(BLOCK) < n ? first + FORM(BLOCK) : n;
    FORM(subtract)
    (u + first * n + first, n, end - first, n - first,
     (FORM(product)){u + first, 1, n, u + first, n, first});
    for (int64_t j = first; j < end; j++) {
      VALUE *row = u + j * n;
      const VALUE *above = u + first * n + j;
      FORM(subtract)(row + j, n, 1, n - j, (FORM(product)){above, 1, n, above, n, j - first});
      const TEST failed = FORM(not )((TEST)(row[j] > 0));
      FORM(note)(failed, j + 1, status);
      row[j] = FORM(root)(FORM(pick)(failed, FORM(all)(1), row[j]));
      for (int64_t k = j + 1; k < n; k++) row[k] /= row[j];
    }
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
} FORM(rows);

ALWAYS_INLINE void FORM(exchange)(VALUE *x, int64_t columns, int64_t i, int64_t j, int lane) {
  ELEMENT *p = (ELEMENT *)(x + i * columns) + lane, *q = (ELEMENT *)(x + j * columns) + lane;
  for (int64_t k = 0; k < columns; k++) {
    const ELEMENT kept = p[k * FORM(WIDTH)];
    p[k * FORM(WIDTH)] = q[k * FORM(WIDTH)];
    q[k * FORM(WIDTH)] = kept;
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
  for (int lane = 0; lane < FORM(WIDTH); lane++) {
    const int64_t from = (int64_t)((const ELEMENT *)&at)[lane];
    if (from == k) continue;
    FORM(exchange)(s->a, s->n, k, from, lane);
    if (s->b) FORM(exchange)(s->b, s->right, k, from, lane);
    if (s->order) FORM(exchange)(s->order, 1, k, from, lane);
    ((ELEMENT *)&s->sign)[lane] *= -1;
  }
}

/* L and U in place of A, panel by panel. */
static void FORM(eliminate)(FORM(rows) * s, VALUE *status) {
  VALUE *a = s->a;
  const int64_t m = s->m, n = s->n, least = m < n ? m : n;
  for (int64_t first = 0; first < least; first += FORM(BLOCK)) {
    const int64_t end = first + FORM(BLOCK) < least ? first + FORM(BLOCK) : least;
    FORM(subtract)
    (a + first * n + first, n, m - first, end - first,
     (FORM(product)){a + first * n, n, 1, a + first, n, first});
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
    (a + first * n + end, n, end - first, n - end,
     (FORM(product)){a + first * n, n, 1, a + end, n, first});
    for (int64_t i = first + 1; i < end; i++) FORM(subtract)
    (a + i * n + end, n, 1, n - end,
     (FORM(product)){a + i * n + first, n, 1, a + first * n + end, n, i - first});
  }
}

/* ---- Substitution ---------------------------------------------------------------------------- */

/* X of T X = B in place of B; `unit`: the diagonal of T counts as ones. */
static void FORM(forward)(const VALUE *t, int64_t n, bool unit, VALUE *b, int64_t right) {
  for (int64_t first = 0; first < n; first += FORM(BLOCK)) {
    const int64_t end = first + FORM(BLOCK) < n ? first + FORM(BLOCK) : n;
    FORM(subtract)
    (b + first * right, right, end - first, right,
     (FORM(product)){t + first * n, n, 1, b, right, first});
    for (int64_t i = first; i < end; i++) {
      FORM(subtract)
      (b + i * right, right, 1, right,
       (FORM(product)){t + i * n + first, n, 1, b + first * right, right, i - first});
      for (int64_t k = 0; k < right && !unit; k++) b[i * right + k] /= t[i * n + i];
    }
  }
}

static void FORM(backward)(const VALUE *t, int64_t n, bool unit, VALUE *b, int64_t right) {
  for (int64_t end = n; end > 0;) {
    const int64_t first = end > FORM(BLOCK) ? end - FORM(BLOCK) : 0;
    FORM(subtract)
    (b + first * right, right, end - first, right,
     (FORM(product)){t + first * n + end, n, 1, b + end * right, right, n - end});
    for (int64_t i = end - 1; i >= first; i--) {
      FORM(subtract)
      (b + i * right, right, 1, right,
       (FORM(product)){t + i * n + i + 1, n, 1, b + (i + 1) * right, right, end - i - 1});
      for (int64_t k = 0; k < right && !unit; k++) b[i * right + k] /= t[i * n + i];
    }
    end = first;
  }
}
