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
    VALUE part = FORM(all)(0);
    for (int64_t i = first; i < end; i++) {
      const VALUE x = column[i * step] / unit;
      part += x * x;
    }
    sum += part;
  }
  const VALUE norm = unit * FORM(root)(sum);
  const VALUE beta = FORM(pick)((TEST)(head > 0), -norm, norm);
  const VALUE divisor = FORM(pick)(nothing, FORM(all)(1), head - beta);
  for (int64_t i = 1; i < count; i++)
    column[i * step] = FORM(pick)(nothing, FORM(all)(0), column[i * step] / divisor);
  column[0] = FORM(all)(1);
  *left = FORM(pick)(nothing, head, beta);
  return FORM(pick)(nothing, FORM(all)(0), (beta - head) / FORM(pick)(nothing, FORM(all)(1), beta));
}

/* Reflects the rows of a; `row` is room for one. */
static void FORM(reflect)(const VALUE *v, int64_t v_step, VALUE tau, VALUE *a, int64_t a_row,
                          int64_t rows, int64_t columns, VALUE *row) {
  for (int64_t j = 0; j < columns; j++) row[j] = FORM(all)(0);
  FORM(subtract)(row, columns, 1, columns, (FORM(product)){v, 0, v_step, a, a_row, rows});
  FORM(multiply)(row, columns, -tau);
  FORM(subtract)(a, a_row, rows, columns, (FORM(product)){v, v_step, 0, row, 0, 1});
}

/* R in place of A [m, n], and `columns` columns of Q [m, columns]. R's diagonal is not negative. */
static void FORM(factor_qr)(VALUE *a, int64_t m, int64_t n, VALUE *q, int64_t columns, VALUE *tau,
                            VALUE *row) {
  const int64_t least = m < n ? m : n;
  VALUE *diagonal = tau + least;
  for (int64_t k = 0; k < least; k++) {
    VALUE *head = a + k * n + k;
    tau[k] = FORM(reflection)(head, n, m - k, &diagonal[k]);
    FORM(reflect)(head, n, tau[k], head + 1, n, m - k, n - k - 1, row);
  }
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < columns; j++) q[i * columns + j] = FORM(all)(i == j);
  for (int64_t k = least - 1; k >= 0; k--) FORM(reflect)
  (a + k * n + k, n, tau[k], q + k * columns + k, columns, m - k, columns - k, row);
  for (int64_t k = 0; k < least; k++) {
    const VALUE sign = FORM(pick)((TEST)(diagonal[k] < 0), FORM(all)(-1), FORM(all)(1));
    a[k * n + k] = diagonal[k] * sign;
    FORM(multiply)(a + k * n + k + 1, n - k - 1, sign);
    for (int64_t i = k + 1; i < m; i++) a[i * n + k] = FORM(all)(0);
    for (int64_t i = 0; i < m; i++) q[i * columns + k] *= sign;
  }
}

/* A symmetric matrix Q T Qᵀ: T's diagonal d and subdiagonal e, and the rows of Qᵀ unless it is
 * NULL. A is lost. `room`: 5 n. */
static void FORM(tridiagonal)(VALUE *a, int64_t n, VALUE *d, VALUE *e, VALUE *q, VALUE *turned,
                              VALUE *room) {
  VALUE *tau = room, *v = room + n;
  for (int64_t k = 0; k + 1 < n; k++) {
    const int64_t count = n - k - 1;
    VALUE *column = a + (k + 1) * n + k, *rest = column + 1, *w = v + count;
    d[k] = a[k * n + k];
    tau[k] = FORM(reflection)(column, n, count, &e[k]);
    for (int64_t i = 0; i < count; i++) {
      v[i] = w[count + i] = column[i * n];
      w[i] = FORM(all)(0);
    }
    FORM(subtract)(w, count, 1, count, (FORM(product)){v, 0, 1, rest, n, count});
    VALUE sum = FORM(all)(0);
    for (int64_t i = 0; i < count; i++) {
      w[i] *= -tau[k];
      sum += w[i] * v[i];
    }
    const VALUE half = sum * tau[k] * FORM(all)((ELEMENT)0.5);
    for (int64_t i = 0; i < count; i++) w[i] -= half * v[i];
    FORM(subtract)(rest, n, count, count, (FORM(product)){v, 1, count, w, count, 2});
  }
  if (n > 0) d[n - 1] = a[n * n - 1];
  if (!q) return;
  for (int64_t i = 0; i < n * n; i++) q[i] = FORM(all)(i / n == i % n);
  for (int64_t k = n - 2; k >= 0; k--) FORM(reflect)
  (a + (k + 1) * n + k, n, tau[k], q + (k + 1) * n + k + 1, n, n - k - 1, n - k - 1, v);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) turned[j * n + i] = q[i * n + j];
}
