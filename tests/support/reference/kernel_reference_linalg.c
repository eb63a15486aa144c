/* SPDX-License-Identifier: MIT */
/* The reference of LINALG: textbook algorithms in long double, one matrix at a time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/reference/kernel_reference_kinds.h"

typedef long double real;

typedef struct matrix {
  int64_t rows, columns;
  real *at; /* row-major */
} matrix;

static real *element(const matrix *a, int64_t i, int64_t j) {
  return &a->at[i * a->columns + j];
}

static matrix make(int64_t rows, int64_t columns) {
  matrix a = {rows, columns, calloc((size_t)(rows * columns) + 1, sizeof(real))};
  return a;
}

/* One call: A, B, the packed results, and the status. */
typedef struct job {
  const compute_linalg_attributes *attributes;
  matrix a, b;
  real *results;
  int64_t count;
  real status;
} job;

static void load(const reference *r, uint32_t input, const int64_t *point, const matrix *to) {
  const int32_t rank = r->d->rank;
  int64_t at[COMPUTE_MAX_RANK];
  memcpy(at, point, sizeof at);
  for (at[rank - 2] = 0; at[rank - 2] < to->rows; at[rank - 2]++)
    for (at[rank - 1] = 0; at[rank - 1] < to->columns; at[rank - 1]++)
      *element(to, at[rank - 2], at[rank - 1]) = (real)reference_at(r, input, at, rank).real;
}

/* ---- Functions ------------------------------------------------------------------------------- */

static void note(job *j, bool failed, int64_t number) {
  if (failed && j->status == 0) j->status = (real)number;
}

static void cholesky(job *j) {
  const int64_t n = j->a.rows;
  const matrix l = {n, n, j->results};
  for (int64_t k = 0; k < n; k++) {
    real sum = *element(&j->a, k, k);
    for (int64_t t = 0; t < k; t++) sum -= *element(&l, k, t) * *element(&l, k, t);
    note(j, !(sum > 0), k + 1);
    *element(&l, k, k) = sqrtl(sum);
    for (int64_t i = k + 1; i < n; i++) {
      real rest = *element(&j->a, i, k);
      for (int64_t t = 0; t < k; t++) rest -= *element(&l, i, t) * *element(&l, k, t);
      *element(&l, i, k) = rest / *element(&l, k, k);
    }
  }
}

static void swap_rows(const matrix *a, int64_t i, int64_t k) {
  for (int64_t j = 0; j < a->columns && i != k; j++) {
    const real kept = *element(a, i, j);
    *element(a, i, j) = *element(a, k, j);
    *element(a, k, j) = kept;
  }
}

/* Row by row to the left and below; `order` moves along. */
static real eliminate(job *j, const matrix *order) {
  const matrix *a = &j->a;
  real sign = 1;
  for (int64_t k = 0; k < a->rows && k < a->columns; k++) {
    int64_t best = k;
    for (int64_t i = k + 1; i < a->rows; i++)
      if (fabsl(*element(a, i, k)) > fabsl(*element(a, best, k))) best = i;
    swap_rows(a, k, best);
    swap_rows(order, k, best);
    if (best != k) sign = -sign;
    note(j, *element(a, k, k) == 0, k + 1);
    for (int64_t i = k + 1; i < a->rows; i++) {
      if (*element(a, k, k) != 0) *element(a, i, k) /= *element(a, k, k);
      for (int64_t c = k + 1; c < a->columns; c++)
        *element(a, i, c) -= *element(a, i, k) * *element(a, k, c);
    }
  }
  return sign;
}

static void substitute(const matrix *t, bool upper, bool unit, const matrix *b) {
  const int64_t n = t->rows;
  for (int64_t s = 0; s < n; s++) {
    const int64_t i = upper ? n - 1 - s : s;
    for (int64_t k = upper ? i + 1 : 0; k < (upper ? n : i); k++)
      for (int64_t c = 0; c < b->columns; c++)
        *element(b, i, c) -= *element(t, i, k) * *element(b, k, c);
    for (int64_t c = 0; c < b->columns && !unit; c++) *element(b, i, c) /= *element(t, i, i);
  }
}

static void triangular(job *j) {
  const bool upper = j->attributes->flags & COMPUTE_LINALG_UPPER;
  const bool unit = j->attributes->flags & COMPUTE_LINALG_UNIT_DIAGONAL;
  for (int64_t i = 0; i < j->a.rows && !unit; i++) note(j, *element(&j->a, i, i) == 0, i + 1);
  substitute(&j->a, upper, unit, &j->b);
  memcpy(j->results, j->b.at, (size_t)(j->b.rows * j->b.columns) * sizeof(real));
}

static void solve(job *j) {
  eliminate(j, &j->b);
  substitute(&j->a, false, true, &j->b);
  substitute(&j->a, true, false, &j->b);
  memcpy(j->results, j->b.at, (size_t)(j->b.rows * j->b.columns) * sizeof(real));
}

static void lu(job *j) {
  const int64_t m = j->a.rows, count = m * j->a.columns;
  const matrix order = {m, 1, j->results + count};
  for (int64_t i = 0; i < m; i++) order.at[i] = (real)i;
  j->results[count + m] = eliminate(j, &order);
  memcpy(j->results, j->a.at, (size_t)count * sizeof(real));
}

/* ---- All ------------------------------------------------------------------------------------- */

/* True if the function reads this element of A. */
static bool is_read(const compute_linalg_attributes *a, int64_t i, int64_t j) {
  if (a->function == COMPUTE_LINALG_CHOLESKY) return j <= i;
  if (a->function != COMPUTE_LINALG_TRIANGULAR) return true;
  if (i == j) return !(a->flags & COMPUTE_LINALG_UNIT_DIAGONAL);
  return a->flags & COMPUTE_LINALG_UPPER ? j > i : j < i;
}

static void run(job *j) {
  for (int64_t i = 0; i < j->a.rows; i++)
    for (int64_t k = 0; k < j->a.columns; k++)
      if (is_read(j->attributes, i, k) && !isfinite(*element(&j->a, i, k))) j->status = -1;
  if (j->status == 0) switch (j->attributes->function) {
    case COMPUTE_LINALG_CHOLESKY: cholesky(j); break;
    case COMPUTE_LINALG_TRIANGULAR: triangular(j); break;
    case COMPUTE_LINALG_LU: lu(j); break;
    case COMPUTE_LINALG_SOLVE: solve(j); break;
    }
  const bool keeps = j->attributes->function == COMPUTE_LINALG_LU;
  for (int64_t i = 0; i < j->count - 1; i++)
    if (j->status < 0 || (j->status > 0 && !keeps)) j->results[i] = NAN;
  for (int64_t i = 0; i < j->a.rows && keeps && j->status < 0; i++)
    j->results[j->a.rows * j->a.columns + i] = (real)i;
  j->results[j->count - 1] = j->status;
}

bool reference_linalg(const reference *r) {
  const compute_linalg_attributes *a = compute_linalg_of(r->d);
  const int32_t last = r->d->rank - 1;
  reference_point point;
  job j = {.attributes = a,
           .a = make(a->rows, a->columns),
           .b = make(a->rows, a->right),
           .count = compute_linalg_results(a)};
  j.results = calloc((size_t)j.count, sizeof(real));
  const bool memory = j.a.at && j.b.at && j.results;
  int64_t sizes[COMPUTE_MAX_RANK];
  memcpy(sizes, r->d->size, sizeof sizes);
  sizes[last] = 1;
  if (memory && reference_begin(&point, sizes, r->d->rank)) do {
      load(r, 0, point.at, &j.a);
      if (compute_linalg_has_right(a)) load(r, 1, point.at, &j.b);
      memset(j.results, 0, (size_t)j.count * sizeof(real));
      j.status = 0;
      run(&j);
      real largest = 0;
      for (int64_t i = 0; i < j.count - 1; i++) largest = fmaxl(largest, fabsl(j.results[i]));
      int64_t at[COMPUTE_MAX_RANK];
      memcpy(at, point.at, sizeof at);
      for (at[last] = 0; at[last] < j.count; at[last]++) {
        const reference_value value = {.real = (double)j.results[at[last]],
                                       .terms = (double)largest};
        r->write(r->user, 0, at, COMPUTE_F64, &value);
      }
    } while (reference_next(&point));
  free(j.a.at);
  free(j.b.at);
  free(j.results);
  return memory;
}
