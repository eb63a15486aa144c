/* SPDX-License-Identifier: MIT */
/* Reflections: the factors Q R, and a symmetric matrix made tridiagonal. Included as linalg_steps.h
 * is. */

/* The power of two, for each matrix, that makes the largest element of x about 1. Squares of
 * elements then neither overflow nor vanish. */
static VALUE FORM(scale_of)(const VALUE *x, int64_t count) {
  VALUE most = FORM(all)(0);
  for (int64_t k = 0; k < count; k++) most = FORM(larger)(FORM(magnitude)(x[k]), most);
  for (int lane = 0; lane < FORM(WIDTH); lane++) {
    ELEMENT *one = (ELEMENT *)&most + lane;
    int exponent = 0;
    if (*one > 0 && *one < HIGHEST) (void)__builtin_frexp((double)*one, &exponent);
    exponent = exponent > MOST_EXPONENT    ? MOST_EXPONENT
               : exponent < -MOST_EXPONENT ? -MOST_EXPONENT
                                           : exponent;
    *one = (ELEMENT)__builtin_ldexp(1, -exponent);
  }
  return most;
}

static void FORM(multiply)(VALUE *x, int64_t count, VALUE by) {
  for (int64_t k = 0; k < count; k++) x[k] *= by;
}

/* Σ (x / unit)². */
static VALUE FORM(squares)(const VALUE *x, int64_t step, int64_t count, VALUE unit) {
  const VALUE factor = FORM(all)(1) / unit;
  const pack factors = FORM(repeat)(factor);
  pack sums = pack_all(0);
  int64_t k = 0;
  for (; step == 1 && k + FORM(UNIT) <= count; k += FORM(UNIT)) {
    const pack y = FORM(get)(x + k) * factors;
    sums += y * y;
  }
  VALUE sum = FORM(total)(sums);
  for (; k < count; k++) {
    const VALUE y = x[k * step] * factor;
    sum += y * y;
  }
  return sum;
}

/* v and τ of the reflection I − τ v vᵀ that leaves only the first of the `count` elements of a
 * column, which becomes *left. v, whose first element is 1, replaces the column. Elements are
 * divided by the largest one before they are squared. */
static VALUE FORM(reflection)(VALUE *column, int64_t step, int64_t count, VALUE *left) {
  const VALUE head = column[0];
  VALUE most = FORM(all)(0);
  for (int64_t i = 1; i < count; i++) most = FORM(larger)(FORM(magnitude)(column[i * step]), most);
  const TEST nothing = (TEST)(most < TINY);
  const VALUE unit = FORM(pick)(nothing, FORM(all)(1), FORM(larger)(FORM(magnitude)(head), most));
  VALUE sum = (head / unit) * (head / unit);
  for (int64_t first = 1; first < count; first += FORM(CHAIN)) {
    const int64_t end = first + FORM(CHAIN) < count ? first + FORM(CHAIN) : count;
    sum += FORM(squares)(column + first * step, step, end - first, unit);
  }
  const VALUE norm = unit * FORM(root)(sum);
  const VALUE beta = FORM(pick)((TEST)(head > 0), -norm, norm);
  const VALUE divisor = FORM(pick)(nothing, FORM(all)(1), head - beta);
  const VALUE factor = FORM(pick)(nothing, FORM(all)(0), FORM(all)(1) / divisor);
  for (int64_t i = 1; i < count; i++) column[i * step] *= factor;
  column[0] = FORM(all)(1);
  *left = FORM(pick)(nothing, head, beta);
  return FORM(pick)(nothing, FORM(all)(0), (beta - head) / FORM(pick)(nothing, FORM(all)(1), beta));
}

/* Reflects some columns of small matrices. */
ALWAYS_INLINE void FORM(reflect_some)(int columns, const VALUE *v, int64_t v_step, VALUE tau,
                                      VALUE *a, int64_t a_row, int64_t rows) {
  VALUE sum[4];
  for (int j = 0; j < columns; j++) sum[j] = FORM(all)(0);
  for (int64_t i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) sum[j] = FORM(madd)(v[i * v_step], a[i * a_row + j], sum[j]);
  for (int j = 0; j < columns; j++) sum[j] *= tau;
  for (int64_t i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++)
      a[i * a_row + j] = FORM(nmadd)(v[i * v_step], sum[j], a[i * a_row + j]);
}

/* Reflects the rows of a; `row` is room for one. */
static void FORM(reflect)(const VALUE *v, int64_t v_step, VALUE tau, VALUE *a, int64_t a_row,
                          int64_t rows, int64_t columns, VALUE *row) {
  int64_t k = 0;
  for (; FORM(WIDTH) > 1 && k + 4 <= columns; k += 4)
    FORM(reflect_some)(4, v, v_step, tau, a + k, a_row, rows);
  for (; FORM(WIDTH) > 1 && k + 2 <= columns; k += 2)
    FORM(reflect_some)(2, v, v_step, tau, a + k, a_row, rows);
  for (; FORM(WIDTH) > 1 && k < columns; k++)
    FORM(reflect_some)(1, v, v_step, tau, a + k, a_row, rows);
  if (FORM(WIDTH) > 1) return;
  for (int64_t j = 0; j < columns; j++) row[j] = FORM(all)(0);
  FORM(subtract)(row, columns, 1, columns, (FORM(product)){v, 0, v_step, a, a_row, rows, NULL});
  FORM(multiply)(row, columns, -tau);
  FORM(subtract)(a, a_row, rows, columns, (FORM(product)){v, v_step, 0, row, 0, 1, NULL});
}

/* ---- Many reflections at once ---------------------------------------------------------------- */

/* `count` reflections as I − V T Vᵀ: V [rows, count] with ones on its diagonal and zeros above, T
 * [count, count] above and on its diagonal. The products then have many terms and rows, so that
 * they read their operands from the caches. */
typedef struct FORM(reflections) {
  VALUE *v, *t, *work; /* work: count · columns numbers for each matrix that is reflected, twice */
  int64_t rows, count;
  const cpu_linalg_crew *crew; /* or NULL */
} FORM(reflections);

enum { FORM(REFLECTIONS) = 32 };

/* Numbers for `count` reflections of matrices with up to `rows` rows and `columns` columns. Few
 * reflections need none. */
ALWAYS_INLINE int64_t FORM(reflection_numbers)(int64_t count, int64_t rows, int64_t columns) {
  if (count <= FORM(REFLECTIONS)) return 0;
  return FORM(REFLECTIONS) * (rows + FORM(REFLECTIONS) + 2 * columns);
}

ALWAYS_INLINE FORM(reflections)
    FORM(reflections_in)(VALUE *memory, int64_t rows, int64_t count, const cpu_linalg_crew *crew) {
  VALUE *t = memory + rows * FORM(REFLECTIONS);
  return (FORM(reflections)){memory, t,     t + FORM(REFLECTIONS) * FORM(REFLECTIONS),
                             rows,   count, crew};
}

static void FORM(clear)(VALUE *x, int64_t count) {
  for (int64_t k = 0; k < count; k++) x[k] = FORM(all)(0);
}

/* T from V and each τ. */
static void FORM(join)(const FORM(reflections) * r, const VALUE *tau) {
  const int64_t count = r->count;
  VALUE *products = r->work;
  FORM(clear)(products, count * count); /* −Vᵀ V */
  FORM(subtract)
  (products, count, count, count, (FORM(product)){r->v, 1, count, r->v, count, r->rows, r->crew});
  for (int64_t j = 0; j < count; j++) {
    for (int64_t i = 0; i < j; i++) {
      VALUE sum = FORM(all)(0);
      for (int64_t k = i; k < j; k++) sum += r->t[i * count + k] * products[k * count + j];
      r->t[i * count + j] = sum * tau[j];
    }
    r->t[j * count + j] = tau[j];
    for (int64_t i = j + 1; i < count; i++) r->t[i * count + j] = FORM(all)(0);
  }
}

/* y −= V T Vᵀ y, or with Tᵀ in T's place, of r->rows rows. */
static void FORM(reflect_all)(const FORM(reflections) * r, bool turned, VALUE *y, int64_t y_row,
                              int64_t columns) {
  const int64_t count = r->count;
  VALUE *first = r->work, *second = first + count * columns;
  if (columns == 0) return;
  FORM(clear)(first, 2 * count * columns);
  FORM(subtract)
  (first, columns, count, columns, (FORM(product)){r->v, 1, count, y, y_row, r->rows, r->crew});
  FORM(subtract)
  (second, columns, count, columns,
   (FORM(product)){r->t, turned ? 1 : count, turned ? count : 1, first, columns, count, r->crew});
  FORM(subtract)
  (y, y_row, r->rows, columns, (FORM(product)){r->v, count, 1, second, columns, count, r->crew});
}

/* ---- Q R ------------------------------------------------------------------------------------- */

/* Reflections k … k + count − 1 of the columns of A, from row k on. They replace those columns; R's
 * diagonal goes to `diagonal`. */
static void FORM(reflect_columns)(VALUE *a, int64_t n, int64_t k, const FORM(reflections) * r,
                                  VALUE *tau, VALUE *diagonal, VALUE *row) {
  const int64_t count = r->count;
  for (int64_t i = 0; i < r->rows; i++)
    for (int64_t j = 0; j < count; j++) r->v[i * count + j] = a[(k + i) * n + k + j];
  for (int64_t j = 0; j < count; j++) {
    VALUE *head = r->v + j * count + j;
    tau[j] = FORM(reflection)(head, count, r->rows - j, &diagonal[j]);
    FORM(reflect)(head, count, tau[j], head + 1, count, r->rows - j, count - j - 1, row);
  }
  for (int64_t i = 0; i < r->rows; i++)
    for (int64_t j = 0; j < count; j++) a[(k + i) * n + k + j] = r->v[i * count + j];
}

/* Copies V from the columns that hold the reflections. */
static void FORM(read_columns)(const VALUE *a, int64_t n, int64_t k, const FORM(reflections) * r) {
  for (int64_t i = 0; i < r->rows; i++)
    for (int64_t j = 0; j < r->count; j++)
      r->v[i * r->count + j] = i < j ? FORM(all)(0) : a[(k + i) * n + k + j];
}

/* Columns of a result that is wider than REFLECTIONS. */
static void FORM(factor_wide)(VALUE *a, int64_t m, int64_t n, VALUE *q, int64_t columns, VALUE *tau,
                              VALUE *diagonal, VALUE *row, VALUE *memory,
                              const cpu_linalg_crew *crew) {
  enum { MOST = FORM(REFLECTIONS) };
  const int64_t least = m < n ? m : n;
  for (int64_t k = 0; k < least; k += MOST) {
    const FORM(reflections) r =
        FORM(reflections_in)(memory, m - k, least - k < MOST ? least - k : MOST, crew);
    FORM(reflect_columns)(a, n, k, &r, tau + k, diagonal + k, row);
    if (k + r.count == n) continue;
    FORM(read_columns)(a, n, k, &r);
    FORM(join)(&r, tau + k);
    FORM(reflect_all)(&r, true, a + k * n + k + r.count, n, n - k - r.count);
  }
  for (int64_t k = (least - 1) / MOST * MOST; k >= 0; k -= MOST) {
    const FORM(reflections) r =
        FORM(reflections_in)(memory, m - k, least - k < MOST ? least - k : MOST, crew);
    FORM(read_columns)(a, n, k, &r);
    FORM(join)(&r, tau + k);
    FORM(reflect_all)(&r, false, q + k * columns + k, columns, columns - k);
  }
}

/* R in place of A [m, n], and `columns` columns of Q [m, columns]. R's diagonal is not negative.
 * `memory`: see reflection_numbers. */
static void FORM(factor_qr)(VALUE *a, int64_t m, int64_t n, VALUE *q, int64_t columns, VALUE *tau,
                            VALUE *row, VALUE *memory, const cpu_linalg_crew *crew) {
  const int64_t least = m < n ? m : n;
  VALUE *diagonal = tau + least;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < columns; j++) q[i * columns + j] = FORM(all)(i == j);
  if (least > FORM(REFLECTIONS)) {
    FORM(factor_wide)(a, m, n, q, columns, tau, diagonal, row, memory, crew);
  } else {
    for (int64_t k = 0; k < least; k++) {
      VALUE *head = a + k * n + k;
      tau[k] = FORM(reflection)(head, n, m - k, &diagonal[k]);
      FORM(reflect)(head, n, tau[k], head + 1, n, m - k, n - k - 1, row);
    }
    for (int64_t k = least - 1; k >= 0; k--) FORM(reflect)
    (a + k * n + k, n, tau[k], q + k * columns + k, columns, m - k, columns - k, row);
  }
  for (int64_t k = 0; k < least; k++) {
    const VALUE sign = FORM(pick)((TEST)(diagonal[k] < 0), FORM(all)(-1), FORM(all)(1));
    a[k * n + k] = diagonal[k] * sign;
    FORM(multiply)(a + k * n + k + 1, n - k - 1, sign);
    diagonal[k] = sign;
  }
  for (int64_t i = 0; i < m; i++) {
    for (int64_t k = 0; k < least && k < i; k++) a[i * n + k] = FORM(all)(0);
    for (int64_t k = 0; k < least; k++) q[i * columns + k] *= diagonal[k];
  }
}

/* ---- Symmetric matrices ---------------------------------------------------------------------- */

/* The reflections of the step before, as A −= v zᵀ + w uᵀ. */
typedef struct FORM(change) {
  const VALUE *v, *z, *w, *u;
} FORM(change);

/* What passes over changed rows compute: y −= Σ f[row] · row, and the sums of row · x. */
typedef struct FORM(passes) {
  const VALUE *f, *x;
  VALUE *y;
} FORM(passes);

/* Changes rows i … i + rows − 1, which begin at `a`, from column k on, and passes over them. */
ALWAYS_INLINE void FORM(change_some)(int rows, bool sums, VALUE *a, int64_t n, int64_t i, int64_t k,
                                     FORM(change) c, FORM(passes) p, VALUE *total) {
  pack sum[4];
  for (int r = 0; r < rows; r++) sum[r] = pack_all(0);
  for (; k + FORM(UNIT) <= n; k += FORM(UNIT)) {
    const pack z = FORM(get)(c.z + k), u = FORM(get)(c.u + k);
    pack y = pack_all(0), x = y;
    if (sums) x = FORM(get)(p.x + k);
    for (int r = 0; r < rows; r++) {
      const pack part = NMADD(FORM(repeat)(c.v[i + r]), z, FORM(get)(a + r * n + k));
      const pack row = NMADD(FORM(repeat)(c.w[i + r]), u, part);
      FORM(put)(a + r * n + k, row);
      y = MADD(FORM(repeat)(p.f[i + r]), row, y);
      if (sums) sum[r] = MADD(row, x, sum[r]);
    }
    FORM(put)(p.y + k, FORM(get)(p.y + k) - y);
  }
  for (int r = 0; r < rows && sums; r++) total[r] += FORM(total)(sum[r]);
  for (; k < n; k++)
    for (int r = 0; r < rows; r++) {
      VALUE *row = a + r * n + k;
      *row = FORM(nmadd)(c.w[i + r], c.u[k], FORM(nmadd)(c.v[i + r], c.z[k], *row));
      p.y[k] = FORM(nmadd)(p.f[i + r], *row, p.y[k]);
      if (sums) total[r] = FORM(madd)(*row, p.x[k], total[r]);
    }
}

/* Terms that are added before they join y, so that its error stays small. */
enum { FORM(TERMS) = 16 };

/* Changes the upper triangle from row k on. Then y −= A x with the whole, symmetric A. `part` has
 * room for n numbers. */
static void FORM(change_triangle)(VALUE *a, int64_t n, int64_t k, FORM(change) c, const VALUE *x,
                                  VALUE *y, VALUE *part) {
  for (int64_t first = k; first < n; first += FORM(TERMS)) {
    const int64_t end = first + FORM(TERMS) < n ? first + FORM(TERMS) : n;
    FORM(clear)(part + first, n - first);
    for (int64_t i = first; i < end; i += 4) {
      const int64_t rows = end - i < 4 ? end - i : 4;
      VALUE sums[4];
      for (int64_t r = 0; r < rows; r++) {
        /* the corner at the diagonal */
        VALUE *row = a + (i + r) * n;
        sums[r] = FORM(all)(0);
        for (int64_t j = i + r; j < i + rows; j++) {
          row[j] = FORM(nmadd)(c.w[i + r], c.u[j], FORM(nmadd)(c.v[i + r], c.z[j], row[j]));
          sums[r] = FORM(madd)(row[j], x[j], sums[r]);
          if (j > i + r) part[j] = FORM(nmadd)(row[j], x[i + r], part[j]);
        }
      }
      const FORM(passes) p = {x, x, part};
      if (rows == 4)
        FORM(change_some)(4, true, a + i * n, n, i, i + 4, c, p, sums);
      else
        for (int64_t r = 0; r < rows; r++)
          FORM(change_some)(1, true, a + (i + r) * n, n, i + r, i + rows, c, p, sums + r);
      for (int64_t r = 0; r < rows; r++) part[i + r] -= sums[r];
    }
    for (int64_t j = first; j < n; j++) y[j] += part[j];
  }
}

/* A symmetric matrix, whose upper triangle counts, is Q T Qᵀ: T's diagonal d and subdiagonal e, and
 * Q unless it is NULL. A is lost. `room`: 6 n, `memory`: see reflection_numbers. */
static void FORM(tridiagonal)(VALUE *a, int64_t n, VALUE *d, VALUE *e, VALUE *q, VALUE *room,
                              VALUE *memory, const cpu_linalg_crew *crew) {
  enum { MOST = FORM(REFLECTIONS) };
  VALUE *tau = room;
  VALUE *part = room + 5 * n;
  FORM(clear)(room + n, 4 * n);
  for (int64_t k = 0; k < n; k++) {
    /* The vectors of a step alternate, since the last ones are still read. */
    VALUE *v = room + n + k % 2 * 2 * n, *w = v + n;
    const VALUE *last_v = room + n + (k + 1) % 2 * 2 * n, *last_w = last_v + n;
    VALUE *row = a + k * n;
    for (int64_t j = k; j < n; j++)
      row[j] = FORM(nmadd)(last_w[k], last_v[j], FORM(nmadd)(last_v[k], last_w[j], row[j]));
    d[k] = row[k];
    if (k + 1 == n) break;
    tau[k] = FORM(reflection)(row + k + 1, 1, n - k - 1, &e[k]);
    FORM(clear)(w + k, n - k);
    for (int64_t i = k + 1; i < n; i++) v[i] = row[i];
    FORM(change_triangle)
    (a, n, k + 1, (FORM(change)){last_v, last_w, last_w, last_v}, v, w, part);
    VALUE sum = FORM(all)(0);
    for (int64_t i = k + 1; i < n; i++) {
      w[i] *= -tau[k];
      sum += w[i] * v[i];
    }
    const VALUE half = sum * tau[k] * FORM(all)((ELEMENT)0.5);
    for (int64_t i = k + 1; i < n; i++) w[i] -= half * v[i];
  }
  if (!q) return;
  for (int64_t i = 0; i < n * n; i++) q[i] = FORM(all)(i / n == i % n);
  if (n - 1 <= MOST) {
    for (int64_t k = n - 2; k >= 0; k--) FORM(reflect)
    (a + k * n + k + 1, 1, tau[k], q + (k + 1) * n + k + 1, n, n - k - 1, n - k - 1, room + n);
    return;
  }
  for (int64_t k = (n - 2) / MOST * MOST; k >= 0; k -= MOST) {
    const int64_t rows = n - k - 1;
    const FORM(reflections) r = FORM(reflections_in)(memory, rows, rows < MOST ? rows : MOST, crew);
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < r.count; j++)
        r.v[i * r.count + j] = i < j ? FORM(all)(0) : a[(k + j) * n + k + 1 + i];
    FORM(join)(&r, tau + k);
    FORM(reflect_all)(&r, false, q + (k + 1) * n + k + 1, n, rows);
  }
}
