/* SPDX-License-Identifier: MIT */
/* References of MAP, COPY, REDUCE, ROW, GEMM, QUANTIZED_GEMM, GATHER, SCATTER and BINCOUNT; calls
 * the references of the other kinds. */
#include "support/reference/kernel_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/reference/graph_evaluate.h"
#include "support/reference/network_reference.h"
#include "support/reference/program_reference.h"
#include "support/reference/spots_reference.h"

typedef struct reference {
  const compute_kernel_descriptor *d;
  void *const *operands;
  reference_value *values; /* one per instruction of a program */
} reference;

static const compute_operand *operand_of(const reference *r, uint32_t operand) {
  const uint32_t inputs = r->d->input_count;
  return operand < inputs ? &r->d->inputs[operand] : &r->d->outputs[operand - inputs];
}

static void *element(const reference *r, uint32_t operand, int64_t at) {
  return (char *)r->operands[operand] +
         at * (int64_t)compute_dtype_size(operand_of(r, operand)->dtype);
}

static int64_t offset(const reference *r, uint32_t operand, const int64_t *at, int32_t rank) {
  const compute_operand *o = operand_of(r, operand);
  int64_t sum = 0;
  for (int32_t i = 0; i < rank; i++) sum += at[i] * o->stride[i];
  return sum;
}

static reference_value load(const reference *r, uint32_t input, const int64_t *at, int32_t rank) {
  return reference_load(r->d->inputs[input].dtype, element(r, input, offset(r, input, at, rank)));
}

static bool is_empty(const int64_t *size, int32_t first, int32_t end) {
  for (int32_t i = first; i < end; i++)
    if (size[i] == 0) return true;
  return false;
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
  return load(p->r, p->first + input - (p->value ? 1 : 0), p->point->at, p->rank);
}

static void store(const reference *r, uint32_t output, const int64_t *at, int32_t rank,
                  compute_dtype type, reference_value value) {
  const uint32_t operand = r->d->input_count + output;
  reference_store(r->d->outputs[output].dtype, element(r, operand, offset(r, operand, at, rank)),
                  type, value);
}

/* Runs the epilogue at a point and stores its results; `value` (NULL for MAP) has type `type`. */
static void finish(const reference *r, const reference_point *point, const reference_value *value,
                   compute_dtype type, uint32_t own) {
  const compute_program *e = &r->d->epilogue;
  const program_inputs inputs = {r, point, point->rank, own, value};
  if (e->count == 0) {
    store(r, 0, point->at, point->rank, type, *value);
    return;
  }
  program_reference(e, point, program_load_input, &inputs, r->values);
  for (uint32_t k = 0; k < r->d->output_count; k++)
    store(r, k, point->at, point->rank, (compute_dtype)e->instructions[e->outputs[k]].type,
          r->values[e->outputs[k]]);
}

/* Returns the prologue's element for REDUCE and ROW, in the type `accumulate`. */
static reference_value begin(const reference *r, const reference_point *point) {
  const compute_program *p = &r->d->prologue;
  const program_inputs inputs = {r, point, point->rank, 0, NULL};
  if (p->count == 0)
    return reference_cast(reference_type(r->d->inputs[0].dtype), load(r, 0, point->at, point->rank),
                          r->d->accumulate);
  program_reference(p, point, program_load_input, &inputs, r->values);
  return reference_cast((compute_dtype)p->instructions[p->outputs[0]].type,
                        r->values[p->outputs[0]], r->d->accumulate);
}

static void map(const reference *r) {
  reference_point point = {r->d->rank, r->d->size, {0}};
  if (is_empty(r->d->size, 0, r->d->rank)) return;
  do finish(r, &point, NULL, COMPUTE_DTYPE_NONE, 0);
  while (reference_next(&point));
}

static void copy(const reference *r) {
  const int32_t rank = r->d->rank;
  reference_point point = {rank, r->d->size, {0}};
  if (is_empty(r->d->size, 0, rank)) return;
  do store(r, 0, point.at, rank, reference_type(r->d->inputs[0].dtype), load(r, 0, point.at, rank));
  while (reference_next(&point));
}

/* ---- REDUCE -------------------------------------------------------------------------------- */

typedef struct fold {
  const compute_kernel_descriptor *d;
  long double sum; /* for floats; also their product */
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
  return reference_fit(f->d->accumulate, result);
}

static void reduce(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  reference_point kept = {compute_reduce_of(d)->kept_rank, d->size, {0}};
  const compute_dtype type =
      compute_reduce_of(d)->combine >= COMPUTE_COMBINE_ARGMAX ? COMPUTE_I64 : d->accumulate;
  if (is_empty(d->size, 0, compute_reduce_of(d)->kept_rank)) return;
  do {
    fold f = fold_begin(d);
    reference_point point = {d->rank, d->size, {0}};
    reference_point rest = {
        d->rank - compute_reduce_of(d)->kept_rank, d->size + compute_reduce_of(d)->kept_rank, {0}};
    memcpy(point.at, kept.at, sizeof point.at);
    if (!is_empty(d->size, compute_reduce_of(d)->kept_rank, d->rank)) {
      do {
        for (int32_t i = 0; i < rest.rank; i++)
          point.at[compute_reduce_of(d)->kept_rank + i] = rest.at[i];
        fold_add(&f, begin(r, &point));
      } while (reference_next(&rest));
    }
    const reference_value folded = fold_end(&f);
    finish(r, &kept, &folded, type, d->prologue_inputs);
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
  reference_point outer = {last, d->size, {0}};
  if (is_empty(d->size, 0, d->rank)) return true;
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
      finish(r, &point, &value, d->accumulate, d->prologue_inputs);
    }
  } while (reference_next(&outer));
  free(row);
  return true;
}

/* ---- GEMM ---------------------------------------------------------------------------------- */

static reference_value dot(const reference *r, const int64_t *at) {
  const compute_kernel_descriptor *d = r->d;
  const int32_t m = d->rank - 2, n = d->rank - 1;
  int64_t a[COMPUTE_MAX_RANK], b[COMPUTE_MAX_RANK];
  long double sum = 0;
  uint64_t whole = 0;
  memcpy(a, at, sizeof a);
  memcpy(b, at, sizeof b);
  for (int64_t k = 0; k < compute_gemm_of(d)->k; k++) {
    a[n] = b[m] = k;
    const reference_value x = load(r, 0, a, d->rank), y = load(r, 1, b, d->rank);
    sum += (long double)x.real * (long double)y.real;
    whole += (uint64_t)x.whole * (uint64_t)y.whole;
  }
  return reference_fit(d->accumulate,
                       (reference_value){.real = (double)sum, .whole = (int64_t)whole});
}

static void gemm(const reference *r) {
  reference_point point = {r->d->rank, r->d->size, {0}};
  if (is_empty(r->d->size, 0, r->d->rank)) return;
  do {
    const reference_value value = dot(r, point.at);
    finish(r, &point, &value, r->d->accumulate, 2);
  } while (reference_next(&point));
}

/* ---- QUANTIZED_GEMM ------------------------------------------------------------------------- */

static double weight(const reference *r, int64_t column, int64_t p) {
  const compute_quantized_gemm_attributes *a = compute_quantized_gemm_of(r->d);
  int64_t at[COMPUTE_MAX_RANK] = {0};
  at[r->d->rank - 2] = column;
  at[r->d->rank - 1] = p * a->bits / 8;
  const int64_t byte = load(r, 1, at, r->d->rank).whole;
  const int64_t q = byte >> (p * a->bits % 8) & ((1 << a->bits) - 1);
  at[r->d->rank - 1] = p / a->block;
  double zero = 1 << (a->bits - 1);
  if (a->zeros) {
    const reference_value value = load(r, 3, at, r->d->rank);
    zero = r->d->inputs[3].dtype == COMPUTE_U8 ? (double)value.whole : value.real;
  }
  return ((double)q - zero) * load(r, 2, at, r->d->rank).real;
}

static void quantized_gemm(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  const int32_t n = d->rank - 1;
  reference_point point = {d->rank, d->size, {0}};
  if (is_empty(d->size, 0, d->rank)) return;
  do {
    int64_t at[COMPUTE_MAX_RANK];
    memcpy(at, point.at, sizeof at);
    double sum = 0;
    for (int64_t p = 0; p < compute_quantized_gemm_of(d)->k; p++) {
      at[n] = p;
      sum += load(r, 0, at, d->rank).real * weight(r, point.at[n], p);
    }
    const reference_value value = reference_fit(d->accumulate, (reference_value){.real = sum});
    finish(r, &point, &value, d->accumulate, compute_quantized_gemm_of(d)->zeros ? 4 : 3);
  } while (reference_next(&point));
}

/* ---- GATHER and SCATTER -------------------------------------------------------------------- */

/* The position along the axis; −1: outside. */
static int64_t axis_place(const reference *r, const int64_t *at) {
  const compute_kernel_descriptor *d = r->d;
  const int64_t index = load(r, 1, at, d->rank).whole;
  if (index >= 0) return index < compute_index_of(d)->axis_size ? index : -1;
  return compute_index_of(d)->from_zero || index < -compute_index_of(d)->axis_size
             ? -1
             : index + compute_index_of(d)->axis_size;
}

static void gather(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  const compute_dtype dtype = d->inputs[0].dtype;
  reference_point point = {d->rank, d->size, {0}};
  if (is_empty(d->size, 0, d->rank)) return;
  do {
    const int64_t place = axis_place(r, point.at);
    const int64_t from = offset(r, 0, point.at, d->rank) + place * compute_index_of(d)->axis_stride;
    if (place < 0) continue;
    store(r, 0, point.at, d->rank, reference_type(dtype),
          reference_load(dtype, element(r, 0, from)));
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
static bool scatter(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  const uint32_t out = d->input_count;
  const compute_dtype dtype = d->outputs[0].dtype, type = reference_type(dtype);
  reference_point point = {d->rank, d->size, {0}};
  if (is_empty(d->size, 0, d->rank)) return true;
  const int64_t reach = scatter_reach(d);
  reference_value *sum = malloc((size_t)reach * sizeof *sum);
  bool *touched = calloc((size_t)reach, sizeof *touched);
  if (!sum || !touched) {
    free(sum);
    free(touched);
    return false;
  }
  do {
    const int64_t place = axis_place(r, point.at);
    const int64_t to = offset(r, out, point.at, d->rank) + place * compute_index_of(d)->axis_stride;
    if (place < 0) continue;
    if (!touched[to]) sum[to] = reference_load(dtype, element(r, out, to));
    touched[to] = true;
    const reference_value x = load(r, 0, point.at, d->rank);
    join(compute_index_of(d)->mode, reference_is_float(dtype), &sum[to], x);
  } while (reference_next(&point));
  for (int64_t i = 0; i < reach; i++)
    if (touched[i]) reference_store(dtype, element(r, out, i), type, sum[i]);
  free(sum);
  free(touched);
  return true;
}

/* ---- BINCOUNT ------------------------------------------------------------------------------ */

static bool bincount(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  const int32_t last = d->rank - 1;
  const bool weighted = d->input_count == 2;
  int64_t size[COMPUTE_MAX_RANK];
  memcpy(size, d->size, sizeof size);
  if (is_empty(d->size, 0, d->rank)) return true;
  size[last] = 1;
  reference_point row = {d->rank, size, {0}};
  reference_value *sum = malloc((size_t)d->size[last] * sizeof *sum);
  if (!sum) return false;
  do {
    memset(sum, 0, (size_t)d->size[last] * sizeof *sum);
    int64_t at[COMPUTE_MAX_RANK];
    memcpy(at, row.at, sizeof at);
    for (at[last] = 0; at[last] < compute_bincount_of(d)->axis_size; at[last]++) {
      const int64_t bin = load(r, 0, at, d->rank).whole;
      if (bin < 0 || bin >= d->size[last]) continue;
      sum[bin].whole++;
      if (weighted) sum[bin].real += load(r, 1, at, d->rank).real;
    }
    for (at[last] = 0; at[last] < d->size[last]; at[last]++)
      store(r, 0, at, d->rank, weighted ? COMPUTE_F64 : COMPUTE_I64, sum[at[last]]);
  } while (reference_next(&row));
  free(sum);
  return true;
}

/* ---- Kinds with another reference ---------------------------------------------------------- */

static void store_network(void *user, uint32_t output, const int64_t *at,
                          const sample_element *value) {
  const reference *r = user;
  const compute_dtype dtype = r->d->outputs[output].dtype;
  const compute_dtype type = reference_is_float(dtype) ? COMPUTE_F64 : COMPUTE_I64;
  store(r, output, at, r->d->rank, type, (reference_value){value->real, value->whole});
}

static void convolve(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  reference_point point = {d->rank, d->size, {0}};
  if (is_empty(d->size, 0, d->rank)) return;
  do {
    for (uint32_t k = 0; k < d->output_count; k++) {
      const sample_element value =
          sample_convolution_element(d, (const void *const *)r->operands, k, point.at);
      store_network((void *)r, k, point.at, &value);
    }
  } while (reference_next(&point));
}

static bool run(reference *r) {
  switch (r->d->kind) {
  case COMPUTE_KERNEL_MAP: map(r); return true;
  case COMPUTE_KERNEL_COPY: copy(r); return true;
  case COMPUTE_KERNEL_REDUCE: reduce(r); return true;
  case COMPUTE_KERNEL_ROW: return rows(r);
  case COMPUTE_KERNEL_GEMM: gemm(r); return true;
  case COMPUTE_KERNEL_QUANTIZED_GEMM: quantized_gemm(r); return true;
  case COMPUTE_KERNEL_GATHER: gather(r); return true;
  case COMPUTE_KERNEL_SCATTER: return scatter(r);
  case COMPUTE_KERNEL_BINCOUNT: return bincount(r);
  case COMPUTE_KERNEL_CONV: convolve(r); return true;
  case COMPUTE_KERNEL_WINDOW:
  case COMPUTE_KERNEL_SCAN:
  case COMPUTE_KERNEL_TOP_K:
  case COMPUTE_KERNEL_SORT:
  case COMPUTE_KERNEL_ATTENTION:
  case COMPUTE_KERNEL_RECURRENT:
    return network_reference(r->d, (const void *const *)r->operands, store_network, r);
  case COMPUTE_KERNEL_SPOTS: return spots_reference(r->d, r->operands);
  case COMPUTE_KERNEL_CALL: return false; /* only its function defines it */
  case COMPUTE_KERNEL_FIT: return false;  /* by its records: sample_fits.h */
  }
  return false;
}

bool kernel_reference(const compute_kernel_descriptor *d, void *const *operands) {
  reference r = {d, operands, malloc(COMPUTE_MAX_INSTRUCTIONS * sizeof *r.values)};
  const bool done = r.values && run(&r);
  free(r.values);
  return done;
}
