/* SPDX-License-Identifier: MIT */
/* References of MAP, COPY, REDUCE, ROW, GEMM, QUANTIZED_GEMM, GATHER and SCATTER; calls the
 * references of the other kinds. */
#include "support/reference/kernel_reference_kinds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/reference/graph_evaluate.h"
#include "support/reference/spots_reference.h"

static int64_t offset(const compute_operand *o, const int64_t *at, int32_t rank) {
  int64_t sum = 0;
  for (int32_t i = 0; i < rank; i++) sum += at[i] * o->stride[i];
  return sum;
}

static reference_value element(const reference *r, uint32_t input, int64_t at) {
  const compute_dtype dtype = r->d->inputs[input].dtype;
  return reference_load(dtype,
                        (const char *)r->inputs[input] + at * (int64_t)compute_dtype_size(dtype));
}

reference_value reference_at(const reference *r, uint32_t input, const int64_t *at, int32_t rank) {
  return element(r, input, offset(&r->d->inputs[input], at, rank));
}

bool reference_begin(reference_point *point, const int64_t *size, int32_t rank) {
  *point = (reference_point){rank, size, {0}};
  for (int32_t i = 0; i < rank; i++)
    if (size[i] == 0) return false;
  return true;
}

void reference_write(const reference *r, uint32_t output, const int64_t *at,
                     const reference_value *value) {
  const bool real = reference_is_float(r->d->outputs[output].dtype);
  r->write(r->user, output, at, real ? COMPUTE_F64 : COMPUTE_I64, value);
}

/* ---- Programs ------------------------------------------------------------------------------ */

/* A program's inputs: first `value`, if it has one, then the kernel's inputs from `first` on. */
typedef struct program_inputs {
  const reference *r;
  const reference_point *point;
  int32_t rank; /* number of dimensions with strides of the inputs */
  uint32_t first;
  const reference_value *value;
} program_inputs;

static reference_value program_load_input(const void *user, uint32_t input) {
  const program_inputs *p = user;
  if (p->value && input == 0) return *p->value;
  return reference_at(p->r, p->first + input - (p->value ? 1 : 0), p->point->at, p->rank);
}

/* `value` is NULL for MAP. */
void reference_finish(const reference *r, const reference_point *point,
                      const reference_value *value, compute_dtype type, uint32_t own) {
  const compute_program *e = &r->d->epilogue;
  const program_inputs inputs = {r, point, point->rank, own, value};
  if (e->count == 0) {
    r->write(r->user, 0, point->at, type, value);
    return;
  }
  program_reference(e, point, program_load_input, &inputs, r->values);
  for (uint32_t k = 0; k < r->d->output_count; k++) {
    reference_value result = r->values[e->outputs[k]];
    if (value) result.terms = value->terms, result.count = value->count;
    r->write(r->user, k, point->at, (compute_dtype)e->instructions[e->outputs[k]].type, &result);
  }
}

/* Returns the prologue's element for REDUCE and ROW, in the type `accumulate`. */
static reference_value begin(const reference *r, const reference_point *point) {
  const compute_program *p = &r->d->prologue;
  const program_inputs inputs = {r, point, point->rank, 0, NULL};
  if (p->count == 0)
    return reference_cast(reference_type(r->d->inputs[0].dtype),
                          reference_at(r, 0, point->at, point->rank), r->d->accumulate);
  program_reference(p, point, program_load_input, &inputs, r->values);
  return reference_cast((compute_dtype)p->instructions[p->outputs[0]].type,
                        r->values[p->outputs[0]], r->d->accumulate);
}

static void map(const reference *r) {
  reference_point point;
  if (!reference_begin(&point, r->d->size, r->d->rank)) return;
  do reference_finish(r, &point, NULL, COMPUTE_DTYPE_NONE, 0);
  while (reference_next(&point));
}

static void copy(const reference *r) {
  const compute_dtype type = reference_type(r->d->inputs[0].dtype);
  reference_point point;
  if (!reference_begin(&point, r->d->size, r->d->rank)) return;
  do {
    const reference_value value = reference_at(r, 0, point.at, r->d->rank);
    r->write(r->user, 0, point.at, type, &value);
  } while (reference_next(&point));
}

/* ---- REDUCE -------------------------------------------------------------------------------- */

typedef struct fold {
  const compute_kernel_descriptor *d;
  long double sum, terms; /* for floats; `sum` is also their product */
  reference_value best;
  uint64_t whole;
  int64_t count, place;
} fold;

static fold fold_begin(const compute_kernel_descriptor *d) {
  fold f = {.d = d, .place = 0};
  const bool product = compute_reduce_of(d)->combine == COMPUTE_COMBINE_PROD;
  const bool largest = compute_reduce_of(d)->combine == COMPUTE_COMBINE_MAX;
  f.sum = product;
  f.whole = product;
  f.best.real = largest ? -INFINITY : INFINITY;
  f.best.whole = largest ? INT64_MIN : INT64_MAX;
  if (d->accumulate == COMPUTE_I32) f.best.whole = largest ? INT32_MIN : INT32_MAX;
  if (d->accumulate == COMPUTE_BOOL) f.best.whole = !largest;
  return f;
}

static void fold_add(fold *f, reference_value x) {
  const compute_combine how = compute_reduce_of(f->d)->combine;
  const bool real = reference_is_float(f->d->accumulate);
  const bool up = how == COMPUTE_COMBINE_MAX || how == COMPUTE_COMBINE_ARGMAX;
  const bool first = f->count++ == 0;
  if (how == COMPUTE_COMBINE_SUM) {
    f->sum += (long double)x.real;
    f->terms += fabsl((long double)x.real);
    f->whole += (uint64_t)x.whole;
  } else if (how == COMPUTE_COMBINE_PROD) {
    f->sum *= (long double)x.real;
    f->whole *= (uint64_t)x.whole;
  } else {
    const bool better = real ? (up ? x.real > f->best.real : x.real < f->best.real)
                             : (up ? x.whole > f->best.whole : x.whole < f->best.whole);
    const bool nan = real && isnan(x.real) && !isnan(f->best.real);
    if (!first && !nan && (!better || (real && isnan(f->best.real)))) return;
    f->best = x;
    f->place = f->count - 1;
  }
}

static reference_value fold_end(const fold *f) {
  reference_value result = f->best;
  if (compute_reduce_of(f->d)->combine >= COMPUTE_COMBINE_ARGMAX)
    return (reference_value){.whole = f->place};
  if (compute_reduce_of(f->d)->combine <= COMPUTE_COMBINE_PROD)
    result = (reference_value){.real = (double)f->sum, .whole = (int64_t)f->whole};
  result = reference_fit(f->d->accumulate, result);
  result.terms = (double)f->terms;
  result.count = f->count;
  return result;
}

static void reduce(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  const int32_t kept_rank = compute_reduce_of(d)->kept_rank;
  const compute_dtype type =
      compute_reduce_of(d)->combine >= COMPUTE_COMBINE_ARGMAX ? COMPUTE_I64 : d->accumulate;
  reference_point kept, rest;
  if (!reference_begin(&kept, d->size, kept_rank)) return;
  do {
    fold f = fold_begin(d);
    reference_point point = {d->rank, d->size, {0}};
    memcpy(point.at, kept.at, sizeof point.at);
    if (reference_begin(&rest, d->size + kept_rank, d->rank - kept_rank)) do {
        for (int32_t i = 0; i < rest.rank; i++) point.at[kept_rank + i] = rest.at[i];
        fold_add(&f, begin(r, &point));
      } while (reference_next(&rest));
    const reference_value folded = fold_end(&f);
    reference_finish(r, &kept, &folded, type, d->prologue_inputs);
  } while (reference_next(&kept));
}

/* ---- ROW ----------------------------------------------------------------------------------- */

static void transform_row(const compute_kernel_descriptor *d, long double *row, int64_t length) {
  long double largest = -INFINITY, sum = 0, squares = 0;
  for (int64_t i = 0; i < length; i++) largest = fmaxl(largest, row[i]);
  for (int64_t i = 0; i < length; i++)
    sum += compute_row_of(d)->operation == COMPUTE_ROW_NORMALIZE ? row[i] : expl(row[i] - largest);
  const long double mean = sum / (long double)length;
  for (int64_t i = 0; i < length; i++) squares += (row[i] - mean) * (row[i] - mean);
  const long double scale =
      1 / sqrtl(squares / (long double)length + (long double)compute_row_of(d)->epsilon);
  for (int64_t i = 0; i < length; i++) {
    switch (compute_row_of(d)->operation) {
    case COMPUTE_ROW_SOFTMAX: row[i] = expl(row[i] - largest) / sum; break;
    case COMPUTE_ROW_LOG_SOFTMAX: row[i] = row[i] - largest - logl(sum); break;
    case COMPUTE_ROW_NORMALIZE: row[i] = (row[i] - mean) * scale; break;
    }
  }
}

static bool rows(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  const int32_t last = d->rank - 1;
  const int64_t length = d->size[last];
  reference_point outer;
  if (!reference_begin(&outer, d->size, d->rank)) return true;
  outer.rank = last;
  long double *row = malloc((size_t)length * sizeof *row);
  if (!row) return false;
  do {
    reference_point point = {d->rank, d->size, {0}};
    memcpy(point.at, outer.at, sizeof point.at);
    for (point.at[last] = 0; point.at[last] < length; point.at[last]++)
      row[point.at[last]] = (long double)begin(r, &point).real;
    transform_row(d, row, length);
    for (point.at[last] = 0; point.at[last] < length; point.at[last]++) {
      const reference_value value = {.real = evaluate_round(d->accumulate, row[point.at[last]])};
      reference_finish(r, &point, &value, d->accumulate, d->prologue_inputs);
    }
  } while (reference_next(&outer));
  free(row);
  return true;
}

/* ---- GEMM ---------------------------------------------------------------------------------- */

/* Loads the k elements of a factor that begin at a point, along dimension `axis`. */
static void load_line(const reference *r, uint32_t input, const int64_t *at, int32_t axis,
                      int64_t k, reference_value *line) {
  const compute_operand *o = &r->d->inputs[input];
  const int64_t first = offset(o, at, r->d->rank) - at[axis] * o->stride[axis];
  for (int64_t p = 0; p < k; p++) line[p] = element(r, input, first + p * o->stride[axis]);
}

static reference_value dot(const compute_kernel_descriptor *d, const reference_value *x,
                           const reference_value *y) {
  const int64_t k = compute_gemm_of(d)->k;
  long double sum = 0, terms = 0;
  uint64_t whole = 0;
  for (int64_t p = 0; p < k; p++) {
    const long double product = (long double)x[p].real * (long double)y[p].real;
    sum += product;
    terms += fabsl(product);
    whole += (uint64_t)x[p].whole * (uint64_t)y[p].whole;
  }
  reference_value result = {.real = (double)sum, .whole = (int64_t)whole};
  result = reference_fit(d->accumulate, result);
  result.terms = (double)terms;
  result.count = k;
  return result;
}

static bool gemm(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  const int64_t k = compute_gemm_of(d)->k;
  const int32_t m = d->rank - 2, n = d->rank - 1;
  reference_point point;
  if (!reference_begin(&point, d->size, d->rank)) return true;
  reference_value *lines = malloc(2 * (size_t)(k + 1) * sizeof *lines);
  if (!lines) return false;
  do {
    if (point.at[n] == 0) load_line(r, 0, point.at, n, k, lines);
    load_line(r, 1, point.at, m, k, lines + k);
    const reference_value value = dot(d, lines, lines + k);
    reference_finish(r, &point, &value, d->accumulate, 2);
  } while (reference_next(&point));
  free(lines);
  return true;
}

/* ---- QUANTIZED_GEMM ------------------------------------------------------------------------- */

static double weight(const reference *r, int64_t column, int64_t p) {
  const compute_quantized_gemm_attributes *a = compute_quantized_gemm_of(r->d);
  int64_t at[COMPUTE_MAX_RANK] = {0};
  at[r->d->rank - 2] = column;
  at[r->d->rank - 1] = p * a->bits / 8;
  const int64_t byte = reference_at(r, 1, at, r->d->rank).whole;
  const int64_t q = byte >> (p * a->bits % 8) & ((1 << a->bits) - 1);
  at[r->d->rank - 1] = p / a->block;
  double zero = 1 << (a->bits - 1);
  if (a->zeros) {
    const reference_value value = reference_at(r, 3, at, r->d->rank);
    zero = r->d->inputs[3].dtype == COMPUTE_U8 ? (double)value.whole : value.real;
  }
  return ((double)q - zero) * reference_at(r, 2, at, r->d->rank).real;
}

/* The weights of all columns are computed once. */
static bool quantized_gemm(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  const compute_quantized_gemm_attributes *a = compute_quantized_gemm_of(d);
  const int32_t n = d->rank - 1;
  reference_point point;
  if (!reference_begin(&point, d->size, d->rank)) return true;
  double *weights = malloc((size_t)(d->size[n] * a->k + 1) * sizeof *weights);
  if (!weights) return false;
  for (int64_t i = 0; i < d->size[n] * a->k; i++) weights[i] = weight(r, i / a->k, i % a->k);
  do {
    int64_t at[COMPUTE_MAX_RANK];
    memcpy(at, point.at, sizeof at);
    reference_value value = {.count = a->k};
    for (at[n] = 0; at[n] < a->k; at[n]++) {
      const double term =
          reference_at(r, 0, at, d->rank).real * weights[point.at[n] * a->k + at[n]];
      value.real += term;
      value.terms += fabs(term);
    }
    reference_finish(r, &point, &value, d->accumulate, a->zeros ? 4 : 3);
  } while (reference_next(&point));
  free(weights);
  return true;
}

/* ---- GATHER and SCATTER -------------------------------------------------------------------- */

/* The position along the axis; −1: outside. */
static int64_t axis_place(const reference *r, const int64_t *at) {
  const compute_kernel_descriptor *d = r->d;
  const int64_t index = reference_at(r, 1, at, d->rank).whole;
  if (index >= 0) return index < compute_index_of(d)->axis_size ? index : -1;
  return compute_index_of(d)->from_zero || index < -compute_index_of(d)->axis_size
             ? -1
             : index + compute_index_of(d)->axis_size;
}

static void gather(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  const compute_dtype type = reference_type(d->inputs[0].dtype);
  reference_point point;
  if (!reference_begin(&point, d->size, d->rank)) return;
  do {
    const int64_t place = axis_place(r, point.at);
    if (place < 0) continue;
    const reference_value value = element(
        r, 0, offset(&d->inputs[0], point.at, d->rank) + place * compute_index_of(d)->axis_stride);
    r->write(r->user, 0, point.at, type, &value);
  } while (reference_next(&point));
}

/* Number of elements between the output's first and last one; strides are not negative. */
static int64_t scatter_reach(const compute_kernel_descriptor *d) {
  int64_t reach =
      1 + (compute_index_of(d)->axis_size > 0 ? compute_index_of(d)->axis_size - 1 : 0) *
              compute_index_of(d)->axis_stride;
  for (int32_t i = 0; i < d->rank; i++) reach += (d->size[i] - 1) * d->outputs[0].stride[i];
  return reach;
}

/* Of `real` and `whole`, the dtype selects one; the other is 0. */
static void join(compute_scatter_mode mode, bool real, reference_value *sum, reference_value x) {
  const bool less = real ? sum->real < x.real : sum->whole < x.whole;
  const bool more = real ? sum->real > x.real : sum->whole > x.whole;
  switch (mode) {
  case COMPUTE_SCATTER_ADD:
    sum->real += x.real;
    sum->whole = (int64_t)((uint64_t)sum->whole + (uint64_t)x.whole);
    break;
  case COMPUTE_SCATTER_MUL:
    sum->real *= x.real;
    sum->whole = (int64_t)((uint64_t)sum->whole * (uint64_t)x.whole);
    break;
  case COMPUTE_SCATTER_SET: *sum = x; break;
  case COMPUTE_SCATTER_MAX:
    if (less || isnan(x.real)) *sum = x;
    break;
  case COMPUTE_SCATTER_MIN:
    if (more || isnan(x.real)) *sum = x;
    break;
  }
}

/* Floats are summed in double and rounded once. */
static bool scatter(const reference *r, void *output) {
  const compute_kernel_descriptor *d = r->d;
  const compute_dtype dtype = d->outputs[0].dtype, type = reference_type(dtype);
  const int64_t size = (int64_t)compute_dtype_size(dtype);
  reference_point point;
  if (!reference_begin(&point, d->size, d->rank)) return true;
  const int64_t reach = scatter_reach(d);
  reference_value *sum = malloc((size_t)reach * sizeof *sum);
  bool *touched = calloc((size_t)reach, sizeof *touched);
  const bool memory = sum && touched;
  if (memory) do {
      const int64_t place = axis_place(r, point.at);
      const int64_t to =
          offset(&d->outputs[0], point.at, d->rank) + place * compute_index_of(d)->axis_stride;
      if (place < 0) continue;
      if (!touched[to]) sum[to] = reference_load(dtype, (char *)output + to * size);
      touched[to] = true;
      const reference_value x = reference_at(r, 0, point.at, d->rank);
      join(compute_index_of(d)->mode, reference_is_float(dtype), &sum[to], x);
    } while (reference_next(&point));
  for (int64_t i = 0; memory && i < reach; i++)
    if (touched[i]) reference_store(dtype, (char *)output + i * size, type, sum[i]);
  free(sum);
  free(touched);
  return memory;
}

/* ---- All kinds ----------------------------------------------------------------------------- */

static bool run(const reference *r) {
  switch (r->d->kind) {
  case COMPUTE_KERNEL_MAP: map(r); return true;
  case COMPUTE_KERNEL_COPY: copy(r); return true;
  case COMPUTE_KERNEL_REDUCE: reduce(r); return true;
  case COMPUTE_KERNEL_ROW: return rows(r);
  case COMPUTE_KERNEL_GEMM: return gemm(r);
  case COMPUTE_KERNEL_QUANTIZED_GEMM: return quantized_gemm(r);
  case COMPUTE_KERNEL_GATHER: gather(r); return true;
  case COMPUTE_KERNEL_BINCOUNT: return reference_bincount(r);
  case COMPUTE_KERNEL_FOURIER: return reference_fourier(r);
  case COMPUTE_KERNEL_LINALG: return reference_linalg(r);
  case COMPUTE_KERNEL_TREES: reference_trees(r); return true;
  case COMPUTE_KERNEL_CONV: reference_convolution(r); return true;
  default: return reference_network(r);
  }
}

bool kernel_reference_visit(const compute_kernel_descriptor *d, const void *const *inputs,
                            reference_writer write, void *user) {
  const reference r = {d, inputs, write, user, malloc(COMPUTE_MAX_INSTRUCTIONS * sizeof *r.values)};
  const bool done = r.values && run(&r);
  free(r.values);
  return done;
}

typedef struct stored {
  const compute_kernel_descriptor *d;
  void *const *operands;
} stored;

static void store(void *user, uint32_t output, const int64_t *at, compute_dtype type,
                  const reference_value *value) {
  const stored *to = user;
  const compute_operand *o = &to->d->outputs[output];
  reference_store(o->dtype,
                  (char *)to->operands[to->d->input_count + output] +
                      offset(o, at, to->d->rank) * (int64_t)compute_dtype_size(o->dtype),
                  type, *value);
}

bool kernel_reference(const compute_kernel_descriptor *d, void *const *operands) {
  const reference r = {.d = d, .inputs = (const void *const *)operands};
  stored to = {d, operands};
  if (d->kind == COMPUTE_KERNEL_SCATTER) return scatter(&r, operands[d->input_count]);
  if (d->kind == COMPUTE_KERNEL_SPOTS) return spots_reference(d, operands);
  return kernel_reference_visit(d, r.inputs, store, &to);
}
