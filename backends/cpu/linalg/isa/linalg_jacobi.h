/* SPDX-License-Identifier: MIT */
/* Singular values: one-sided Jacobi rotations of the rows of a triangle. Rotations make the rows
 * orthogonal; their lengths are the singular values. Included as linalg_steps.h is. */

enum { FORM(ROUNDS) = 40 };

/* Rows of a triangle up to which rotations are faster than sweeps, one matrix at a time. */
enum { FORM(ROTATED) = 16 };

/* Σ x², Σ y² and Σ x y. */
static void FORM(dots)(const VALUE *x, const VALUE *y, int64_t count, VALUE sums[3]) {
  enum { PARTS = 4, UNIT = FORM(UNIT) }; /* sums that do not wait for each other */
  pack xx[PARTS] = {{0}}, yy[PARTS] = {{0}}, xy[PARTS] = {{0}};
  int64_t k = 0;
  for (; k + PARTS * UNIT <= count; k += PARTS * UNIT)
    for (int u = 0; u < PARTS; u++) {
      const pack a = FORM(get)(x + k + u * UNIT), b = FORM(get)(y + k + u * UNIT);
      xx[u] = MADD(a, a, xx[u]);
      yy[u] = MADD(b, b, yy[u]);
      xy[u] = MADD(a, b, xy[u]);
    }
  sums[0] = FORM(total)((xx[0] + xx[1]) + (xx[2] + xx[3]));
  sums[1] = FORM(total)((yy[0] + yy[1]) + (yy[2] + yy[3]));
  sums[2] = FORM(total)((xy[0] + xy[1]) + (xy[2] + xy[3]));
  for (; k < count; k++) {
    sums[0] += x[k] * x[k];
    sums[1] += y[k] * y[k];
    sums[2] += x[k] * y[k];
  }
}

/* True if the rotation c, s of rows p and q, which makes them orthogonal, changes a lane. Rows that
 * are negligible beside the matrix stay as they are. They would only turn rounding errors. */
static bool FORM(find_rotation)(const VALUE *p, const VALUE *q, int64_t count, VALUE *c, VALUE *s) {
  const VALUE one = FORM(all)(1), none = FORM(all)(0);
  VALUE sums[3];
  FORM(dots)(p, q, count, sums);
  const VALUE limit =
      FORM(all)(EPSILON * ROOT_OF((ELEMENT)count)) * FORM(root)(sums[0]) * FORM(root)(sums[1]);
  const VALUE least_square = FORM(all)(NEGLIGIBLE * NEGLIGIBLE);
  const TEST turns = (TEST)(FORM(magnitude)(sums[2]) > limit) & (TEST)(sums[0] > least_square) &
                     (TEST)(sums[1] > least_square);
  const VALUE turned = FORM(pick)(turns, one, none);
  bool any = false;
  for (int lane = 0; lane < FORM(WIDTH); lane++) any = any || ((const ELEMENT *)&turned)[lane] != 0;
  if (!any) return false;
  const VALUE divisor = FORM(pick)(turns, sums[2] + sums[2], one);
  const VALUE zeta = (sums[1] - sums[0]) / divisor, size = FORM(magnitude)(zeta);
  const VALUE least = one / (size + FORM(root)(one + zeta * zeta));
  const VALUE t = FORM(pick)((TEST)(zeta < 0), -least, least);
  const VALUE cosine = one / FORM(root)(one + t * t);
  *c = FORM(pick)(turns, cosine, one);
  *s = FORM(pick)(turns, -(cosine * t), none);
  return true;
}

/* Rotates two rows as FORM(rotate) does, by at most 45 degrees. Small angles change only the last
 * bits of a product c x, so that many of them lose accuracy. Here a row gets a small addend. */
static void FORM(turn)(VALUE *restrict x, VALUE *restrict y, int64_t count, VALUE c, VALUE s) {
  const VALUE t = s / (FORM(all)(1) + c);
  for (int64_t j = 0; j < count; j++) {
    const VALUE a = x[j], b = y[j];
    x[j] = FORM(madd)(s, FORM(nmadd)(t, a, b), a);
    y[j] = FORM(nmadd)(s, FORM(madd)(t, b, a), b);
  }
}

/* Makes the rows of r [n, n] orthogonal, and rotates the rows of `turned` along unless it is
 * NULL. */
static void FORM(orthogonalise)(VALUE *r, VALUE *turned, int64_t n, VALUE *status) {
  VALUE c = FORM(all)(1), s = FORM(all)(0);
  bool changed = n > 1;
  for (int round = 0; changed && round < FORM(ROUNDS); round++) {
    changed = false;
    for (int64_t p = 0; p + 1 < n; p++)
      for (int64_t q = p + 1; q < n; q++) {
        if (!FORM(find_rotation)(r + p * n, r + q * n, n, &c, &s)) continue;
        changed = true;
        FORM(turn)(r + p * n, r + q * n, n, c, s);
        if (turned) FORM(turn)(turned + p * n, turned + q * n, n, c, s);
      }
  }
  /* A lane that still turns has no result. */
  if (changed)
    for (int64_t p = 0; p + 1 < n; p++)
      for (int64_t q = p + 1; q < n; q++)
        if (FORM(find_rotation)(r + p * n, r + q * n, n, &c, &s))
          FORM(note)((TEST)(s != 0), p + 1, status);
}

/* ---- The exponential ------------------------------------------------------------------------- */

/* The largest sum of magnitudes of a column. */
static VALUE FORM(norm_of)(const VALUE *a, int64_t n, VALUE *sums) {
  VALUE most = FORM(all)(0);
  for (int64_t j = 0; j < n; j++) sums[j] = FORM(all)(0);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) sums[j] += FORM(magnitude)(a[i * n + j]);
  for (int64_t j = 0; j < n; j++) most = FORM(pick)((TEST)(sums[j] > most), sums[j], most);
  return most;
}

/* y = −a b. */
static void FORM(product_of)(const VALUE *a, const VALUE *b, int64_t n, VALUE *y,
                             const cpu_linalg_crew *crew) {
  for (int64_t k = 0; k < n * n; k++) y[k] = FORM(all)(0);
  FORM(subtract)(y, n, n, n, (FORM(product)){a, n, 1, b, n, n, crew});
}

/* y = p x + q y' + r y'' + s I of n × n elements. */
static void FORM(combine)(VALUE *y, int64_t n, const VALUE *const x[3], const ELEMENT factor[4]) {
  for (int64_t k = 0; k < n * n; k++)
    y[k] = FORM(all)(factor[0]) * x[0][k] + FORM(all)(factor[1]) * x[1][k] +
           FORM(all)(factor[2]) * x[2][k] + FORM(all)(k / n == k % n ? factor[3] : 0);
}

/* e^A by the approximant of Padé of order 13 and squarings (N. Higham, 2005), in place. `room`: 6
 * matrices and a row. */
static void FORM(exponential)(VALUE *a, int64_t n, VALUE *room, const cpu_linalg_crew *crew,
                              VALUE *status) {
  static const ELEMENT b[] = {(ELEMENT)64764752532480000,
                              (ELEMENT)32382376266240000,
                              (ELEMENT)7771770303897600,
                              (ELEMENT)1187353796428800,
                              (ELEMENT)129060195264000,
                              (ELEMENT)10559470521600,
                              (ELEMENT)670442572800,
                              (ELEMENT)33522128640,
                              (ELEMENT)1323241920,
                              (ELEMENT)40840800,
                              (ELEMENT)960960,
                              (ELEMENT)16380,
                              (ELEMENT)182,
                              1};
  const int64_t count = n * n;
  VALUE *a2 = room, *a4 = a2 + count, *a6 = a4 + count, *u = a6 + count, *v = u + count;
  VALUE *w = v + count, *row = w + count;
  const VALUE norm = FORM(norm_of)(a, n, row);
  VALUE squarings = FORM(all)(0), scale = FORM(all)(1);
  int64_t most = 0;
  for (int lane = 0; lane < FORM(WIDTH); lane++) {
    const ELEMENT one = ((const ELEMENT *)&norm)[lane];
    int exponent = 0;
    if (one > (ELEMENT)5.37 && one < HIGHEST) (void)__builtin_frexp((double)one / 5.37, &exponent);
    if (exponent > MOST_EXPONENT) exponent = MOST_EXPONENT;
    ((ELEMENT *)&squarings)[lane] = (ELEMENT)exponent;
    ((ELEMENT *)&scale)[lane] = (ELEMENT)__builtin_ldexp(1, -exponent);
    if (exponent > most) most = exponent;
  }
  FORM(multiply)(a, count, scale);
  FORM(product_of)(a, a, n, a2, crew);
  FORM(multiply)(a2, count, FORM(all)(-1));
  FORM(product_of)(a2, a2, n, a4, crew);
  FORM(multiply)(a4, count, FORM(all)(-1));
  FORM(product_of)(a2, a4, n, a6, crew);
  FORM(multiply)(a6, count, FORM(all)(-1));
  const VALUE *const powers[] = {a6, a4, a2};
  /* U = A (A⁶ (…) + …) and V, each as the negative of products. */
  FORM(combine)(w, n, powers, (const ELEMENT[]){b[13], b[11], b[9], 0});
  FORM(product_of)(a6, w, n, v, crew);
  FORM(combine)(w, n, powers, (const ELEMENT[]){b[7], b[5], b[3], b[1]});
  for (int64_t k = 0; k < count; k++) w[k] -= v[k];
  FORM(product_of)(a, w, n, u, crew);
  FORM(multiply)(u, count, FORM(all)(-1));
  FORM(combine)(w, n, powers, (const ELEMENT[]){b[12], b[10], b[8], 0});
  FORM(product_of)(a6, w, n, v, crew);
  FORM(combine)(w, n, powers, (const ELEMENT[]){b[6], b[4], b[2], b[0]});
  for (int64_t k = 0; k < count; k++) {
    const VALUE even = w[k] - v[k];
    a2[k] = even - u[k];
    a[k] = even + u[k];
  }
  FORM(rows) s = {.a = a2, .m = n, .n = n, .b = a, .right = n, .sign = FORM(all)(1), .crew = crew};
  FORM(eliminate)(&s, status);
  FORM(forward)(a2, n, n, true, a, n, n, crew);
  FORM(backward)(a2, n, false, a, n, crew);
  for (int64_t step = 0; step < most; step++) {
    const TEST squares = (TEST)(FORM(all)((ELEMENT)step) < squarings);
    FORM(product_of)(a, a, n, w, crew);
    for (int64_t k = 0; k < count; k++) a[k] = FORM(pick)(squares, -w[k], a[k]);
  }
}
