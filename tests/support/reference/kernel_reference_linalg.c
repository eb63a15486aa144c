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

/* ---- Orthogonal factors ---------------------------------------------------------------------- */

/* Removes the first k columns from column k of q, twice, and gives its length; a column of length 0
 * becomes a direction that is missing. */
static real normalise(const matrix *q, int64_t k, bool fill) {
  for (int64_t unit = -1; unit < q->rows; unit++) {
    if (unit >= 0 && !fill) return 0;
    for (int64_t i = 0; unit >= 0 && i < q->rows; i++) *element(q, i, k) = i == unit;
    for (int round = 0; round < 2; round++)
      for (int64_t j = 0; j < k; j++) {
        real sum = 0;
        for (int64_t i = 0; i < q->rows; i++) sum += *element(q, i, j) * *element(q, i, k);
        for (int64_t i = 0; i < q->rows; i++) *element(q, i, k) -= sum * *element(q, i, j);
      }
    real length = 0;
    for (int64_t i = 0; i < q->rows; i++) length += *element(q, i, k) * *element(q, i, k);
    length = sqrtl(length);
    if (length < 1e-9L) continue;
    for (int64_t i = 0; i < q->rows; i++) *element(q, i, k) /= length;
    return length;
  }
  return 0;
}

static void qr(job *j) {
  const int64_t m = j->a.rows, n = j->a.columns, least = m < n ? m : n;
  const int64_t k = j->attributes->flags & COMPUTE_LINALG_FULL ? m : least;
  const matrix q = {m, k, j->results}, r = {k, n, j->results + m * k};
  for (int64_t c = 0; c < k; c++) {
    for (int64_t i = 0; i < m; i++) *element(&q, i, c) = c < least ? *element(&j->a, i, c) : 0;
    normalise(&q, c, true);
  }
  for (int64_t i = 0; i < k; i++)
    for (int64_t c = i; c < n; c++)
      for (int64_t t = 0; t < m; t++)
        *element(&r, i, c) += *element(&q, t, i) * *element(&j->a, t, c);
}

/* ---- Eigenvalues ----------------------------------------------------------------------------- */

/* Rotates symmetric a until it is diagonal; v, whose columns turn along, begins as I. */
static void rotate_all(const matrix *a, const matrix *v) {
  const int64_t n = a->rows;
  for (int64_t i = 0; i < n; i++) *element(v, i, i) = 1;
  for (int sweep = 0; sweep < 30; sweep++)
    for (int64_t p = 0; p < n; p++)
      for (int64_t q = p + 1; q < n; q++) {
        const real both = *element(a, p, q);
        if (both == 0) continue;
        const real zeta = (*element(a, q, q) - *element(a, p, p)) / (2 * both);
        const real t = (zeta < 0 ? -1 : 1) / (fabsl(zeta) + sqrtl(1 + zeta * zeta));
        const real c = 1 / sqrtl(1 + t * t), s = c * t;
        for (int64_t i = 0; i < n; i++) {
          const real x = *element(a, i, p), y = *element(a, i, q);
          *element(a, i, p) = c * x - s * y;
          *element(a, i, q) = s * x + c * y;
        }
        for (int64_t i = 0; i < n; i++) {
          const real x = *element(a, p, i), y = *element(a, q, i);
          *element(a, p, i) = c * x - s * y;
          *element(a, q, i) = s * x + c * y;
        }
        for (int64_t i = 0; i < n; i++) {
          const real x = *element(v, i, p), y = *element(v, i, q);
          *element(v, i, p) = c * x - s * y;
          *element(v, i, q) = s * x + c * y;
        }
      }
}

/* The eigenvalues and columns of symmetric a in ascending order. */
static bool decompose(const matrix *a, real *values, const matrix *vectors) {
  const int64_t n = a->rows;
  const matrix v = make(n, n);
  if (!v.at) return false;
  rotate_all(a, &v);
  for (int64_t i = 0; i < n; i++) {
    int64_t before = 0;
    for (int64_t k = 0; k < n; k++)
      before += *element(a, k, k) < *element(a, i, i) ||
                (*element(a, k, k) == *element(a, i, i) && k < i);
    values[before] = *element(a, i, i);
    for (int64_t k = 0; vectors && k < n; k++) *element(vectors, k, before) = *element(&v, k, i);
  }
  free(v.at);
  return true;
}

static bool eigh(job *j) {
  const int64_t n = j->a.rows;
  const matrix vectors = {n, n, j->results + n};
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = i + 1; k < n; k++) *element(&j->a, i, k) = *element(&j->a, k, i);
  return decompose(&j->a, j->results,
                   j->attributes->flags & COMPUTE_LINALG_VECTORS ? &vectors : NULL);
}

/* From the eigenvectors of the smaller one of Aᵀ A and A Aᵀ. */
static bool svd(job *j) {
  const int64_t m = j->a.rows, n = j->a.columns, least = m < n ? m : n, most = m < n ? n : m;
  const bool full = j->attributes->flags & COMPUTE_LINALG_FULL;
  const int64_t wide = full ? most : least;
  const matrix square = make(least, least), small = make(least, least), large = make(most, wide);
  real *values = calloc((size_t)least + 1, sizeof *values);
  bool memory = square.at && small.at && large.at && values;
  for (int64_t i = 0; memory && i < least; i++)
    for (int64_t k = 0; k < least; k++)
      for (int64_t t = 0; t < most; t++)
        *element(&square, i, k) += m < n ? *element(&j->a, i, t) * *element(&j->a, k, t)
                                         : *element(&j->a, t, i) * *element(&j->a, t, k);
  memory = memory && decompose(&square, values, &small);
  for (int64_t c = 0; memory && c < wide; c++) {
    const int64_t from = least - 1 - c;
    for (int64_t t = 0; c < least && t < most; t++)
      for (int64_t i = 0; i < least; i++)
        *element(&large, t, c) +=
            (m < n ? *element(&j->a, i, t) : *element(&j->a, t, i)) * *element(&small, i, from);
    const real length = normalise(&large, c, true);
    if (c < least) j->results[c] = values[from] > 0 ? length : 0;
  }
  if (memory && j->attributes->flags & COMPUTE_LINALG_VECTORS) {
    const int64_t left = full ? m : least, right = full ? n : least;
    const matrix u = {m, left, j->results + least}, vt = {right, n, u.at + m * left};
    for (int64_t c = 0; c < left; c++)
      for (int64_t i = 0; i < m; i++)
        *element(&u, i, c) = m < n ? *element(&small, i, least - 1 - c) : *element(&large, i, c);
    for (int64_t c = 0; c < right; c++)
      for (int64_t i = 0; i < n; i++)
        *element(&vt, c, i) = m < n ? *element(&large, i, c) : *element(&small, i, least - 1 - c);
  }
  free(square.at);
  free(small.at);
  free(large.at);
  free(values);
  return memory;
}

/* ---- The exponential ------------------------------------------------------------------------- */

static void multiply(const matrix *a, const matrix *b, const matrix *y) {
  for (int64_t i = 0; i < a->rows; i++)
    for (int64_t k = 0; k < b->columns; k++) {
      real sum = 0;
      for (int64_t t = 0; t < a->columns; t++) sum += *element(a, i, t) * *element(b, t, k);
      *element(y, i, k) = sum;
    }
}

/* The series of A / 2^20, squared 20 times. */
static bool exponential(job *j) {
  enum { HALVINGS = 20, TERMS = 16 };
  const int64_t n = j->a.rows, count = n * n;
  const matrix y = {n, n, j->results}, term = make(n, n), next = make(n, n);
  const bool memory = term.at && next.at;
  for (int64_t i = 0; memory && i < count; i++) {
    j->a.at[i] = ldexpl(j->a.at[i], -HALVINGS);
    y.at[i] = term.at[i] = i / n == i % n;
  }
  for (int k = 1; memory && k < TERMS; k++) {
    multiply(&term, &j->a, &next);
    for (int64_t i = 0; i < count; i++) {
      term.at[i] = next.at[i] / k;
      y.at[i] += term.at[i];
    }
  }
  for (int k = 0; memory && k < HALVINGS; k++) {
    multiply(&y, &y, &next);
    memcpy(y.at, next.at, (size_t)count * sizeof(real));
  }
  free(term.at);
  free(next.at);
  return memory;
}

/* ---- All ------------------------------------------------------------------------------------- */

/* True if the function reads this element of A. */
static bool is_read(const compute_linalg_attributes *a, int64_t i, int64_t j) {
  if (a->function == COMPUTE_LINALG_CHOLESKY || a->function == COMPUTE_LINALG_EIGH) return j <= i;
  if (a->function != COMPUTE_LINALG_TRIANGULAR) return true;
  if (i == j) return !(a->flags & COMPUTE_LINALG_UNIT_DIAGONAL);
  return a->flags & COMPUTE_LINALG_UPPER ? j > i : j < i;
}

/* False without memory, and for EIG, which tests check by its residuals. */
static bool run(job *j) {
  bool done = true;
  for (int64_t i = 0; i < j->a.rows; i++)
    for (int64_t k = 0; k < j->a.columns; k++)
      if (is_read(j->attributes, i, k) && !isfinite(*element(&j->a, i, k))) j->status = -1;
  if (j->status == 0) switch (j->attributes->function) {
    case COMPUTE_LINALG_CHOLESKY: cholesky(j); break;
    case COMPUTE_LINALG_TRIANGULAR: triangular(j); break;
    case COMPUTE_LINALG_LU: lu(j); break;
    case COMPUTE_LINALG_SOLVE: solve(j); break;
    case COMPUTE_LINALG_QR: qr(j); break;
    case COMPUTE_LINALG_EIGH: done = eigh(j); break;
    case COMPUTE_LINALG_SVD: done = svd(j); break;
    case COMPUTE_LINALG_EXPM: done = exponential(j); break;
    case COMPUTE_LINALG_EIG: done = false; break;
    }
  const bool keeps = j->attributes->function == COMPUTE_LINALG_LU;
  for (int64_t i = 0; i < j->count - 1; i++)
    if (j->status < 0 || (j->status > 0 && !keeps)) j->results[i] = NAN;
  for (int64_t i = 0; i < j->a.rows && keeps && j->status < 0; i++)
    j->results[j->a.rows * j->a.columns + i] = (real)i;
  j->results[j->count - 1] = j->status;
  return done;
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
  bool memory = j.a.at && j.b.at && j.results;
  int64_t sizes[COMPUTE_MAX_RANK];
  memcpy(sizes, r->d->size, sizeof sizes);
  sizes[last] = 1;
  if (memory && reference_begin(&point, sizes, r->d->rank)) do {
      load(r, 0, point.at, &j.a);
      if (compute_linalg_has_right(a)) load(r, 1, point.at, &j.b);
      memset(j.results, 0, (size_t)j.count * sizeof(real));
      j.status = 0;
      memory = run(&j) && memory;
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
