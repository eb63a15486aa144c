/* SPDX-License-Identifier: MIT */
/* The building blocks of kernel drafts, and the drafts of the two kernels without an operation:
 * copies and fills. */
#include <string.h>

#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "plan/compile/rules/draft.h"

dimension_map draft_identity(int32_t rank) {
  dimension_map m = {.rank = rank};
  for (int32_t i = 0; i < rank; i++) m.axis[i] = i;
  return m;
}

dimension_map draft_axis_last(int32_t rank, int32_t axis) {
  dimension_map map = draft_identity(rank);
  for (int32_t i = axis; i + 1 < rank; i++) map.axis[i] = i + 1;
  map.axis[rank - 1] = axis;
  return map;
}

void draft_begin(kernel_draft *d, compute_kernel_kind kind, compute_shape space,
                 const dimension_map *map) {
  /* Later calls overwrite the arrays of operands and programs as far as they use them. */
  memset(&d->descriptor, 0, sizeof d->descriptor);
  d->prologue.count = d->prologue.output_count = 0;
  d->epilogue.count = d->epilogue.output_count = 0;
  d->prologue.full = d->epilogue.full = false;
  d->operations = 0;
  d->checks_indices = false;
  d->descriptor.struct_size = sizeof d->descriptor;
  d->descriptor.kind = kind;
  d->descriptor.rank = map->rank;
  for (int32_t i = 0; i < map->rank; i++)
    d->descriptor.size[i] = map->axis[i] < 0 ? 1 : space.size[map->axis[i]];
}

void draft_finish(kernel_draft *d) {
  d->descriptor.inputs = d->inputs;
  d->descriptor.outputs = d->outputs;
  if (d->prologue.count > 0) d->descriptor.prologue = program_finish(&d->prologue);
  if (d->epilogue.count > 0) d->descriptor.epilogue = program_finish(&d->epilogue);
}

void draft_spread(const dimension_map *map, const int64_t *strides, int64_t *result) {
  memset(result, 0, sizeof(int64_t) * COMPUTE_MAX_RANK);
  for (int32_t i = 0; i < map->rank; i++) result[i] = map->axis[i] < 0 ? 0 : strides[map->axis[i]];
}

void draft_place(const lowering *l, kernel_draft *d, uint32_t input, uint32_t node,
                 compute_shape shape, const dimension_map *map) {
  const layout *lay = &l->f->layouts[node];
  int64_t strides[COMPUTE_MAX_RANK] = {0};
  shape_broadcast_strides(l->r->nodes[node].shape, lay->stride, shape, strides);
  d->inputs[input].dtype = l->r->nodes[node].dtype;
  draft_spread(map, strides, d->inputs[input].stride);
  d->input_node[input] = lay->base;
  d->input_offset[input] = lay->offset;
}

uint32_t draft_input(const lowering *l, kernel_draft *d, uint32_t node, compute_shape shape,
                     const dimension_map *map) {
  uint32_t input = d->descriptor.input_count++;
  draft_place(l, d, input, node, shape, map);
  return input;
}

void draft_own_input(const lowering *l, kernel_draft *d, uint32_t node, int32_t rank,
                     int32_t batch) {
  const ir_node *n = &l->r->nodes[node];
  const layout *lay = &l->f->layouts[node];
  const uint32_t input = d->descriptor.input_count++;
  const int32_t shift = rank - n->shape.rank;
  d->inputs[input] = (compute_operand){.dtype = n->dtype};
  for (int32_t i = shift; i < rank; i++)
    if (i >= batch || n->shape.size[i - shift] != 1)
      d->inputs[input].stride[i] = lay->stride[i - shift];
  d->input_node[input] = lay->base;
  d->input_offset[input] = lay->offset;
}

void draft_output_strides(const lowering *l, uint32_t node, int64_t *strides) {
  const layout *lay = &l->f->layouts[node];
  if (l->f->cluster_of[node] != IR_NONE && lay->base == node)
    memcpy(strides, lay->stride, sizeof lay->stride);
  else
    shape_dense_strides(l->r->nodes[node].shape, strides);
}

void draft_output(const lowering *l, kernel_draft *d, uint32_t node, const dimension_map *map) {
  uint32_t output = d->descriptor.output_count++;
  int64_t strides[COMPUTE_MAX_RANK];
  draft_output_strides(l, node, strides);
  d->outputs[output].dtype = l->r->nodes[node].dtype;
  draft_spread(map, strides, d->outputs[output].stride);
  d->output_node[output] = node;
  d->output_offset[output] = l->f->within[node] == IR_NONE ? 0 : l->f->layouts[node].offset;
}

void draft_copy(const lowering *l, uint32_t node, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[node];
  dimension_map map = draft_identity(n->shape.rank);
  draft_begin(d, COMPUTE_KERNEL_COPY, n->shape, &map);
  draft_input(l, d, node, n->shape, &map);
  draft_output(l, d, node, &map);
  shape_dense_strides(n->shape, d->outputs[0].stride);
  draft_finish(d);
}

void draft_fill(const lowering *l, uint32_t node, double value, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[node];
  dimension_map map = draft_identity(n->shape.rank);
  draft_begin(d, COMPUTE_KERNEL_MAP, n->shape, &map);
  compute_dtype type = n->dtype == COMPUTE_BOOL ? COMPUTE_BOOL : dtype_compute_type(n->dtype);
  bool integer = type == COMPUTE_I32 || type == COMPUTE_I64 || type == COMPUTE_BOOL;
  bool exact = integer && n->op == OP_constant;
  program_store(&d->epilogue,
                exact     ? program_constant_integer(&d->epilogue, type,
                                                     dtype_load_integer(n->dtype, n->constant))
                : integer ? program_constant_integer(&d->epilogue, type, (int64_t)value)
                          : program_constant(&d->epilogue, type, value));
  draft_output(l, d, node, &map);
  draft_finish(d);
}
