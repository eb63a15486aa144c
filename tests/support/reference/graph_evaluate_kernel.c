/* SPDX-License-Identifier: MIT */
/* Describes operations as kernels. Values are dense f64 or i64; a result of a narrower integer is
 * wrapped at the end, which gives the same bits. */
#include "support/reference/graph_evaluate_kernel.h"

#include <math.h>
#include <string.h>

#include "core/type/dtype.h"
#include "support/reference/kernel_reference.h"
#include "support/samples/attributes.h"

/* A kernel and the memory of its operands. */
typedef struct launch {
  compute_kernel_descriptor d;
  compute_operand operand[COMPUTE_MAX_OPERANDS];
  void *memory[COMPUTE_MAX_OPERANDS];
  uint32_t count;
  any_attributes attributes;
} launch;

static launch begin(compute_kernel_kind kind, compute_shape space, const evaluate_value *like) {
  launch l = {.d = {.struct_size = sizeof l.d,
                    .kind = kind,
                    .rank = space.rank,
                    .accumulate = like->real ? COMPUTE_F64 : COMPUTE_I64}};
  memcpy(l.d.size, space.size, sizeof l.d.size);
  return l;
}

static int64_t step_of(compute_shape shape, int32_t axis) {
  int64_t step = 1;
  for (int32_t i = axis + 1; i < shape.rank; i++) step *= shape.size[i];
  return step;
}

/* Adds an operand, inputs first, and returns its strides: 0 so far. */
static int64_t *add(launch *l, const evaluate_value *v) {
  l->memory[l->count] = v->real ? (void *)v->real : (void *)v->integer;
  l->operand[l->count].dtype = v->real ? COMPUTE_F64 : COMPUTE_I64;
  return l->operand[l->count++].stride;
}

/* Adds an operand that broadcasts over the space. */
static void add_broadcast(launch *l, const evaluate_value *v) {
  int64_t *stride = add(l, v) + (l->d.rank - v->shape.rank);
  for (int32_t i = 0; i < v->shape.rank; i++)
    stride[i] = v->shape.size[i] == 1 ? 0 : step_of(v->shape, i);
}

/* Adds an operand whose axis `axes[i]` is dimension i of the space. */
static void add_permuted(launch *l, const evaluate_value *v, const int32_t *axes) {
  int64_t *stride = add(l, v);
  for (int32_t i = 0; i < v->shape.rank; i++) stride[i] = step_of(v->shape, axes[i]);
}

/* The last operand is the output. */
static evaluate_outcome run(launch *l, evaluate_value *y) {
  l->d.inputs = l->operand;
  l->d.input_count = l->count - 1;
  l->d.outputs = &l->operand[l->count - 1];
  l->d.output_count = 1;
  attributes_bind(&l->d, &l->attributes);
  if (!kernel_reference(&l->d, l->memory)) return EVALUATE_NO_MEMORY;
  for (int64_t i = 0; y->integer && i < y->count; i++) {
    /* the largest of no elements is the least of its dtype */
    const bool none = l->d.kind == COMPUTE_KERNEL_WINDOW && y->integer[i] == INT64_MIN;
    if (none)
      dtype_limits(y->dtype, &y->integer[i], &(uint64_t){0});
    else
      y->integer[i] = evaluate_wrap(y->dtype, (uint64_t)y->integer[i]);
  }
  return EVALUATE_DONE;
}

/* Runs a kernel of operands that broadcast over the space of the result. */
static evaluate_outcome run_broadcast(launch *l, const graph_node *node, evaluate_value *const *x,
                                      evaluate_value *y) {
  for (uint32_t i = 0; i < node->input_count; i++) add_broadcast(l, x[i]);
  add_broadcast(l, y);
  return run(l, y);
}

/* ---- Sums and rows ------------------------------------------------------------------------- */

static evaluate_outcome multiply(const graph_node *node, evaluate_value *const *x,
                                 evaluate_value *y) {
  launch l = begin(COMPUTE_KERNEL_GEMM, y->shape, y);
  l.attributes.gemm.k = x[0]->shape.size[x[0]->shape.rank - 1];
  return run_broadcast(&l, node, x, y);
}

static compute_combine combine_of(graph_op op) {
  switch (op) {
  case OP_prod: return COMPUTE_COMBINE_PROD;
  case OP_max: return COMPUTE_COMBINE_MAX;
  case OP_min: return COMPUTE_COMBINE_MIN;
  case OP_argmax: return COMPUTE_COMBINE_ARGMAX;
  case OP_argmin: return COMPUTE_COMBINE_ARGMIN;
  default: return COMPUTE_COMBINE_SUM;
  }
}

static evaluate_outcome reduce(const graph_node *node, const evaluate_value *x, evaluate_value *y) {
  compute_shape space = x->shape;
  int32_t axes[COMPUTE_MAX_RANK], kept = 0, rank = 0;
  for (int part = 0; part < 2; part++) {
    for (int32_t i = 0; i < x->shape.rank; i++)
      if ((node->attributes.axes_mask >> i & 1u) == (unsigned)part) axes[rank++] = i;
    if (part == 0) kept = rank;
  }
  for (int32_t i = 0; i < rank; i++) space.size[i] = x->shape.size[axes[i]];
  launch l = begin(COMPUTE_KERNEL_REDUCE, space, x);
  l.d.prologue_inputs = 1;
  l.attributes.reduce =
      (compute_reduce_attributes){.kept_rank = kept, .combine = combine_of(node->op)};
  add_permuted(&l, x, axes);
  int64_t *stride = add(&l, y);
  space.rank = kept;
  for (int32_t i = 0; i < kept; i++) stride[i] = step_of(space, i);
  const evaluate_outcome outcome = run(&l, y);
  const double count = y->count > 0 ? (double)(x->count / y->count) : 0;
  for (int64_t i = 0; node->op == OP_mean && i < y->count; i++)
    y->real[i] = count > 0 ? y->real[i] / count : (double)NAN;
  return outcome;
}

/* A kernel over rows along an axis, which becomes the last. */
static launch begin_rows(compute_kernel_kind kind, int32_t axis, const evaluate_value *x,
                         const evaluate_value *y) {
  int32_t axes[COMPUTE_MAX_RANK], rank = 0;
  compute_shape space = y->shape;
  for (int32_t i = 0; i < space.rank; i++)
    if (i != axis) axes[rank++] = i;
  axes[rank] = axis;
  for (int32_t i = 0; i < space.rank; i++) space.size[i] = y->shape.size[axes[i]];
  launch l = begin(kind, space, x);
  add_permuted(&l, x, axes);
  add_permuted(&l, y, axes);
  return l;
}

static evaluate_outcome rows(const graph_node *node, const evaluate_value *x, evaluate_value *y) {
  const graph_attributes *a = &node->attributes;
  const graph_op op = node->op;
  const bool sorts = op == OP_sort || op == OP_argsort;
  launch l = begin_rows(sorts                     ? COMPUTE_KERNEL_SORT
                        : op == OP_top_k          ? COMPUTE_KERNEL_TOP_K
                        : op == OP_cumulative_sum ? COMPUTE_KERNEL_SCAN
                                                  : COMPUTE_KERNEL_ROW,
                        a->axis, x, y);
  if (sorts) {
    l.attributes.sort = (compute_sort_attributes){a->descending, op == OP_sort, op == OP_argsort};
  } else if (op == OP_top_k) {
    l.attributes.top_k = (compute_top_k_attributes){x->shape.size[a->axis], a->smallest};
  } else if (op == OP_cumulative_sum) {
    l.attributes.scan = (compute_scan_attributes){.exclusive = a->exclusive, .reverse = a->reverse};
  } else {
    l.d.prologue_inputs = 1;
    l.attributes.row.operation = op == OP_softmax       ? COMPUTE_ROW_SOFTMAX
                                 : op == OP_log_softmax ? COMPUTE_ROW_LOG_SOFTMAX
                                                        : COMPUTE_ROW_NORMALIZE;
    l.attributes.row.epsilon = a->scalar;
  }
  return run(&l, y);
}

/* ---- Indices ------------------------------------------------------------------------------- */

bool evaluate_is_indexed(const graph_node *node) {
  const graph_op op = node->op;
  return op == OP_gather || op == OP_gather_elements || op == OP_scatter ||
         op == OP_scatter_elements || op == OP_scatter_add || op == OP_scatter_add_elements;
}

/* The tensor with the axis is `table`; `many` has the axes of the indices instead of the axis, or
 * for single elements the shape of the indices. */
static evaluate_outcome index_axis(const graph_node *node, const evaluate_value *indices,
                                   const evaluate_value *many, evaluate_value *table, bool single,
                                   evaluate_value *y) {
  const bool gathers = y != table;
  const int32_t axis = node->attributes.axis, width = single ? 1 : indices->shape.rank;
  launch l = begin(gathers ? COMPUTE_KERNEL_GATHER : COMPUTE_KERNEL_SCATTER, many->shape, table);
  l.attributes.index =
      (compute_index_attributes){.axis_size = table->shape.size[axis],
                                 .axis_stride = step_of(table->shape, axis),
                                 .from_zero = single && node->attributes.from_zero,
                                 .mode = (compute_scatter_mode)node->attributes.mode};
  for (int i = 0; i < 3; i++) {
    if (i == 1) {
      int64_t *stride = add(&l, indices) + (single ? 0 : axis);
      for (int32_t k = 0; k < indices->shape.rank; k++) stride[k] = step_of(indices->shape, k);
    } else if (gathers == (i == 0)) {
      int64_t *stride = add(&l, table);
      for (int32_t k = 0; k < table->shape.rank; k++)
        if (k != axis) stride[k < axis ? k : k + width - 1] = step_of(table->shape, k);
    } else {
      int64_t *stride = add(&l, many);
      for (int32_t k = 0; k < many->shape.rank; k++) stride[k] = step_of(many->shape, k);
    }
  }
  return run(&l, y);
}

/* scatter begins with a copy of operand 0, scatter_add with zeros. */
static evaluate_outcome indexed(const graph_node *node, evaluate_value *const *x,
                                evaluate_value *y) {
  const graph_op op = node->op;
  const bool single =
      op == OP_gather_elements || op == OP_scatter_elements || op == OP_scatter_add_elements;
  const bool copies = op == OP_scatter || op == OP_scatter_elements;
  if (op == OP_gather || op == OP_gather_elements)
    return index_axis(node, x[1], y, x[0], single, y);
  for (int64_t i = 0; copies && i < y->count; i++) {
    if (y->real)
      y->real[i] = x[0]->real[i];
    else
      y->integer[i] = x[0]->integer[i];
  }
  return index_axis(node, x[1], x[copies ? 2 : 0], y, single, y);
}

/* A value outside the bins has no result. */
static evaluate_outcome count_bins(const graph_node *node, evaluate_value *const *x,
                                   evaluate_value *y) {
  const int32_t axis = node->attributes.axis, last = y->shape.rank - 1;
  const int64_t bins = y->shape.size[axis];
  for (int64_t i = 0; i < x[0]->count; i++)
    if (x[0]->integer[i] < 0 || x[0]->integer[i] >= bins) return EVALUATE_OTHER;
  int32_t axes[COMPUTE_MAX_RANK], rank = 0;
  compute_shape space = y->shape;
  for (int32_t i = 0; i <= last; i++)
    if (i != axis) axes[rank++] = i;
  axes[last] = axis;
  for (int32_t i = 0; i <= last; i++) space.size[i] = y->shape.size[axes[i]];
  launch l = begin(COMPUTE_KERNEL_BINCOUNT, space, y);
  l.attributes.bincount.axis_size = x[0]->shape.size[axis];
  for (uint32_t i = 0; i < node->input_count; i++) add_permuted(&l, x[i], axes);
  add_permuted(&l, y, axes);
  return run(&l, y);
}

/* ---- Fourier transforms -------------------------------------------------------------------- */

/* Adds an operand whose transformed axis is next to last; real numbers have no parts. */
static void add_lines(launch *l, const evaluate_value *v, int32_t axis, bool real) {
  int64_t *stride = add(l, v);
  const int32_t axes = l->d.rank - 1;
  for (int32_t i = 0, to = 0; i < axes; i++)
    stride[i == axis ? axes - 1 : to++] = step_of(v->shape, i);
  stride[axes] = real ? 0 : 1;
}

static evaluate_outcome transform(const graph_node *node, const evaluate_value *x,
                                  evaluate_value *y) {
  const compute_fourier_attributes *a = node->constant;
  const int32_t axis = node->attributes.axis, axes = y->shape.rank - (a->halved ? 0 : 1);
  compute_shape space = {.rank = axes + 1};
  for (int32_t i = 0, to = 0; i < axes; i++)
    space.size[i == axis ? axes - 1 : to++] = y->shape.size[i];
  space.size[axes] = a->halved ? 1 : 2;
  launch l = begin(COMPUTE_KERNEL_FOURIER, space, y);
  memcpy(&l.attributes.fourier, a, sizeof *a);
  add_lines(&l, x, axis, a->real);
  add_lines(&l, y, axis, a->halved);
  return run(&l, y);
}

/* ---- Linear algebra ------------------------------------------------------------------------ */

static evaluate_outcome decompose(const graph_node *node, evaluate_value *const *x,
                                  evaluate_value *y) {
  const compute_linalg_attributes *a = node->constant;
  const int32_t batch = y->shape.rank - 1;
  compute_shape space = y->shape;
  space.rank = batch + 2;
  space.size[batch + 1] = space.size[batch];
  space.size[batch] = 1;
  launch l = begin(COMPUTE_KERNEL_LINALG, space, y);
  memcpy(&l.attributes.linalg, a, sizeof *a);
  for (uint32_t i = 0; i < node->input_count; i++) {
    int64_t *stride = add(&l, x[i]) + (space.rank - x[i]->shape.rank);
    for (int32_t k = 0; k < x[i]->shape.rank; k++)
      stride[k] =
          k < x[i]->shape.rank - 2 && x[i]->shape.size[k] == 1 ? 0 : step_of(x[i]->shape, k);
  }
  int64_t *stride = add(&l, y);
  for (int32_t k = 0; k < batch; k++) stride[k] = step_of(y->shape, k);
  stride[batch + 1] = 1;
  return run(&l, y);
}

/* ---- Trees --------------------------------------------------------------------------------- */

static evaluate_outcome walk_trees(const graph_node *node, evaluate_value *const *x,
                                   evaluate_value *y) {
  launch l = begin(COMPUTE_KERNEL_TREES, y->shape, y);
  memcpy(&l.attributes.trees, node->constant, sizeof l.attributes.trees);
  for (uint32_t i = 0; i < node->input_count; i++) {
    int64_t *stride = add(&l, x[i]);
    if (i == 0) stride[0] = x[i]->shape.size[1];
    stride[1] = 1;
  }
  int64_t *stride = add(&l, y);
  stride[0] = y->shape.size[1];
  stride[1] = 1;
  return run(&l, y);
}

/* ---- Networks ------------------------------------------------------------------------------ */

evaluate_outcome evaluate_kernel(const graph_node *node, evaluate_value *const *x,
                                 evaluate_value *y) {
  launch l;
  switch (node->op) {
  case OP_matmul:
  case OP_matmul_integer: return multiply(node, x, y);
  case OP_sum:
  case OP_mean:
  case OP_prod:
  case OP_max:
  case OP_min:
  case OP_argmax:
  case OP_argmin: return reduce(node, x[0], y);
  case OP_softmax:
  case OP_log_softmax:
  case OP_normalize:
  case OP_cumulative_sum:
  case OP_top_k:
  case OP_sort:
  case OP_argsort: return rows(node, x[0], y);
  case OP_gather:
  case OP_gather_elements:
  case OP_scatter:
  case OP_scatter_elements:
  case OP_scatter_add:
  case OP_scatter_add_elements: return indexed(node, x, y);
  case OP_bincount: return count_bins(node, x, y);
  case OP_fourier: return transform(node, x[0], y);
  case OP_linalg: return decompose(node, x, y);
  case OP_tree_ensemble: return walk_trees(node, x, y);
  case OP_conv2d:
  case OP_conv2d_integer:
  case OP_conv2d_by_data:
  case OP_conv2d_by_filter:
    l = begin(COMPUTE_KERNEL_CONV, y->shape, y);
    memcpy(&l.attributes.conv, node->constant, sizeof l.attributes.conv);
    return run_broadcast(&l, node, x, y);
  case OP_max_pool2d:
  case OP_max_pool2d_by_data:
  case OP_argmax_pool2d:
  case OP_average_pool2d:
  case OP_average_pool2d_by_data:
    l = begin(COMPUTE_KERNEL_WINDOW, y->shape, x[0]);
    memcpy(&l.attributes.window, node->constant, sizeof l.attributes.window);
    return run_broadcast(&l, node, x, y);
  case OP_scaled_attention:
    l = begin(COMPUTE_KERNEL_ATTENTION, y->shape, y);
    memcpy(&l.attributes.attention, node->constant, sizeof l.attributes.attention);
    return run_broadcast(&l, node, x, y);
  case OP_recurrent:
    l = begin(COMPUTE_KERNEL_RECURRENT, y->shape, y);
    memcpy(&l.attributes.recurrent, node->constant, sizeof l.attributes.recurrent);
    return run_broadcast(&l, node, x, y);
  default: return EVALUATE_OTHER;
  }
}
