/* SPDX-License-Identifier: MIT */
/* Eigenvalues of symmetric, tridiagonal matrices: sweeps of rotations with Wilkinson's shifts. Each
 * lane has its own block, first … last, that a sweep works on; elsewhere it rotates by nothing.
 * Included as linalg_steps.h is. */

enum { FORM(SWEEPS) = 40 }; /* for each eigenvalue, at most */

/* The state of one lane. A block whose last is 0 is done. */
typedef struct FORM(block) {
  int64_t first, last, sweeps;
} FORM(block);

ALWAYS_INLINE ELEMENT *FORM(lane_of)(VALUE *x, int lane) {
  return (ELEMENT *)x + lane;
}

ALWAYS_INLINE bool FORM(is_split)(VALUE *d, VALUE *e, int64_t k, int lane) {
  const ELEMENT a = *FORM(lane_of)(d + k, lane), b = *FORM(lane_of)(d + k + 1, lane);
  const ELEMENT size = (a < 0 ? -a : a) + (b < 0 ? -b : b);
  const ELEMENT c = *FORM(lane_of)(e + k, lane), between = c < 0 ? -c : c;
  return !(between > EPSILON * size) || between < NEGLIGIBLE;
}

/* Finds the lane's next block and its shift; false when it is done. */
static bool FORM(next_block)(VALUE *d, VALUE *e, int lane, FORM(block) * b, VALUE *shift) {
  while (b->last > 0 && FORM(is_split)(d, e, b->last - 1, lane)) {
    *FORM(lane_of)(e + b->last - 1, lane) = 0;
    b->last--;
  }
  if (b->last == 0) return false;
  b->first = b->last - 1;
  while (b->first > 0 && !FORM(is_split)(d, e, b->first - 1, lane)) b->first--;
  const ELEMENT low = *FORM(lane_of)(d + b->last - 1, lane),
                high = *FORM(lane_of)(d + b->last, lane);
  const ELEMENT c = *FORM(lane_of)(e + b->last - 1, lane), half = (low - high) / 2;
  const ELEMENT size = half < 0 ? -half : half;
  const ELEMENT part = c * c / (size + ROOT_OF(half * half + c * c));
  *FORM(lane_of)(shift, lane) = half < 0 ? high + part : high - part;
  b->sweeps++;
  return true;
}

/* Sweeps that wait until their rotations reach the vectors, position by position. */
typedef struct FORM(rotations) {
  VALUE *c, *s; /* HELD lines of n */
  int64_t n, held, from[16], to[16];
  const cpu_linalg_crew *crew; /* or NULL */
} FORM(rotations);

enum { FORM(HELD) = FORM(UNIT) > 1 ? 16 : 1 };

ALWAYS_INLINE int64_t FORM(rotation_numbers)(int64_t n) {
  return 2 * FORM(HELD) * n;
}

/* Rotates neighbouring rows: x' = c x + s y, y' = c y − s x, with c from 0 to 1. Small angles change
 * only the last bits of a product c x, so that many of them lose accuracy. Here a row gets a small
 * addend. */
ALWAYS_INLINE void FORM(rotate_units)(int units, const VALUE *c, const VALUE *s, int64_t from,
                                      int64_t to, VALUE *rows, int64_t n) {
  pack x[4];
  for (int u = 0; u < units; u++) x[u] = FORM(get)(rows + from * n + u * FORM(UNIT));
  for (int64_t k = from; k < to; k++) {
    const pack sine = FORM(repeat)(s[k]), half = FORM(repeat)(s[k] / (FORM(all)(1) + c[k]));
    for (int u = 0; u < units; u++) {
      const pack y = FORM(get)(rows + (k + 1) * n + u * FORM(UNIT));
      FORM(put)(rows + k * n + u * FORM(UNIT), MADD(sine, NMADD(half, x[u], y), x[u]));
      x[u] = NMADD(sine, MADD(half, y, x[u]), y);
    }
  }
  for (int u = 0; u < units; u++) FORM(put)(rows + to * n + u * FORM(UNIT), x[u]);
}

/* Rotates columns j … end − 1 of `turned` [n, columns] by all that waits, some of them at a time:
 * they stay in the L1 cache. */
static void FORM(rotate_columns)(const FORM(rotations) * r, VALUE *turned, int64_t columns,
                                 int64_t j, int64_t end) {
  enum { UNIT = FORM(UNIT) };
  for (; j + 4 * UNIT <= end; j += 4 * UNIT)
    for (int64_t i = 0; i < r->held; i++) FORM(rotate_units)
  (4, r->c + i * r->n, r->s + i * r->n, r->from[i], r->to[i], turned + j, columns);
  for (; j + UNIT <= end; j += UNIT)
    for (int64_t i = 0; i < r->held; i++) FORM(rotate_units)
  (1, r->c + i * r->n, r->s + i * r->n, r->from[i], r->to[i], turned + j, columns);
  for (int64_t i = 0; i < r->held; i++)
    for (int64_t k = r->from[i]; k < r->to[i]; k++) {
      const VALUE s = r->s[i * r->n + k], half = s / (FORM(all)(1) + r->c[i * r->n + k]);
      VALUE *x = turned + k * columns, *y = x + columns;
      for (int64_t at = j; at < end; at++) {
        const VALUE a = x[at], b = y[at];
        x[at] = FORM(madd)(s, FORM(nmadd)(half, a, b), a);
        y[at] = FORM(nmadd)(s, FORM(madd)(half, b, a), b);
      }
    }
}

typedef struct FORM(turns) {
  const FORM(rotations) * r;
  VALUE *rows;
  int64_t columns;
} FORM(turns);

static void FORM(rotate_share)(void *argument, int64_t task, int32_t worker) {
  const FORM(turns) *t = argument;
  const int64_t unit = 4 * FORM(UNIT), units = (t->columns + unit - 1) / unit;
  const int64_t tasks = t->r->crew->tasks, end = (task + 1) * units / tasks * unit;
  (void)worker;
  FORM(rotate_columns)
  (t->r, t->rows, t->columns, task * units / tasks * unit, end < t->columns ? end : t->columns);
}

/* Rotates all columns. */
static void FORM(rotate_rows)(FORM(rotations) * r, VALUE *turned, int64_t columns) {
  int64_t count = 0;
  for (int64_t i = 0; i < r->held; i++) count += r->to[i] - r->from[i];
  if (FORM(WIDTH) > 1 || !r->crew || count * columns < 1 << 15) {
    FORM(rotate_columns)(r, turned, columns, 0, columns);
  } else {
    FORM(turns) t = {r, turned, columns};
    r->crew->share(r->crew, FORM(rotate_share), &t);
  }
  r->held = 0;
}

/* One sweep over positions from … to − 1. A lane takes part from `first` to `last`. */
static void FORM(sweep)(VALUE *d, VALUE *e, FORM(rotations) * r, int64_t n, int64_t from,
                        int64_t to, VALUE first, VALUE last, VALUE shift) {
  VALUE x = FORM(all)(0), z = x, *cosines = r->c + r->held * n, *sines = r->s + r->held * n;
  r->from[r->held] = from;
  r->to[r->held++] = to;
  for (int64_t k = from; k < to; k++) {
    const VALUE at = FORM(all)((ELEMENT)k), none = FORM(all)(0), one = FORM(all)(1);
    const TEST active = (TEST)(first <= at) & (TEST)(at < last);
    const TEST inner = (TEST)(first < at) & (TEST)(at < last);
    const TEST more = (TEST)(first <= at) & (TEST)(at + one < last);
    x = FORM(pick)(inner, x, d[k] - shift);
    z = FORM(pick)(inner, z, e[k]);
    /* Squares of x and z alone could vanish. */
    const VALUE most = FORM(larger)(FORM(magnitude)(x), FORM(magnitude)(z));
    const TEST still = (TEST)(most < TINY);
    const VALUE unit = FORM(pick)(still, one, most), x1 = x / unit, z1 = z / unit;
    const VALUE size = FORM(root)(x1 * x1 + z1 * z1);
    const VALUE length = FORM(pick)((TEST)(x1 < 0), -size, size); /* c is not negative */
    const VALUE norm = FORM(pick)(still, none, unit * length);
    const VALUE divisor = FORM(pick)(still, one, length);
    const VALUE c = FORM(pick)(active, FORM(pick)(still, one, x1 / divisor), one);
    const VALUE s = FORM(pick)(active, FORM(pick)(still, none, z1 / divisor), none);
    if (k > from) e[k - 1] = FORM(pick)(inner, norm, e[k - 1]);
    const VALUE g = c * d[k] + s * e[k], h = c * e[k] + s * d[k + 1];
    const VALUE p = c * e[k] - s * d[k], q = c * d[k + 1] - s * e[k];
    d[k] = FORM(pick)(active, c * g + s * h, d[k]);
    d[k + 1] = FORM(pick)(active, c * q - s * p, d[k + 1]);
    e[k] = FORM(pick)(active, c * h - s * g, e[k]);
    x = e[k];
    if (k + 2 < n) {
      z = s * e[k + 1];
      e[k + 1] = FORM(pick)(more, c * e[k + 1], e[k + 1]);
    }
    cosines[k] = c;
    sines[k] = s;
  }
}

/* The eigenvalues in place of d, not sorted, and the vectors as rows of `turned`, which was Qᵀ or
 * NULL. `room`: see rotation_numbers. */
static void FORM(diagonalise)(VALUE *d, VALUE *e, VALUE *turned, int64_t n, VALUE *room,
                              const cpu_linalg_crew *crew, VALUE *status) {
  FORM(rotations) r = {.c = room, .s = room + FORM(HELD) * n, .n = n, .crew = crew};
  FORM(block) block[FORM(WIDTH)];
  VALUE shift = FORM(all)(0);
  for (int lane = 0; lane < FORM(WIDTH); lane++)
    block[lane] = (FORM(block)){.last = *FORM(lane_of)(status, lane) == 0 ? n - 1 : 0};
  for (;;) {
    int64_t from = n, to = 0;
    VALUE first = FORM(all)(0), last = first;
    for (int lane = 0; lane < FORM(WIDTH); lane++) {
      FORM(block) *b = &block[lane];
      if (b->last <= 0 || !FORM(next_block)(d, e, lane, b, &shift)) continue;
      if (b->sweeps > FORM(SWEEPS) * n) {
        *FORM(lane_of)(status, lane) = (ELEMENT)(b->last + 1);
        b->last = 0;
        continue;
      }
      if (b->first < from) from = b->first;
      if (b->last > to) to = b->last;
      *FORM(lane_of)(&first, lane) = (ELEMENT)b->first;
      *FORM(lane_of)(&last, lane) = (ELEMENT)b->last;
    }
    if ((to == 0 || r.held == FORM(HELD)) && turned) FORM(rotate_rows)(&r, turned, n);
    if (to == 0) return;
    r.held %= FORM(HELD);
    FORM(sweep)(d, e, &r, n, from, to, first, last, shift);
  }
}

/* The positions of a lane's values in ascending order. */
static void FORM(sort)(VALUE *d, int64_t n, int lane, VALUE *order) {
  for (int64_t i = 0; i < n; i++) {
    const ELEMENT value = *FORM(lane_of)(d + i, lane);
    int64_t at = i;
    for (; at > 0; at--) {
      const ELEMENT before = *FORM(lane_of)(order + at - 1, lane);
      if (!(*FORM(lane_of)(d + (int64_t)before, lane) > value)) break;
      *FORM(lane_of)(order + at, lane) = before;
    }
    *FORM(lane_of)(order + at, lane) = (ELEMENT)i;
  }
}
