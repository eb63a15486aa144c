/* SPDX-License-Identifier: MIT */
/* The call of each function. Included as linalg_run.h is. */

/* Memory of a call, in numbers of each lane. */
ALWAYS_INLINE int64_t FORM(numbers)(const cpu_linalg_problem *p) {
  const int64_t m = p->rows, n = p->columns;
  const int64_t least = m < n ? m : n, most = m < n ? n : m;
  const bool vectors = p->flags & COMPUTE_LINALG_VECTORS, full = p->flags & COMPUTE_LINALG_FULL;
  const int64_t wide = full ? most : least;
  switch (p->function) {
  case COMPUTE_LINALG_CHOLESKY: return 2 * n * n; /* together: half of it */
  case COMPUTE_LINALG_TRIANGULAR:
  case COMPUTE_LINALG_SOLVE: return n * (n + p->right);
  case COMPUTE_LINALG_LU: return m * n + m;
  case COMPUTE_LINALG_QR:
    return m * n + m * (full ? m : least) + 2 * least + most +
           FORM(reflection_numbers)(least, m, full && m > n ? m : n);
  case COMPUTE_LINALG_EIGH: {
    const int64_t reflections = FORM(reflection_numbers)(n - 1, n, n);
    const int64_t rotations = FORM(rotation_numbers)(n);
    return (vectors ? 3 : 1) * n * n + 9 * n + (reflections > rotations ? reflections : rotations);
  }
  case COMPUTE_LINALG_SVD: {
    const int64_t reflections = FORM(reflection_numbers)(least, most, wide);
    const int64_t sweeps = FORM(sweep_numbers)(least);
    return most * least + (vectors ? most * (wide + least) + 3 * least * least : 0) + 4 * least +
           wide + (reflections > sweeps ? reflections : sweeps);
  }
  case COMPUTE_LINALG_EIG: return 7 * n * n + 14 * n;
  case COMPUTE_LINALG_EXPM: return 7 * n * n + n;
  }
  return 0;
}

static void FORM(run)(const cpu_linalg_problem *p, const cpu_linalg_matrices *m, void *memory) {
  switch (p->function) {
  case COMPUTE_LINALG_CHOLESKY: FORM(run_cholesky)(p, m, memory); break;
  case COMPUTE_LINALG_TRIANGULAR: FORM(run_triangular)(p, m, memory); break;
  case COMPUTE_LINALG_LU: FORM(run_lu)(p, m, memory); break;
  case COMPUTE_LINALG_SOLVE: FORM(run_solve)(p, m, memory); break;
  case COMPUTE_LINALG_QR: FORM(run_qr)(p, m, memory); break;
  case COMPUTE_LINALG_EIGH: FORM(run_eigh)(p, m, memory); break;
  case COMPUTE_LINALG_SVD: FORM(run_svd)(p, m, memory); break;
  case COMPUTE_LINALG_EXPM: FORM(run_exponential)(p, m, memory); break;
  case COMPUTE_LINALG_EIG: FORM(run_general)(p, m, memory); break;
  }
}
