/* SPDX-License-Identifier: MIT */
/* MAP, COPY, GATHER, SCATTER: elements computed or moved one at a time. Also the kinds without a
 * plain evaluation. */
#include <math.h>

#include "core/type/dtype.h"
#include "plan/validate/evaluate/evaluate.h"

static bool map(const evaluation *e, int64_t unit, workspace *w) {
  int64_t coordinate[COMPUTE_MAX_RANK];
  evaluate_coordinates(e->d->size, e->d->rank, unit, coordinate);
  evaluate_epilogue(e, NULL, 0, coordinate, unit, w, w->results);
  return true;
}

const evaluation_kind evaluation_kind_map = {.evaluate = map};

/* Returns the compute type of the first input. */
static compute_dtype moved_type(const compute_kernel_descriptor *d) {
  return dtype_compute_type(d->inputs[0].dtype);
}

static bool copy(const evaluation *e, int64_t unit, workspace *w) {
  int64_t coordinate[COMPUTE_MAX_RANK];
  evaluate_coordinates(e->d->size, e->d->rank, unit, coordinate);
  w->results[0] = evaluate_load(&e->input[0], e->d->rank, coordinate);
  return true;
}

const evaluation_kind evaluation_kind_copy = {.evaluate = copy, .type = moved_type};

/* ---- Indices ------------------------------------------------------------------------------- */

static bool find_index(const evaluation *e, const int64_t *coordinate, int64_t *offset) {
  const number index = evaluate_load(&e->input[1], e->d->rank, coordinate);
  const bool wraps = index.integer < 0 && !compute_index_of(e->d)->from_zero;
  const int64_t at = wraps ? index.integer + compute_index_of(e->d)->axis_size : index.integer;
  *offset = at * compute_index_of(e->d)->axis_stride;
  return at >= 0 && at < compute_index_of(e->d)->axis_size;
}

static bool gather(const evaluation *e, int64_t unit, workspace *w) {
  int64_t coordinate[COMPUTE_MAX_RANK], along;
  const view *source = &e->input[0];
  evaluate_coordinates(e->d->size, e->d->rank, unit, coordinate);
  if (!find_index(e, coordinate, &along)) return false;
  const int64_t offset = evaluate_offset(source->stride, e->d->rank, coordinate) + along;
  w->results[0] = number_load(source->dtype, view_at(source, offset));
  return true;
}

static bool reads_axis(const compute_kernel_descriptor *d, uint32_t operand) {
  (void)d;
  return operand == 0;
}

const evaluation_kind evaluation_kind_gather = {
    .evaluate = gather, .type = moved_type, .indexed = reads_axis};

/* A device may add in another order, with partial sums as large as the sum of all terms. */
static void join(const compute_kernel_descriptor *d, compute_dtype type, number *sum,
                 const number *update) {
  const compute_scatter_mode mode = compute_index_of(d)->mode;
  const double before = fabs(sum->real);
  *sum = number_scatter(mode, type, sum, update);
  if (mode == COMPUTE_SCATTER_ADD)
    sum->error += number_epsilon(d->outputs[0].dtype) * (before + fabs(update->real));
  else if (mode == COMPUTE_SCATTER_MUL)
    sum->error += number_epsilon(d->outputs[0].dtype) * fabs(sum->real);
}

/* Adds the updates in row-major order. The device may round to the output's dtype at each step or
 * later. */
static bool scatter(const evaluation *e, int64_t unit, workspace *w) {
  const compute_kernel_descriptor *d = e->d;
  const compute_dtype dtype = d->outputs[0].dtype, type = dtype_compute_type(dtype);
  const int64_t count = evaluate_count(d->size, 0, d->rank);
  int64_t coordinate[COMPUTE_MAX_RANK], along;
  (void)unit;
  for (int64_t j = 0; j < e->unit_length; j++)
    w->results[j] = number_load(dtype, view_at(&e->before, e->added.low + j));
  for (int64_t at = 0; at < count; at++) {
    evaluate_coordinates(d->size, d->rank, at, coordinate);
    if (!find_index(e, coordinate, &along)) return false;
    const int64_t offset = evaluate_offset(d->outputs[0].stride, d->rank, coordinate) + along;
    const number update = evaluate_load(&e->input[0], d->rank, coordinate);
    number *sum = &w->results[offset - e->added.low];
    join(d, type, sum, &update);
  }
  return true;
}

static bool writes_axis(const compute_kernel_descriptor *d, uint32_t operand) {
  return operand >= d->input_count;
}

static void cut(evaluation *e) {
  extent_of(e, e->d->input_count, &e->added);
  e->unit_length = e->added.high - e->added.low + 1;
  e->units = e->unit_length > 0;
}

const evaluation_kind evaluation_kind_scatter = {
    .evaluate = scatter, .cut = cut, .type = moved_type, .indexed = writes_axis, .adds = true};

/* ---- Without a plain evaluation -------------------------------------------------------------- */

/* None: solvers may take different paths to the same result, so an element has no rounding
 * bound. */
const evaluation_kind evaluation_kind_fit = {0};

/* None: every position depends on the order of all elements of a row. */
const evaluation_kind evaluation_kind_top_k = {0};

/* None: every element depends on the noise of its whole frame. */
const evaluation_kind evaluation_kind_spots = {0};

/* None: the condition of a matrix bounds the error of its results, not an element's rounding. */
const evaluation_kind evaluation_kind_linalg = {0};

/* None: a feature at a threshold decides between leaves, and no rounding bounds their difference. */
const evaluation_kind evaluation_kind_trees = {0};

/* None: only the user-defined function determines the result. */
const evaluation_kind evaluation_kind_call = {0};
