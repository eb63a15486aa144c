/* Kernels by their kinds, each by the sentence that defines it in compute/backend.h. */
#include "validate/evaluate.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kernel/kernel.h"
#include "type/dtype.h"
#include "validate/kinds.h"

/* ---- Shape of the work --------------------------------------------------------------------- */

static int64_t product(const int64_t *size, int32_t from, int32_t to) {
  int64_t count = 1;
  for (int32_t i = from; i < to; i++) count *= size[i];
  return count;
}

/* The gradient of a maximum looks through every window that an element is part of. */
static uint64_t window_work(const compute_window_attributes *w) {
  const uint64_t elements = (uint64_t)product(w->size, 0, 2);
  return w->by_data && w->operation == COMPUTE_WINDOW_MAX ? elements * elements : elements;
}

static uint64_t work_of_element(const evaluation *e) {
  const compute_kernel_descriptor *d = e->d;
  const compute_conv_attributes *c = compute_conv_of(d);
  const uint64_t program = 4 + 8 * (uint64_t)(d->prologue.count + d->epilogue.count);
  switch (d->kind) {
  case COMPUTE_KERNEL_REDUCE:
    return program * (uint64_t)(1 + product(d->size, compute_reduce_of(d)->kept_rank, d->rank));
  case COMPUTE_KERNEL_GEMM: return program + 2 * (uint64_t)compute_gemm_of(d)->k;
  case COMPUTE_KERNEL_CONV:
    if (c->direction == COMPUTE_CONVOLUTION_BY_FILTER)
      return program + 4 * (uint64_t)(c->batch * product(c->result_size, 0, 2));
    return program +
           4 * (uint64_t)(product(c->filter_size, 0, 2) *
                          (c->direction == COMPUTE_CONVOLUTION_FORWARD ? c->data_channels
                                                                       : c->result_channels) /
                          c->groups);
  case COMPUTE_KERNEL_WINDOW: return program + 8 * window_work(compute_window_of(d));
  default: return program;
  }
}

bool evaluation_exists(const compute_kernel_descriptor *d) {
  return d->kind < COMPUTE_KERNEL_FIT || d->kind == COMPUTE_KERNEL_WINDOW;
}

void evaluation_prepare(evaluation *e, const compute_kernel_descriptor *d) {
  e->d = d;
  e->out_rank = d->kind == COMPUTE_KERNEL_REDUCE ? compute_reduce_of(d)->kept_rank : d->rank;
  e->units = product(d->size, 0, e->out_rank);
  e->unit_length = 1;
  if (d->kind == COMPUTE_KERNEL_ROW) {
    e->unit_length = d->size[d->rank - 1];
    e->units = e->unit_length > 0 ? e->units / e->unit_length : 0;
  }
  if (d->kind == COMPUTE_KERNEL_SCATTER) {
    extent_of(d, d->input_count, &e->scattered);
    e->unit_length = e->scattered.high - e->scattered.low + 1;
    e->units = e->unit_length > 0;
  }
  e->unit_work = work_of_element(e) * (uint64_t)(e->unit_length > 0 ? e->unit_length : 1);
}

bool workspace_make(const evaluation *e, workspace *w) {
  const bool is_row = e->d->kind == COMPUTE_KERNEL_ROW;
  w->values = base_allocate(COMPUTE_MAX_INSTRUCTIONS, sizeof *w->values);
  w->row = base_allocate(is_row ? (size_t)e->unit_length : 1, sizeof *w->row);
  w->results = base_allocate((size_t)e->unit_length * e->d->output_count, sizeof *w->results);
  return w->values && w->row && w->results;
}

void workspace_release(workspace *w) {
  base_release(w->values);
  base_release(w->row);
  base_release(w->results);
}

void evaluate_coordinates(const int64_t *size, int32_t rank, int64_t position,
                          int64_t *coordinate) {
  for (int32_t i = rank - 1; i >= 0; i--) {
    coordinate[i] = size[i] > 0 ? position % size[i] : 0;
    position = size[i] > 0 ? position / size[i] : 0;
  }
}

static int64_t offset_at(const int64_t *stride, int32_t rank, const int64_t *coordinate) {
  int64_t offset = 0;
  for (int32_t i = 0; i < rank; i++) offset += stride[i] * coordinate[i];
  return offset;
}

number evaluate_load(const view *v, int32_t rank, const int64_t *coordinate) {
  return number_load(v->dtype, view_at(v, offset_at(v->stride, rank, coordinate)));
}

compute_dtype evaluation_type(const evaluation *e, uint32_t k) {
  const compute_kernel_descriptor *d = e->d;
  if (d->epilogue.count > 0)
    return (compute_dtype)d->epilogue.instructions[d->epilogue.outputs[k]].type;
  switch (d->kind) {
  case COMPUTE_KERNEL_REDUCE:
    return compute_reduce_of(d)->combine >= COMPUTE_COMBINE_ARGMAX ? COMPUTE_I64 : d->accumulate;
  case COMPUTE_KERNEL_ROW:
  case COMPUTE_KERNEL_GEMM:
  case COMPUTE_KERNEL_CONV:
  case COMPUTE_KERNEL_WINDOW: return d->accumulate;
  default: return dtype_compute_type(d->inputs[0].dtype);
  }
}

int64_t evaluation_offset(const evaluation *e, uint32_t k, int64_t unit, int64_t j) {
  int64_t coordinate[COMPUTE_MAX_RANK];
  if (e->d->kind == COMPUTE_KERNEL_SCATTER) return e->scattered.low + j;
  evaluate_coordinates(e->d->size, e->out_rank, unit * e->unit_length + j, coordinate);
  return offset_at(e->d->outputs[k].stride, e->out_rank, coordinate);
}

/* ---- Epilogue ------------------------------------------------------------------------------ */

void evaluate_epilogue(const evaluation *e, const number *value, uint32_t rest,
                       const int64_t *coordinate, int64_t position, workspace *w, number *results) {
  const compute_kernel_descriptor *d = e->d;
  number input[COMPUTE_MAX_OPERANDS + 1];
  uint32_t count = 0;
  if (value != NULL) input[count++] = *value;
  for (uint32_t i = rest; i < d->input_count; i++)
    input[count++] = evaluate_load(&e->input[i], e->out_rank, coordinate);
  number_run(&d->epilogue, input, coordinate, position, w->values, results);
}

number evaluate_prologue(const evaluation *e, const int64_t *coordinate, int64_t position,
                         workspace *w) {
  const compute_kernel_descriptor *d = e->d;
  number input[COMPUTE_MAX_OPERANDS], made;
  for (uint32_t i = 0; i < d->prologue_inputs; i++)
    input[i] = evaluate_load(&e->input[i], d->rank, coordinate);
  number_run(&d->prologue, input, coordinate, position, w->values, &made);
  return made;
}

/* ---- Indices ------------------------------------------------------------------------------- */

static bool find_index(const evaluation *e, const int64_t *coordinate, int64_t *offset) {
  const number index = evaluate_load(&e->input[1], e->d->rank, coordinate);
  const bool wraps = index.integer < 0 && !compute_index_of(e->d)->from_zero;
  const int64_t at = wraps ? index.integer + compute_index_of(e->d)->axis_size : index.integer;
  *offset = at * compute_index_of(e->d)->axis_stride;
  return at >= 0 && at < compute_index_of(e->d)->axis_size;
}

static bool gather(const evaluation *e, const int64_t *coordinate, number *result) {
  int64_t along;
  const view *source = &e->input[0];
  if (!find_index(e, coordinate, &along)) return false;
  const int64_t offset = offset_at(source->stride, e->d->rank, coordinate) + along;
  *result = number_load(source->dtype, view_at(source, offset));
  return true;
}

/* In row-major order; a device may add in another one, and rounds to the output's dtype or later.
 */
static bool scatter(const evaluation *e, workspace *w) {
  const compute_kernel_descriptor *d = e->d;
  const compute_dtype dtype = d->outputs[0].dtype, type = dtype_compute_type(dtype);
  const compute_instruction add = {.code = COMPUTE_I_ADD, .type = (uint8_t)type};
  const int64_t count = product(d->size, 0, d->rank);
  int64_t coordinate[COMPUTE_MAX_RANK], along;
  for (int64_t j = 0; j < e->unit_length; j++)
    w->results[j] = number_load(dtype, view_at(&e->before, e->scattered.low + j));
  for (int64_t at = 0; at < count; at++) {
    evaluate_coordinates(d->size, d->rank, at, coordinate);
    if (!find_index(e, coordinate, &along)) return false;
    const int64_t offset = offset_at(d->outputs[0].stride, d->rank, coordinate) + along;
    const number update = evaluate_load(&e->input[0], d->rank, coordinate);
    number *sum = &w->results[offset - e->scattered.low];
    const double before = fabs(sum->real);
    *sum = number_apply(&add, type, sum, &update, NULL);
    /* In another order the partial sums may be as large as all of their terms. */
    sum->error += number_epsilon(dtype) * (before + fabs(update.real));
  }
  return true;
}

/* ---- A unit -------------------------------------------------------------------------------- */

bool evaluate_unit(const evaluation *e, int64_t unit, workspace *w) {
  const compute_kernel_descriptor *d = e->d;
  int64_t coordinate[COMPUTE_MAX_RANK];
  number value;
  if (d->kind == COMPUTE_KERNEL_SCATTER) return scatter(e, w);
  if (d->kind == COMPUTE_KERNEL_ROW) {
    evaluate_row(e, unit, w);
    return true;
  }
  evaluate_coordinates(d->size, e->out_rank, unit, coordinate);
  switch (d->kind) {
  case COMPUTE_KERNEL_MAP:
    evaluate_epilogue(e, NULL, 0, coordinate, unit, w, w->results);
    return true;
  case COMPUTE_KERNEL_COPY:
    w->results[0] = evaluate_load(&e->input[0], d->rank, coordinate);
    return true;
  case COMPUTE_KERNEL_GATHER: return gather(e, coordinate, w->results);
  case COMPUTE_KERNEL_REDUCE:
    value = evaluate_fold(e, coordinate, unit, w);
    evaluate_epilogue(e, &value, d->prologue_inputs, coordinate, unit, w, w->results);
    return true;
  case COMPUTE_KERNEL_WINDOW:
    value = evaluate_window(e, coordinate);
    evaluate_epilogue(e, &value, kernel_operands_own(d), coordinate, unit, w, w->results);
    return true;
  default:
    value = d->kind == COMPUTE_KERNEL_GEMM ? evaluate_product(e, coordinate)
                                           : evaluate_convolution(e, coordinate);
    evaluate_epilogue(e, &value, 2, coordinate, unit, w, w->results);
    return true;
  }
}
