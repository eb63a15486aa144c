/* Linear equations of up to six unknowns: A = L D Lᵀ (Cholesky's method without roots), and the
 * inverse's diagonal, which the convergence test and the uncertainties need. */
#ifndef CPU_FIT_SOLVE_H
#define CPU_FIT_SOLVE_H

#include "fit_work.h"

/* A pivot this small beside its diagonal element is what rounding leaves of 0. */
#define FIT_LEAST_PIVOT 1e-6f

typedef struct fit_factors {
  vf inverse_pivot[FIT_MOST];
  vf inverse[FIT_PAIRS]; /* of L, below its diagonal of ones */
  vm singular;
} fit_factors;

FIT_INLINE void fit_factor(const int count, const vf *matrix, fit_factors *factors) {
  vf below[FIT_PAIRS];  /* L */
  vf column[FIT_PAIRS]; /* L D */
  vm regular = v_mask(FIT_ALL_LANES);
  FIT_UNROLL
  for (int a = 0; a < count; a++) {
    FIT_UNROLL
    for (int b = 0; b <= a; b++) {
      vf x = matrix[FIT_AT(a, b)];
      FIT_UNROLL
      for (int k = 0; k < b; k++) x = v_fnma(below[FIT_AT(b, k)], column[FIT_AT(a, k)], x);
      column[FIT_AT(a, b)] = x;
      if (b < a) below[FIT_AT(a, b)] = x * factors->inverse_pivot[b];
    }
    const vf pivot = column[FIT_AT(a, a)];
    regular = v_and(regular, v_less(matrix[FIT_AT(a, a)] * FIT_LEAST_PIVOT, pivot));
    factors->inverse_pivot[a] = v_reciprocal(pivot);
  }
  factors->singular = v_and_not(v_mask(FIT_ALL_LANES), regular);
  FIT_UNROLL
  for (int a = 1; a < count; a++) {
    FIT_UNROLL
    for (int b = 0; b < a; b++) {
      vf x = -below[FIT_AT(a, b)];
      FIT_UNROLL
      for (int k = b + 1; k < a; k++)
        x = v_fnma(below[FIT_AT(a, k)], factors->inverse[FIT_AT(k, b)], x);
      factors->inverse[FIT_AT(a, b)] = x;
    }
  }
}

/* x = A⁻¹ b */
FIT_INLINE void fit_apply(const int count, const fit_factors *factors, const vf *b, vf *x) {
  vf y[FIT_MOST];
  FIT_UNROLL
  for (int a = 0; a < count; a++) {
    y[a] = b[a];
    FIT_UNROLL
    for (int k = 0; k < a; k++) y[a] = v_fma(factors->inverse[FIT_AT(a, k)], b[k], y[a]);
  }
  FIT_UNROLL
  for (int a = 0; a < count; a++) y[a] *= factors->inverse_pivot[a];
  FIT_UNROLL
  for (int a = 0; a < count; a++) {
    x[a] = y[a];
    FIT_UNROLL
    for (int k = a + 1; k < count; k++) x[a] = v_fma(factors->inverse[FIT_AT(k, a)], y[k], x[a]);
  }
}

/* Element (a, b), b ≤ a, of A⁻¹. */
FIT_INLINE vf fit_inverse_at(const int count, const fit_factors *factors, const int a,
                             const int b) {
  vf x = factors->inverse_pivot[a];
  if (b < a) x *= factors->inverse[FIT_AT(a, b)];
  for (int k = a + 1; k < count; k++)
    x = v_fma(factors->inverse[FIT_AT(k, a)] * factors->inverse[FIT_AT(k, b)],
              factors->inverse_pivot[k], x);
  return x;
}

/* Takes parameters out of the equations where `held` says so: their unknown becomes 0. */
FIT_INLINE void fit_hold(const int count, const vm *held, fit_sums *sums) {
  FIT_UNROLL
  for (int a = 0; a < count; a++) {
    sums->gradient[a] = v_select(held[a], v_set(0), sums->gradient[a]);
    FIT_UNROLL
    for (int b = 0; b <= a; b++) {
      vf *f = &sums->information[FIT_AT(a, b)];
      *f = v_select(v_or(held[a], held[b]), v_set(a == b ? 1.0f : 0.0f), *f);
    }
  }
}

#endif
