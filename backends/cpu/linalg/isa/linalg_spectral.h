/* SPDX-License-Identifier: MIT */
/* Calls of the functions with orthogonal factors, and of the exponential. Included as linalg_run.h
 * is. */

/* Reads A into `to`, and scales it to about 1. Returns the status, and the factor to scale back. */
static VALUE FORM(read_scaled)(const cpu_linalg_problem *p, const cpu_linalg_matrices *m,
                               int64_t rows, int64_t columns, FORM(strides) s, FORM(part) part,
                               VALUE *to, VALUE *back) {
  FORM(read)(m->a, m->count, rows, columns, s, part, false, to);
  const VALUE status = FORM(first_status)(to, rows * columns);
  const VALUE scale = FORM(scale_of)(to, rows * columns);
  FORM(multiply)(to, rows * columns, scale);
  *back = FORM(all)(1) / scale;
  (void)p;
  return status;
}

static void FORM(run_qr)(const cpu_linalg_problem *p, const cpu_linalg_matrices *m, VALUE *memory) {
  const int64_t rows = p->rows, n = p->columns, least = rows < n ? rows : n;
  const int64_t k = p->flags & COMPUTE_LINALG_FULL ? rows : least;
  VALUE *q = memory + rows * n, *tau = q + rows * k, back;
  const VALUE status = FORM(read_scaled)(p, m, rows, n, (FORM(strides)){p->a_row, p->a_column},
                                         FORM(WHOLE), memory, &back);
  VALUE *row = tau + 2 * least;
  FORM(factor_qr)(memory, rows, n, q, k, tau, row, row + (rows > n ? rows : n), m->crew);
  FORM(multiply)(memory, k * n, back);
  const TEST bad = (TEST)(status != 0);
  FORM(write)(p, m, 0, q, rows * k, bad);
  FORM(write)(p, m, rows * k, memory, k * n, bad);
  FORM(conclude)(p, m, rows * k + k * n, status);
}

/* Writes row number order[i] of `from` as column i of a matrix of results. */
static void FORM(write_columns)(const cpu_linalg_problem *p, const cpu_linalg_matrices *m,
                                int64_t start, VALUE *from, int64_t n, VALUE *order, TEST bad) {
  const VALUE marks = FORM(pick)(bad, FORM(all)(1), FORM(all)(0));
  for (int lane = 0; lane < FORM(WIDTH) && lane < m->count; lane++) {
    const bool none = ((const ELEMENT *)&marks)[lane] != 0;
    ELEMENT *to = m->y[lane];
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++) {
        const int64_t row = (int64_t)*FORM(lane_of)(order + j, lane);
        to[(start + i * n + j) * p->step] =
            none ? NOT_A_NUMBER : *FORM(lane_of)(from + row * n + i, lane) + 0;
      }
  }
}

static void FORM(run_eigh)(const cpu_linalg_problem *p, const cpu_linalg_matrices *m,
                           VALUE *memory) {
  const int64_t n = p->rows, count = n * n;
  const bool vectors = p->flags & COMPUTE_LINALG_VECTORS;
  VALUE *q = vectors ? memory + count : NULL, *turned = vectors ? q + count : NULL;
  VALUE *d = memory + (vectors ? 3 : 1) * count, *e = d + n, *order = e + n, *room = order + n;
  VALUE back;
  VALUE status = FORM(read_scaled)(p, m, n, n, (FORM(strides)){p->a_row, p->a_column}, FORM(LOWER),
                                   memory, &back);
  FORM(mirror)(memory, n);
  FORM(tridiagonal)(memory, n, d, e, q, room, room + 6 * n, m->crew);
  if (vectors) FORM(transposed)(q, n, n, n, turned, n);
  FORM(diagonalise)(d, e, turned, n, room, m->crew, &status);
  const TEST bad = (TEST)(status != 0);
  for (int lane = 0; lane < FORM(WIDTH); lane++) {
    FORM(sort)(d, n, lane, order);
    for (int64_t i = 0; i < n; i++)
      *FORM(lane_of)(room + i, lane) =
          *FORM(lane_of)(d + (int64_t)*FORM(lane_of)(order + i, lane), lane);
  }
  FORM(multiply)(room, n, back);
  FORM(write)(p, m, 0, room, n, bad);
  if (vectors) FORM(write_columns)(p, m, n, turned, n, order, bad);
  FORM(conclude)(p, m, n + (vectors ? count : 0), status);
}

/* Writes a matrix with these steps between its rows and columns. */
static void FORM(write_matrix)(const cpu_linalg_problem *p, const cpu_linalg_matrices *m,
                               int64_t start, const VALUE *from, int64_t rows, int64_t columns,
                               FORM(strides) s, TEST bad) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      const VALUE x = from[i * s.row + j * s.column] + 0;
      FORM(write)(p, m, start + i * columns + j, &x, 1, bad);
    }
}

/* The rows of `from` [n, n] in another order for each lane, as columns of `to`, times `sign`. */
static void FORM(turn_rows)(VALUE *from, int64_t n, VALUE *order, ELEMENT sign, VALUE *to) {
  for (int lane = 0; lane < FORM(WIDTH); lane++)
    for (int64_t i = 0; i < n; i++) {
      const int64_t row = (int64_t)*FORM(lane_of)(order + i, lane);
      for (int64_t j = 0; j < n; j++)
        *FORM(lane_of)(to + j * n + i, lane) = sign * *FORM(lane_of)(from + row * n + j, lane);
    }
}

/* Rotations make the rows of R orthogonal: R = V Σ Uᵀ. `values` become −Σ. `a` keeps Σ Uᵀ, and
 * `turned` becomes Vᵀ. */
static void FORM(rotate_triangle)(VALUE *a, int64_t n, bool vectors, VALUE *values, VALUE *turned,
                                  VALUE *status) {
  for (int64_t i = 0; i < n * n && vectors; i++) turned[i] = FORM(all)(i / n == i % n);
  FORM(orthogonalise)(a, vectors ? turned : NULL, n, status);
  for (int64_t i = 0; i < n; i++) {
    VALUE sums[3];
    FORM(dots)(a + i * n, a + i * n, n, sums);
    values[i] = -FORM(root)(sums[0]);
  }
}

/* The tall one of A and Aᵀ is Q R, and R = V Σ Uᵀ. So the left vectors of the tall one are Q V, and
 * its right vectors U. For small matrices the rows of R are rotated. Directions of a singular value
 * 0 come from another Q R then, of the rows that the rotations leave. */
static void FORM(run_svd)(const cpu_linalg_problem *p, const cpu_linalg_matrices *m,
                          VALUE *memory) {
  const bool is_tall = p->rows >= p->columns, vectors = p->flags & COMPUTE_LINALG_VECTORS;
  const int64_t tall = is_tall ? p->rows : p->columns, n = is_tall ? p->columns : p->rows;
  const int64_t k = !vectors ? 0 : p->flags & COMPUTE_LINALG_FULL ? tall : n;
  const bool large = FORM(WIDTH) == 1 && n > FORM(ROTATED);
  VALUE *a = memory, *q = a + tall * n, *tau = q + tall * k, *row = tau + 2 * n;
  VALUE *values = row + (k > n ? k : n), *order = values + n, *turned = order + n;
  VALUE *sides = turned + n * n, *right = sides + n * n, *left = right + n * n, back;
  VALUE *room = vectors ? left + tall * n : turned;
  const FORM(strides) s =
      is_tall ? (FORM(strides)){p->a_row, p->a_column} : (FORM(strides)){p->a_column, p->a_row};
  VALUE status = FORM(read_scaled)(p, m, tall, n, s, FORM(WHOLE), a, &back);
  if (tall > n || !large) FORM(factor_qr)(a, tall, n, q, k, tau, row, room, m->crew);
  if (large)
    FORM(sweep_square)(a, n, vectors, values, turned, sides, room, m->crew, &status);
  else
    FORM(rotate_triangle)(a, n, vectors, values, turned, &status);
  for (int lane = 0; lane < FORM(WIDTH); lane++) {
    FORM(sort)(values, n, lane, order);
    for (int64_t i = 0; i < n; i++)
      *FORM(lane_of)(row + i, lane) =
          -*FORM(lane_of)(values + (int64_t)*FORM(lane_of)(order + i, lane), lane);
  }
  FORM(multiply)(row, n, back);
  const TEST bad = (TEST)(status != 0);
  FORM(write)(p, m, 0, row, n, bad);
  if (vectors) {
    FORM(turn_rows)(a, n, order, 1, large ? right : sides);
    if (!large) FORM(factor_qr)(sides, n, n, right, n, tau, row, room, m->crew);
    if (large && tall == n) {
      FORM(turn_rows)(turned, n, order, 1, q);
    } else {
      FORM(turn_rows)(turned, n, order, -1, sides);
      FORM(clear)(left, tall * n);
      FORM(subtract)(left, n, tall, n, (FORM(product)){q, k, 1, sides, n, n, m->crew});
      for (int64_t i = 0; i < tall; i++)
        for (int64_t j = 0; j < n; j++) q[i * k + j] = left[i * n + j];
    }
    const int64_t of_left = is_tall ? tall * k : n * n;
    if (is_tall) {
      FORM(write_matrix)(p, m, n, q, tall, k, (FORM(strides)){k, 1}, bad);
      FORM(write_matrix)(p, m, n + of_left, right, n, n, (FORM(strides)){1, n}, bad);
    } else {
      FORM(write_matrix)(p, m, n, right, n, n, (FORM(strides)){n, 1}, bad);
      FORM(write_matrix)(p, m, n + of_left, q, k, tall, (FORM(strides)){1, k}, bad);
    }
  }
  FORM(conclude)(p, m, n + (vectors ? tall * k + n * n : 0), status);
}

static void FORM(run_exponential)(const cpu_linalg_problem *p, const cpu_linalg_matrices *m,
                                  VALUE *memory) {
  const int64_t n = p->rows;
  FORM(read)
  (m->a, m->count, n, n, (FORM(strides)){p->a_row, p->a_column}, FORM(WHOLE), false, memory);
  VALUE status = FORM(first_status)(memory, n * n);
  FORM(exponential)(memory, n, memory + n * n, m->crew, &status);
  FORM(write)(p, m, 0, memory, n * n, (TEST)(status != 0));
  FORM(conclude)(p, m, n * n, status);
}
