/* SPDX-License-Identifier: MIT */
/* Common parts of the evaluations: the elements that an operand may access, positions in a space,
 * and programs at a position. */
#include "plan/validate/evaluate/evaluate.h"

#include "core/kernel/kernel.h"

/* ---- Operands ------------------------------------------------------------------------------ */

static void add(extent *e, int64_t size, int64_t stride) {
  if (stride == 0 && size > 0) return; /* the dimension repeats */
  e->size[e->rank] = size;
  e->stride[e->rank++] = stride;
}

static void find_bounds(extent *e) {
  e->low = e->high = 0;
  for (int32_t i = 0; i < e->rank; i++) {
    if (e->size[i] == 0) {
      e->high = -1;
      e->low = 0;
      return;
    }
    const int64_t reach = (e->size[i] - 1) * e->stride[i];
    *(reach < 0 ? &e->low : &e->high) += reach;
  }
}

void extent_of(const evaluation *e, uint32_t index, extent *result) {
  const compute_kernel_descriptor *d = e->d;
  const bool output = index >= d->input_count;
  const compute_operand *o = output ? &d->outputs[index - d->input_count] : &d->inputs[index];
  const int32_t rank = index < kernel_operands_own(d) ? d->rank : e->out_rank;
  int64_t size[COMPUTE_MAX_RANK];
  kernel_operand_sizes(d, index, size);
  *result = (extent){0};
  for (int32_t i = 0; i < rank; i++) add(result, size[i], o->stride[i]);
  if (e->kind->indexed && e->kind->indexed(d, index))
    add(result, compute_index_of(d)->axis_size, compute_index_of(d)->axis_stride);
  find_bounds(result);
}

int64_t evaluate_count(const int64_t *size, int32_t from, int32_t to) {
  int64_t count = 1;
  for (int32_t i = from; i < to; i++) count *= size[i];
  return count;
}

void evaluate_coordinates(const int64_t *size, int32_t rank, int64_t position,
                          int64_t *coordinate) {
  for (int32_t i = rank - 1; i >= 0; i--) {
    coordinate[i] = size[i] > 0 ? position % size[i] : 0;
    position = size[i] > 0 ? position / size[i] : 0;
  }
}

int64_t evaluate_offset(const int64_t *stride, int32_t rank, const int64_t *coordinate) {
  int64_t offset = 0;
  for (int32_t i = 0; i < rank; i++) offset += stride[i] * coordinate[i];
  return offset;
}

number evaluate_load(const view *v, int32_t rank, const int64_t *coordinate) {
  return number_load(v->dtype, view_at(v, evaluate_offset(v->stride, rank, coordinate)));
}

/* ---- Programs ------------------------------------------------------------------------------ */

void evaluate_epilogue(const evaluation *e, const number *value, uint32_t rest,
                       const int64_t *coordinate, int64_t position, workspace *w, number *results) {
  const compute_kernel_descriptor *d = e->d;
  number input[COMPUTE_MAX_OPERANDS + 1];
  uint32_t count = 0;
  if (value) input[count++] = *value;
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
