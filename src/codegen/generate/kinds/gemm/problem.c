/* SPDX-License-Identifier: MIT */
/* The normal form of a matrix multiplication.
 *
 * All walks of the kernel have strides over the batch dimensions, m and n: A, B, the epilogue's
 * operands, and the position and coordinates that its program asks for. A's stride is 0 along n,
 * B's is 0 along m. A batch dimension is part of m exactly if all walks take it and m as one
 * dimension: B repeats there, and all other walks continue at the end of the rows. Rows and columns
 * change places in two cases: C's columns are contiguous instead of its rows, or m is the short
 * side. So the variants may assume that n is the short side. */
#include <string.h>

#include "codegen/generate/kinds/gemm/gemm.h"
#include "core/type/dtype.h"

/* Reads all walks over (batch…, m, n). */
static void read_walks(generation *g, emit_space *space, int64_t *a_k, int64_t *b_k) {
  const compute_kernel_descriptor *d = g->descriptor;
  int64_t stride[COMPUTE_MAX_RANK];
  space_begin(space, "c", d->rank, d->size);
  memcpy(stride, d->inputs[0].stride, sizeof stride);
  *a_k = stride[d->rank - 1];
  stride[d->rank - 1] = 0;
  space_add(space, "a", stride);
  memcpy(stride, d->inputs[1].stride, sizeof stride);
  *b_k = stride[d->rank - 2];
  stride[d->rank - 2] = 0;
  space_add(space, "b", stride);
  space_add_inputs(g, space, 2, d->input_count);
  space_add_outputs(g, space);
  space_add_program(space, &d->epilogue, d->rank);
}

static void remove_dimension(emit_space *space, int32_t dimension) {
  space->rank--;
  for (int32_t d = dimension; d < space->rank; d++) {
    space->size[d] = space->size[d + 1];
    for (uint32_t i = 0; i < space->walk_count; i++)
      space->walk[i].stride[d] = space->walk[i].stride[d + 1];
  }
}

/* True if all walks take dimensions d and d + 1 as one. */
static bool goes_on(const emit_space *space, int32_t d) {
  for (uint32_t i = 0; i < space->walk_count; i++) {
    const int64_t *stride = space->walk[i].stride;
    if (stride[d] != stride[d + 1] * space->size[d + 1]) return false;
  }
  return true;
}

/* A dimension m of size 1 has no stride. So the batch dimension before it may become m, if B
 * repeats in it. */
static bool may_become_rows(const emit_space *space, int32_t d) {
  return space->size[d + 1] == 1 && space->walk[1].stride[d] == 0;
}

static void join(emit_space *space) {
  for (int32_t d = space->rank - 3; d >= 0; d--)
    if (space->size[d] == 1) remove_dimension(space, d);
  while (space->rank > 2) {
    const int32_t d = space->rank - 3;
    if (may_become_rows(space, d)) {
      remove_dimension(space, d + 1);
    } else if (goes_on(space, d)) {
      space->size[d + 1] *= space->size[d];
      remove_dimension(space, d);
    } else {
      break;
    }
  }
  for (int32_t d = space->rank - 4; d >= 0; d--) {
    if (!goes_on(space, d)) continue;
    space->size[d + 1] *= space->size[d];
    remove_dimension(space, d);
  }
}

static void exchange(int64_t *pair) {
  const int64_t first = pair[0];
  pair[0] = pair[1];
  pair[1] = first;
}

static void read_factor(const emit_space *space, uint32_t walk, int32_t dimension,
                        gemm_factor *factor) {
  factor->outer = space->walk[walk].stride[dimension];
  for (int32_t d = 0; d < space->rank - 2; d++)
    factor->batched = factor->batched || space->walk[walk].stride[d] != 0;
}

static void split(const emit_space *space, gemm_problem *problem) {
  const int32_t batch_rank = space->rank - 2;
  space_begin(&problem->batch, "batch", batch_rank, space->size);
  space_begin(&problem->tile, "tile", 2, space->size + batch_rank);
  for (uint32_t i = 0; i < space->walk_count; i++) {
    space_add(&problem->batch, space->walk[i].name, space->walk[i].stride);
    if (i >= 2) space_add(&problem->tile, space->walk[i].name, space->walk[i].stride + batch_rank);
  }
  problem->batches = 1;
  for (int32_t d = 0; d < batch_rank; d++) problem->batches *= space->size[d];
}

void emit_gemm_swap(gemm_problem *problem) {
  exchange(problem->tile.size);
  for (uint32_t i = 0; i < problem->tile.walk_count; i++) exchange(problem->tile.walk[i].stride);
  problem->m = problem->tile.size[0];
  problem->n = problem->tile.size[1];
  int64_t stride[COMPUTE_MAX_RANK]; /* walk 0 of the batch belongs to the factor along m */
  memcpy(stride, problem->batch.walk[0].stride, sizeof stride);
  memcpy(problem->batch.walk[0].stride, problem->batch.walk[1].stride, sizeof stride);
  memcpy(problem->batch.walk[1].stride, stride, sizeof stride);
  const gemm_factor a = problem->a;
  problem->a = problem->b;
  problem->b = a;
}

/* The short side becomes n if it is short enough for dot products. Otherwise C's rows become
 * dense. */
static bool should_swap(const generation *g, const gemm_problem *problem) {
  const int64_t few = gemm_dot_columns(g, problem);
  if (!emit_is_reproducible(g) && (problem->m <= few || problem->n <= few))
    return problem->m < problem->n;
  const int64_t *c = space_walk(&problem->tile, "out0")->stride;
  return c[1] != 1 && c[0] == 1;
}

void gemm_problem_make(generation *g, gemm_problem *problem, emit_space *space, int64_t k,
                       int64_t a_k, int64_t b_k) {
  const compute_kernel_descriptor *d = g->descriptor;
  memset(problem, 0, sizeof *problem);
  problem->accumulate = d->accumulate;
  problem->sum_bytes = (uint32_t)compute_dtype_size(d->accumulate);
  problem->k = k;
  problem->a = (gemm_factor){.input = 0, .dtype = d->inputs[0].dtype, .k = a_k};
  problem->b = (gemm_factor){.input = 1, .dtype = d->inputs[1].dtype, .k = b_k};
  join(space);
  split(space, problem);
  problem->m = problem->tile.size[0];
  problem->n = problem->tile.size[1];
  read_factor(space, 0, space->rank - 2, &problem->a);
  read_factor(space, 1, space->rank - 1, &problem->b);
  /* Strides of dimensions of size 1 have no meaning. Set them so that fewer patterns occur. */
  if (problem->m == 1) problem->a.outer = problem->k;
  if (problem->n == 1) problem->b.outer = problem->k;
  if (should_swap(g, problem)) emit_gemm_swap(problem);
}

void emit_gemm_read(generation *g, gemm_problem *problem) {
  emit_space space;
  int64_t a_k, b_k;
  read_walks(g, &space, &a_k, &b_k);
  gemm_problem_make(g, problem, &space, compute_gemm_of(g->descriptor)->k, a_k, b_k);
  problem->precision = compute_gemm_of(g->descriptor)->precision;
}

/* The farthest offset, as a double, because it may have any size. The caller adds a margin of
 * elements to each of the last two dimensions, for blocks at the edge. */
static double reach(const emit_space *batch, uint32_t walk, double m, double m_stride, double n,
                    double n_stride) {
  double offset = m * m_stride + n * n_stride;
  for (int32_t d = 0; d < batch->rank; d++)
    offset += (double)batch->size[d] * (double)emit_magnitude(batch->walk[walk].stride[d]);
  return offset;
}

bool gemm_problem_is_wide(const gemm_problem *problem) {
  enum { MARGIN = 256 };
  const double limit = INT32_MAX, m = (double)problem->m + MARGIN, n = (double)problem->n + MARGIN;
  const double k = (double)problem->k + MARGIN, batches = (double)problem->batches;
  const emit_space *batch = &problem->batch;
  if (reach(batch, 0, m, (double)emit_magnitude(problem->a.outer), k,
            (double)emit_magnitude(problem->a.k)) > limit ||
      reach(batch, 1, n, (double)emit_magnitude(problem->b.outer), k,
            (double)emit_magnitude(problem->b.k)) > limit ||
      batches * m * n > limit || batches * m * k > limit || batches * n * k > limit)
    return true;
  for (uint32_t i = 2; i < batch->walk_count; i++) {
    const int64_t *stride = problem->tile.walk[i - 2].stride;
    if (reach(batch, i, m, (double)emit_magnitude(stride[0]), n,
              (double)emit_magnitude(stride[1])) > limit)
      return true;
  }
  return false;
}

/* ---- Limits -------------------------------------------------------------------------------- */

/* Larger panels and parts are not worth their memory. */
static const double workspace_limit = 1 << 30;

bool gemm_is_tiny(const gemm_problem *problem) {
  return (double)problem->m * (double)problem->n * (double)problem->k * (double)problem->batches <=
         GEMM_TINY;
}

/* Aims at two groups for each compute unit. A part has at least 256 terms. */
uint32_t gemm_choose_parts(const generation *g, const gemm_problem *problem, int64_t groups) {
  const int64_t units = g->target->compute_units ? g->target->compute_units : 1;
  if (emit_is_reproducible(g) || problem->batches >= 2 * units || groups >= units) return 1;
  int64_t parts = 2 * units / (groups > 0 ? groups : 1);
  if (parts > problem->k / 256) parts = problem->k / 256;
  if (parts > GEMM_SPLIT_LIMIT) parts = GEMM_SPLIT_LIMIT;
  return parts > 1 ? (uint32_t)parts : 1;
}

uint32_t gemm_load_vector(const gemm_problem *problem) {
  const size_t a = compute_dtype_size(problem->a.dtype), b = compute_dtype_size(problem->b.dtype);
  return a < 4 || b < 4 ? 8 : 4;
}

bool gemm_parts_fit(const gemm_problem *problem, uint32_t parts) {
  const double sums = (double)problem->m * (double)problem->n * (double)problem->batches;
  return parts <= 1 || sums * parts * problem->sum_bytes <= workspace_limit;
}

uint32_t gemm_choose_lanes(const generation *g, const gemm_problem *problem) {
  uint32_t lanes = g->target->vector_width * 4 / problem->sum_bytes;
  if (lanes < 2) lanes = 2;
  while (!emit_is_power(lanes)) lanes &= lanes - 1;
  return lanes < 16 ? lanes : 16;
}
