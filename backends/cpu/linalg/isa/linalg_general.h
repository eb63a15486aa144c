/* SPDX-License-Identifier: MIT */
/* Eigenvalues and vectors of general matrices, one matrix at a time: a Hessenberg matrix becomes
 * triangular by rotations with Wilkinson's shifts, in complex numbers. For linalg.c only. */

typedef struct complex_number {
  ELEMENT r, i;
} complex_number;

static complex_number complex_times(complex_number a, complex_number b) {
  return (complex_number){a.r * b.r - a.i * b.i, a.r * b.i + a.i * b.r};
}
static complex_number complex_add(complex_number a, complex_number b) {
  return (complex_number){a.r + b.r, a.i + b.i};
}
static complex_number complex_minus(complex_number a, complex_number b) {
  return (complex_number){a.r - b.r, a.i - b.i};
}
static complex_number complex_by(complex_number a, ELEMENT s) {
  return (complex_number){a.r * s, a.i * s};
}
static complex_number complex_conjugate(complex_number a) {
  return (complex_number){a.r, -a.i};
}
static ELEMENT complex_square(complex_number a) {
  return a.r * a.r + a.i * a.i;
}
static ELEMENT complex_size(complex_number a) {
  return line_magnitude(a.r) + line_magnitude(a.i);
}
static complex_number complex_over(complex_number a, complex_number b) {
  const ELEMENT size = complex_size(b);
  const complex_number scaled = complex_by(b, 1 / size);
  const complex_number top = complex_times(a, complex_conjugate(scaled));
  return complex_by(top, 1 / complex_square(scaled) / size);
}
static complex_number complex_root(complex_number a) {
  const ELEMENT length = ROOT_OF(complex_square(a));
  if (length == 0) return (complex_number){0, 0};
  const ELEMENT large = ROOT_OF((length + line_magnitude(a.r)) / 2);
  const ELEMENT other = line_magnitude(a.i) / (2 * large), sign = a.i < 0 ? -1 : 1;
  return a.r >= 0 ? (complex_number){large, sign * other} : (complex_number){other, sign * large};
}

/* ---- Hessenberg ------------------------------------------------------------------------------ */

/* H, complex, of A = Q H Qᵀ, and Qᵀ in the rows of z. `room`: n² + 3 n elements. */
static void to_hessenberg(ELEMENT *a, int64_t n, complex_number *h, complex_number *z,
                          ELEMENT *room) {
  ELEMENT *q = room, *tau = q + n * n, *left = tau + n, *row = left + n;
  for (int64_t k = 0; k + 2 < n; k++) {
    ELEMENT *v = a + (k + 1) * n + k;
    const int64_t count = n - k - 1;
    tau[k] = line_reflection(v, n, count, &left[k]);
    line_reflect(v, n, tau[k], v + 1, n, count, count, row);
    for (int64_t i = 0; i < n; i++) {
      ELEMENT *to = a + i * n + k + 1, sum = 0;
      for (int64_t j = 0; j < count; j++) sum += to[j] * v[j * n];
      for (int64_t j = 0; j < count; j++) to[j] -= tau[k] * sum * v[j * n];
    }
  }
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) {
      const ELEMENT below = i == j + 1 ? (j + 2 < n ? left[j] : a[i * n + j]) : 0;
      h[i * n + j] = (complex_number){i <= j ? a[i * n + j] : below, 0};
    }
  for (int64_t i = 0; i < n * n; i++) q[i] = i / n == i % n;
  for (int64_t k = n - 3; k >= 0; k--)
    line_reflect(a + (k + 1) * n + k, n, tau[k], q + (k + 1) * n + k + 1, n, n - k - 1, n - k - 1,
                 row);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) z[j * n + i] = (complex_number){q[i * n + j], 0};
}

/* ---- Triangular ------------------------------------------------------------------------------ */

/* x' = (conj(p) x + conj(q) y), y' = (p y − q x). */
static void turn_pair(complex_number *x, complex_number *y, complex_number p, complex_number q) {
  const complex_number a = *x, b = *y;
  *x = complex_add(complex_times(complex_conjugate(p), a), complex_times(complex_conjugate(q), b));
  *y = complex_minus(complex_times(p, b), complex_times(q, a));
}

static complex_number find_shift(const complex_number *h, int64_t n, int64_t last, int tries) {
  const complex_number *low = h + last * n + last, *high = low - n - 1;
  if (tries % 10 == 0) return complex_add(*low, (complex_number){complex_size(low[-1]), 0});
  const complex_number both = complex_times(low[-1], high[1]);
  const complex_number half = complex_by(complex_minus(*high, *low), (ELEMENT)0.5);
  complex_number root = complex_root(complex_add(complex_times(half, half), both));
  if (half.r * root.r + half.i * root.i < 0) root = complex_by(root, -1);
  const complex_number divisor = complex_add(half, root);
  return complex_size(divisor) == 0 ? *low : complex_minus(*low, complex_over(both, divisor));
}

/* One step on the block first … last. `turns`: 2 n numbers. */
static void step_block(complex_number *h, complex_number *z, int64_t n, int64_t first, int64_t last,
                       complex_number shift, complex_number *turns) {
  for (int64_t k = first; k <= last; k++) h[k * n + k] = complex_minus(h[k * n + k], shift);
  for (int64_t k = first; k < last; k++) {
    const complex_number x = h[k * n + k], y = h[(k + 1) * n + k];
    const ELEMENT r = ROOT_OF(complex_square(x) + complex_square(y));
    const complex_number p = r == 0 ? (complex_number){1, 0} : complex_by(x, 1 / r);
    const complex_number q = r == 0 ? (complex_number){0, 0} : complex_by(y, 1 / r);
    turns[2 * k] = p;
    turns[2 * k + 1] = q;
    for (int64_t j = k; j < n; j++) turn_pair(&h[k * n + j], &h[(k + 1) * n + j], p, q);
  }
  for (int64_t k = first; k < last; k++) {
    const complex_number p = complex_conjugate(turns[2 * k]);
    const complex_number q = complex_conjugate(turns[2 * k + 1]);
    for (int64_t i = 0; i <= k + 1; i++) turn_pair(&h[i * n + k], &h[i * n + k + 1], p, q);
    for (int64_t i = 0; i < n; i++) turn_pair(&z[k * n + i], &z[(k + 1) * n + i], p, q);
  }
  for (int64_t k = first; k <= last; k++) h[k * n + k] = complex_add(h[k * n + k], shift);
}

/* Makes h triangular; returns the status. After many tries an element is compared with the largest
 * one of the matrix, because beside its neighbours it can be rounding errors alone. */
static ELEMENT make_triangular(complex_number *h, complex_number *z, int64_t n,
                               complex_number *turns, ELEMENT largest) {
  enum { MOST_TRIES = 90, STRICT_TRIES = 30 };
  int tries = 0;
  for (int64_t last = n - 1; last > 0;) {
    int64_t first = last;
    for (; first > 0; first--) {
      const complex_number *at = h + first * n + first;
      const ELEMENT least = tries > STRICT_TRIES ? largest : 0;
      const ELEMENT size = complex_size(at[0]) + complex_size(at[-n - 1]) + least;
      const ELEMENT below = complex_size(at[-1]);
      if (!(below > EPSILON * size) || below < NEGLIGIBLE) break;
    }
    if (first > 0) h[first * n + first - 1] = (complex_number){0, 0};
    if (first == last) {
      last--;
      tries = 0;
    } else if (++tries > MOST_TRIES) {
      return (ELEMENT)(last + 1);
    } else {
      step_block(h, z, n, first, last, find_shift(h, n, last, tries), turns);
    }
  }
  return 0;
}

/* ---- Vectors --------------------------------------------------------------------------------- */

/* Vector number k of the triangular matrix in x, then of A in v, with length 1 and a real largest
 * element. The vector of a real value is real. */
static void find_vector(const complex_number *h, const complex_number *z, int64_t n, int64_t k,
                        ELEMENT least, bool is_real, complex_number *x, complex_number *v) {
  for (int64_t i = 0; i < n; i++) x[i] = v[i] = (complex_number){0, 0};
  x[k].r = 1;
  for (int64_t i = k - 1; i >= 0; i--) {
    complex_number sum = {0, 0};
    for (int64_t j = i + 1; j <= k; j++) sum = complex_add(sum, complex_times(h[i * n + j], x[j]));
    complex_number gap = complex_minus(h[k * n + k], h[i * n + i]);
    if (complex_size(gap) < least) gap = (complex_number){least, 0};
    x[i] = complex_over(sum, gap);
    if (complex_size(x[i]) < 1 / EPSILON) continue;
    const ELEMENT shrink = 1 / complex_size(x[i]);
    for (int64_t j = i; j <= k; j++) x[j] = complex_by(x[j], shrink);
  }
  ELEMENT sum = 0;
  complex_number largest = {0, 0};
  for (int64_t j = 0; j <= k; j++)
    for (int64_t i = 0; i < n; i++) v[i] = complex_add(v[i], complex_times(x[j], z[j * n + i]));
  for (int64_t i = 0; i < n; i++) {
    sum += complex_square(v[i]);
    if (complex_square(v[i]) > complex_square(largest)) largest = v[i];
  }
  const ELEMENT size = ROOT_OF(complex_square(largest) * sum);
  if (size == 0) return;
  for (int64_t i = 0; i < n; i++)
    v[i] = complex_by(complex_times(v[i], complex_conjugate(largest)), 1 / size);
  if (!is_real) return;
  ELEMENT real = 0;
  for (int64_t i = 0; i < n; i++) real += v[i].r * v[i].r;
  for (int64_t i = 0; i < n; i++) v[i] = (complex_number){v[i].r / ROOT_OF(real), 0};
}

/* An imaginary part within the error of the method counts as 0. */
static void line_run_general(const cpu_linalg_problem *p, const cpu_linalg_matrices *m,
                             ELEMENT *memory) {
  const int64_t n = p->rows, count = n * n;
  const bool vectors = p->flags & COMPUTE_LINALG_VECTORS;
  ELEMENT *room = memory + count, back, largest = 0;
  complex_number *h = (complex_number *)(void *)(room + count + 4 * n), *z = h + count;
  complex_number *x = z + count, *v = x + n, *turns = v + n;
  ELEMENT status = line_read_scaled(p, m, n, n, (line_strides){p->a_row, p->a_column}, line_WHOLE,
                                    memory, &back);
  if (status == 0) {
    to_hessenberg(memory, n, h, z, room);
    for (int64_t i = 0; i < count; i++)
      if (complex_size(h[i]) > largest) largest = complex_size(h[i]);
    status = make_triangular(h, z, n, turns, largest);
  }
  const MASK bad = status != 0;
  const ELEMENT limit = 16 * EPSILON * largest;
  for (int64_t k = 0; k < n; k++) {
    complex_number value = bad ? (complex_number){0, 0} : h[k * n + k];
    const bool is_real = line_magnitude(value.i) <= limit;
    const ELEMENT parts[] = {value.r * back, is_real ? 0 : value.i * back};
    line_write(p, m, 2 * k, parts, 2, bad);
    if (!vectors) continue;
    if (!bad) find_vector(h, z, n, k, EPSILON * largest + NEGLIGIBLE, is_real, x, v);
    for (int64_t i = 0; i < n; i++) {
      const ELEMENT both[] = {bad ? 0 : v[i].r, bad || is_real ? 0 : v[i].i};
      line_write(p, m, 2 * n + 2 * (i * n + k), both, 2, bad);
    }
  }
  line_conclude(p, m, 2 * n + (vectors ? 2 * count : 0), status);
}
