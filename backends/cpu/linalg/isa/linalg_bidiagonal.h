/* SPDX-License-Identifier: MIT */
/* Singular values of one large matrix: reflections from both sides leave two diagonals, and sweeps
 * of rotations the values (G. Golub and W. Kahan, 1965; J. Demmel and W. Kahan, 1990). For linalg.c
 * only. */

/* A square matrix [n, n] on its way: A − v zᵀ − w uᵀ, then Q B Pᵀ. */
typedef struct bidiagonal {
  int64_t n;
  ELEMENT *a;
  ELEMENT *d, *e;        /* B's diagonal, and the one above */
  ELEMENT *left, *right; /* each τ */
  ELEMENT *v, *z, *w, *u;
  line_rotations from_left, from_right;
  const cpu_linalg_crew *crew; /* or NULL */
} bidiagonal;

/* Numbers of memory for large matrices. */
ALWAYS_INLINE int64_t line_sweep_numbers(int64_t n) {
  if (n <= line_ROTATED) return 0;
  const int64_t reflections = line_REFLECTIONS * (3 * n + line_REFLECTIONS);
  const int64_t rotations = 2 * line_rotation_numbers(n);
  return 8 * n + (reflections > rotations ? reflections : rotations);
}

/* Changes rows k … n − 1 from column k + 1 on. Then z −= Aᵀ v. */
static void bidiagonal_change(bidiagonal *b, int64_t k, const ELEMENT *v, ELEMENT *z,
                              ELEMENT *part) {
  const int64_t n = b->n;
  const line_change c = {b->v, b->z, b->w, b->u};
  for (int64_t first = k; first < n; first += line_TERMS) {
    const int64_t end = first + line_TERMS < n ? first + line_TERMS : n;
    const line_passes p = {v, NULL, part};
    int64_t i = first;
    line_clear(part + k, n - k);
    for (; i + 4 <= end; i += 4) line_change_some(4, false, b->a + i * n, n, i, k + 1, c, p, NULL);
    for (; i < end; i++) line_change_some(1, false, b->a + i * n, n, i, k + 1, c, p, NULL);
    for (int64_t j = k; j < n; j++) z[j] += part[j];
  }
}

/* The sum of products. */
static ELEMENT bidiagonal_dot(const ELEMENT *x, const ELEMENT *y, int64_t count) {
  pack sum[2] = {pack_all(0), pack_all(0)};
  int64_t k = 0;
  for (; k + 2 * pack_lanes <= count; k += 2 * pack_lanes)
    for (int i = 0; i < 2; i++)
      sum[i] = MADD(pack_load(x + k + i * pack_lanes), pack_load(y + k + i * pack_lanes), sum[i]);
  ELEMENT total = pack_sum(sum[0] + sum[1]);
  for (; k < count; k++) total = ONE_MADD(x[k], y[k], total);
  return total;
}

/* Step k. The vectors of the step before are in b, `next` has room for 3 n numbers. */
static void bidiagonal_step(bidiagonal *b, int64_t k, ELEMENT *next) {
  const int64_t n = b->n;
  ELEMENT *a = b->a, *v = next, *z = next + n;
  for (int64_t i = k; i < n; i++) {
    ELEMENT *at = a + i * n + k;
    v[i] = ONE_MADD(-b->w[i], b->u[k], ONE_MADD(-b->v[i], b->z[k], *at));
  }
  b->left[k] = line_reflection(v + k, 1, n - k, &b->d[k]);
  for (int64_t j = k; j < n; j++) z[j] = 0;
  bidiagonal_change(b, k, v, z, z + n);
  for (int64_t i = k; i < n; i++) a[i * n + k] = v[i];
  for (int64_t j = k + 1; j < n; j++) z[j] *= -b->left[k];
  ELEMENT *row = a + k * n, *u = b->u;
  for (int64_t j = k + 1; j < n; j++) row[j] -= z[j]; /* v[k] is 1 */
  b->right[k] = 0;
  if (k + 1 < n) b->right[k] = line_reflection(row + k + 1, 1, n - k - 1, &b->e[k]);
  for (int64_t j = k + 1; j < n; j++) u[j] = row[j];
  const ELEMENT inner = bidiagonal_dot(z + k + 1, u + k + 1, n - k - 1);
  for (int64_t i = k + 1; i < n; i++)
    b->w[i] =
        b->right[k] * (bidiagonal_dot(a + i * n + k + 1, u + k + 1, n - k - 1) - v[i] * inner);
  for (int64_t i = k; i < n; i++) b->v[i] = v[i];
  for (int64_t j = k; j < n; j++) b->z[j] = z[j];
}

/* The rows of Qᵀ, or of Pᵀ if `rows`, from reflections in A. `square` has room for Q. */
static void bidiagonal_turned(const bidiagonal *b, bool rows, ELEMENT *square, ELEMENT *turned,
                              ELEMENT *memory) {
  enum { MOST = line_REFLECTIONS };
  const int64_t n = b->n, skip = rows ? 1 : 0, all = n - skip;
  for (int64_t i = 0; i < n * n; i++) square[i] = i / n == i % n;
  for (int64_t k = (all - 1) / MOST * MOST; k >= 0; k -= MOST) {
    const int64_t left = all - k;
    const line_reflections r =
        line_reflections_in(memory, left, left < MOST ? left : MOST, b->crew);
    for (int64_t i = 0; i < left; i++)
      for (int64_t j = 0; j < r.count; j++) {
        const int64_t at = k + skip + i;
        r.v[i * r.count + j] = i < j ? 0 : b->a[rows ? (k + j) * n + at : at * n + k + j];
      }
    line_join(&r, (rows ? b->right : b->left) + k);
    line_reflect_all(&r, false, square + (k + skip) * n + k + skip, n, left);
  }
  line_transposed(square, n, n, n, turned, n);
}

/* c, not negative, and s that turn (f, g) into (r, 0). Returns r. */
static ELEMENT turn_to(ELEMENT f, ELEMENT g, ELEMENT *c, ELEMENT *s) {
  const ELEMENT most = line_larger(line_magnitude(f), line_magnitude(g));
  *c = 1;
  *s = 0;
  if (most < TINY) return f;
  const ELEMENT x = f / most, y = g / most, size = ROOT_OF(x * x + y * y);
  const ELEMENT length = x < 0 ? -size : size;
  *c = x / length;
  *s = y / length;
  return most * length;
}

/* The smaller singular value of a triangle [f g; 0 h]. */
static ELEMENT smaller_value(ELEMENT f, ELEMENT g, ELEMENT h) {
  f = line_magnitude(f);
  g = line_magnitude(g);
  h = line_magnitude(h);
  const ELEMENT most = line_larger(line_larger(f, h), g);
  if (most < TINY || f == 0 || h == 0) return 0;
  const ELEMENT x = f / most, y = g / most, z = h / most;
  const ELEMENT sum = ROOT_OF((x + z) * (x + z) + y * y), gap = ROOT_OF((x - z) * (x - z) + y * y);
  return 2 * x * z / (sum + gap) * most;
}

/* A sweep over positions first … last. A shift of 0 keeps the smallest values exact. */
static void bidiagonal_sweep(bidiagonal *b, int64_t first, int64_t last, ELEMENT shift) {
  ELEMENT *d = b->d, *e = b->e;
  line_rotations *l = &b->from_left, *r = &b->from_right;
  ELEMENT *lc = l->c + l->held * l->n, *ls = l->s + l->held * l->n;
  ELEMENT *rc = r->c + r->held * r->n, *rs = r->s + r->held * r->n;
  l->from[l->held] = r->from[r->held] = first;
  l->to[l->held++] = r->to[r->held++] = last;
  if (shift == 0) {
    ELEMENT c = 1, s, old_c = 1, old_s = 0;
    for (int64_t i = first; i < last; i++) {
      const ELEMENT length = turn_to(d[i] * c, e[i], &c, &s);
      if (i > first) e[i - 1] = old_s * length;
      rc[i] = c;
      rs[i] = s;
      d[i] = turn_to(old_c * length, d[i + 1] * s, &old_c, &old_s);
      lc[i] = old_c;
      ls[i] = old_s;
    }
    const ELEMENT end = d[last] * c;
    d[last] = end * old_c;
    e[last - 1] = end * old_s;
    return;
  }
  const ELEMENT sign = d[first] < 0 ? -1 : 1;
  ELEMENT f = (line_magnitude(d[first]) - shift) * (sign + shift / d[first]), g = e[first], c, s;
  for (int64_t i = first; i < last; i++) {
    const ELEMENT above = turn_to(f, g, &c, &s);
    if (i > first) e[i - 1] = above;
    rc[i] = c;
    rs[i] = s;
    f = c * d[i] + s * e[i];
    e[i] = c * e[i] - s * d[i];
    g = s * d[i + 1];
    d[i + 1] *= c;
    d[i] = turn_to(f, g, &c, &s);
    lc[i] = c;
    ls[i] = s;
    f = c * e[i] + s * d[i + 1];
    d[i + 1] = c * d[i + 1] - s * e[i];
    if (i + 1 == last) break;
    g = s * e[i + 1];
    e[i + 1] *= c;
  }
  e[last - 1] = f;
}

/* The values in place of d, with signs, and the vectors as rows of `left` and `right`, unless they
 * are NULL. */
static void bidiagonal_diagonalise(bidiagonal *b, ELEMENT *left, ELEMENT *right, ELEMENT *status) {
  enum { SWEEPS = 40 }; /* for each value, at most */
  ELEMENT *d = b->d, *e = b->e;
  int64_t last = *status == 0 ? b->n - 1 : 0;
  for (int64_t sweeps = 0;; sweeps++) {
    while (last > 0 && line_is_split(d, e, last - 1, 0)) e[--last] = 0;
    if (b->from_left.held == line_HELD || last <= 0) {
      if (left) line_rotate_rows(&b->from_left, left, b->n);
      if (right) line_rotate_rows(&b->from_right, right, b->n);
      b->from_left.held = b->from_right.held = 0;
    }
    if (last <= 0) return;
    if (sweeps > SWEEPS * b->n) {
      *status = (ELEMENT)(last + 1);
      last = 0;
      continue;
    }
    int64_t first = last - 1;
    while (first > 0 && !line_is_split(d, e, first - 1, 0)) first--;
    ELEMENT shift = smaller_value(d[last - 1], e[last - 1], d[last]);
    const ELEMENT top = line_magnitude(d[first]), part = top > 0 ? shift / top : 0;
    for (int64_t i = first; i <= last; i++)
      if (line_magnitude(d[i]) < TINY) shift = 0;
    if (part * part < EPSILON) shift = 0;
    bidiagonal_sweep(b, first, last, shift);
  }
}

/* A [n, n] is V Σ Uᵀ: Σ with signs, that the rows of Uᵀ have lost, goes to `values`, Vᵀ to `left`
 * and Uᵀ to `right`, which may be A. They may be NULL. `square`: room for n × n numbers; `memory`:
 * see sweep_numbers. */
static void bidiagonal_run(ELEMENT *a, int64_t n, ELEMENT *values, ELEMENT *left, ELEMENT *right,
                           ELEMENT *square, ELEMENT *memory, const cpu_linalg_crew *crew,
                           ELEMENT *status) {
  bidiagonal b = {.n = n, .a = a, .d = values, .e = memory, .left = memory + n, .crew = crew};
  ELEMENT *more = memory + 8 * n;
  b.right = b.left + n;
  b.v = b.right + n;
  b.z = b.v + n;
  b.w = b.z + n;
  b.u = b.w + n;
  line_clear(b.v, 4 * n);
  for (int64_t k = 0; k < n; k++) bidiagonal_step(&b, k, more);
  if (left) bidiagonal_turned(&b, false, square, left, more);
  if (left) bidiagonal_turned(&b, true, square, right, more);
  const int64_t half = line_rotation_numbers(n);
  b.from_left = (line_rotations){.c = more, .s = more + half / 2, .n = n, .crew = crew};
  b.from_right =
      (line_rotations){.c = more + half, .s = more + half + half / 2, .n = n, .crew = crew};
  bidiagonal_diagonalise(&b, left, right, status);
  for (int64_t i = 0; i < n; i++)
    if (values[i] < 0 && right) line_multiply(right + i * n, n, -1);
}

/* A = V Σ Uᵀ: `values` become −Σ, the rows of `a` Uᵀ and `turned` Vᵀ. */
static void line_sweep_square(ELEMENT *a, int64_t n, bool vectors, ELEMENT *values, ELEMENT *turned,
                              ELEMENT *square, ELEMENT *memory, const cpu_linalg_crew *crew,
                              ELEMENT *status) {
  bidiagonal_run(a, n, values, vectors ? turned : NULL, vectors ? a : NULL, square, memory, crew,
                 status);
  for (int64_t i = 0; i < n; i++) values[i] = -line_magnitude(values[i]);
}
