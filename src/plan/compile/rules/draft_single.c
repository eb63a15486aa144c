/* SPDX-License-Identifier: MIT */
/* Kernels of one operation, without programs. Most of their operands have separate dimensions and
 * are read through their layouts, so transposed or sliced operands are free. */
#include <string.h>

#include "compute/backend/fit_kinds.h"

#include "core/device/kernel_cache.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "plan/compile/rules/draft.h"

/* ---- Copies ---------------------------------------------------------------------------------- */

/* A reshape that strides cannot express: copies the operand's elements in row-major order. */
static void draft_view(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root], *x = &l->r->nodes[n->inputs[0]];
  dimension_map map = draft_identity(x->shape.rank);
  draft_begin(d, COMPUTE_KERNEL_COPY, x->shape, &map);
  draft_input(l, d, n->inputs[0], x->shape, &map);
  int64_t result[COMPUTE_MAX_RANK], strides[COMPUTE_MAX_RANK] = {0};
  draft_output_strides(l, c->root, result);
  (void)shape_reshape_strides(n->shape, result, x->shape, strides); /* channels.c has checked it */
  d->descriptor.output_count = 1;
  d->outputs[0].dtype = n->dtype;
  draft_spread(&map, strides, d->outputs[0].stride);
  d->output_node[0] = c->root;
  d->output_offset[0] = 0;
  d->operations = n->folded;
}

const plan_rule rule_view = {
    .draft = draft_view, .assigns = true, .in_place = true, .any_layout = true};

/* For kernels that write into zeros or into a copy. */
static uint32_t fill_and_write(const lowering *l, const cluster *c) {
  (void)l, (void)c;
  return 2;
}

/* ---- Indices --------------------------------------------------------------------------------- */

/* The strides of the tensor with the indexed axis. The index selects the position on this axis, so
 * the `index_rank` dimensions of the index replace the axis. */
static void indexed_operand(const int64_t *strides, int32_t rank, int32_t axis, int32_t index_rank,
                            int64_t *result) {
  memset(result, 0, sizeof(int64_t) * COMPUTE_MAX_RANK);
  for (int32_t i = 0; i < axis; i++) result[i] = strides[i];
  for (int32_t i = axis + 1; i < rank; i++) result[i - 1 + index_rank] = strides[i];
}

/* Drafts gather and the scatters; `whole` is the shape with the whole indexed axis. */
static void draft_indexed(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  bool gather = n->op == OP_gather || n->op == OP_gather_elements;
  bool elements = n->op == OP_gather_elements || n->op == OP_scatter_add_elements ||
                  n->op == OP_scatter_elements;
  int32_t axis = n->attributes.axis;
  const uint32_t source = n->input_count > 2 ? n->inputs[2] : n->inputs[0];
  const ir_node *x = &l->r->nodes[source], *indices = &l->r->nodes[n->inputs[1]];
  compute_shape space = gather ? n->shape : x->shape;
  compute_shape whole = gather ? x->shape : n->shape;
  dimension_map map = draft_identity(space.rank), index_map = map;
  if (!elements)
    for (int32_t i = 0; i < space.rank; i++)
      index_map.axis[i] = i < axis || i >= axis + indices->shape.rank ? -1 : i - axis;
  draft_begin(d, gather ? COMPUTE_KERNEL_GATHER : COMPUTE_KERNEL_SCATTER, space, &map);
  d->checks_indices = true;
  compute_index_attributes *index = draft_attributes(d, sizeof *index);
  index->axis_size = whole.size[axis];
  index->from_zero = n->attributes.from_zero;
  index->mode = (compute_scatter_mode)n->attributes.mode;
  int64_t strides[COMPUTE_MAX_RANK];
  if (gather) {
    const layout *lay = &l->f->layouts[source];
    memcpy(strides, lay->stride, sizeof strides);
    d->descriptor.input_count = 1;
    d->inputs[0].dtype = x->dtype;
    d->input_node[0] = lay->base;
    d->input_offset[0] = lay->offset;
  } else {
    shape_dense_strides(whole, strides);
    draft_input(l, d, source, space, &map);
  }
  draft_input(l, d, n->inputs[1], indices->shape, &index_map);
  draft_output(l, d, c->root, &map);
  compute_operand *walked = gather ? &d->inputs[0] : &d->outputs[0];
  index->axis_stride = strides[axis];
  if (elements) {
    memset(walked->stride, 0, sizeof walked->stride);
    for (int32_t i = 0; i < whole.rank; i++) walked->stride[i] = i == axis ? 0 : strides[i];
  } else {
    indexed_operand(strides, whole.rank, axis, indices->shape.rank, walked->stride);
  }
  d->operations = n->folded;
}

const plan_rule rule_gather = {.draft = draft_indexed};

static void draft_scatter(const lowering *l, const cluster *c, kernel_draft *d) {
  if (d->part == 0)
    draft_fill(l, c->root, 0, d);
  else
    draft_indexed(l, c, d);
}

const plan_rule rule_scatter = {.draft = draft_scatter, .parts = fill_and_write};

/* The copy is omitted if the result takes over the memory of the data (arena.c), or if both are
 * bound to one tensor (bind.c). */
static void draft_scatter_into(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root], *data = &l->r->nodes[n->inputs[0]];
  if (d->part > 0) {
    draft_indexed(l, c, d);
  } else if (fuse_is_immediate(data)) {
    draft_fill(l, n->inputs[0], ir_uniform_value(data), d);
    d->output_node[0] = c->root;
  } else {
    const dimension_map map = draft_identity(n->shape.rank);
    draft_begin(d, COMPUTE_KERNEL_COPY, n->shape, &map);
    draft_input(l, d, n->inputs[0], n->shape, &map);
    draft_output(l, d, c->root, &map);
  }
}

const plan_rule rule_scatter_into = {.draft = draft_scatter_into, .parts = fill_and_write};

/* ---- Along an axis --------------------------------------------------------------------------- */

static void draft_scan(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  const dimension_map map = draft_axis_last(n->shape.rank, n->attributes.axis);
  draft_begin(d, COMPUTE_KERNEL_SCAN, n->shape, &map);
  compute_scan_attributes *a = draft_attributes(d, sizeof *a);
  a->combine = COMPUTE_COMBINE_SUM;
  a->reverse = n->attributes.reverse;
  a->exclusive = n->attributes.exclusive;
  d->descriptor.accumulate = dtype_compute_type(n->dtype);
  draft_input(l, d, n->inputs[0], n->shape, &map);
  draft_output(l, d, c->root, &map);
  d->operations = n->folded;
}

const plan_rule rule_scan = {.draft = draft_scan};

static void draft_top_k(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root], *x = &l->r->nodes[n->inputs[0]];
  const dimension_map map = draft_axis_last(n->shape.rank, n->attributes.axis);
  draft_begin(d, COMPUTE_KERNEL_TOP_K, n->shape, &map);
  compute_top_k_attributes *a = draft_attributes(d, sizeof *a);
  a->smallest = n->attributes.smallest;
  a->axis_size = x->shape.size[n->attributes.axis];
  draft_input(l, d, n->inputs[0], x->shape, &map);
  draft_output(l, d, c->root, &map);
  d->operations = n->folded;
}

const plan_rule rule_top_k = {.draft = draft_top_k};

/* ---- Attention ------------------------------------------------------------------------------- */

static void draft_attention(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  const int32_t rank = n->shape.rank;
  const dimension_map map = draft_identity(rank);
  draft_begin(d, COMPUTE_KERNEL_ATTENTION, n->shape, &map);
  d->descriptor.accumulate = dtype_compute_type(n->dtype);
  memcpy(draft_attributes(d, sizeof(compute_attention_attributes)), n->constant,
         sizeof(compute_attention_attributes));
  for (uint32_t i = 0; i < 3; i++) draft_own_input(l, d, n->inputs[i], rank, rank - 2);
  if (n->input_count > 3) draft_own_input(l, d, n->inputs[3], rank, rank);
  draft_output(l, d, c->root, &map);
  d->operations = n->folded;
}

const plan_rule rule_attention = {.draft = draft_attention, .any_rows = true};

/* ---- Recurrences ----------------------------------------------------------------------------- */

static void draft_recurrent(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  const dimension_map map = draft_identity(3);
  draft_begin(d, COMPUTE_KERNEL_RECURRENT, n->shape, &map);
  d->descriptor.accumulate = dtype_compute_type(n->dtype);
  memcpy(draft_attributes(d, sizeof(compute_recurrent_attributes)), n->constant,
         sizeof(compute_recurrent_attributes));
  for (uint32_t i = 0; i < n->input_count; i++) draft_own_input(l, d, n->inputs[i], 3, 0);
  draft_output(l, d, c->root, &map);
  d->operations = n->folded;
}

const plan_rule rule_recurrent = {.draft = draft_recurrent};

/* ---- Fits and spots -------------------------------------------------------------------------- */

/* Adds an input of a fit with its dimensions. Missing leading axes (one map for all ROIs) repeat,
 * and so do axes of size 1 where the fit has more. */
static void add_fit_input(const lowering *l, kernel_draft *d, uint32_t node, int32_t rank,
                          int64_t rois) {
  const ir_node *n = &l->r->nodes[node];
  const layout *lay = &l->f->layouts[node];
  const int32_t lacking = rank - n->shape.rank;
  uint32_t input = d->descriptor.input_count++;
  d->inputs[input] = (compute_operand){.dtype = n->dtype};
  for (int32_t i = lacking; i < rank; i++) d->inputs[input].stride[i] = lay->stride[i - lacking];
  if (rois > 1 && (lacking > 0 || n->shape.size[0] == 1)) d->inputs[input].stride[0] = 0;
  d->input_node[input] = lay->base;
  d->input_offset[input] = lay->offset;
}

/* The space has one dimension, the ROIs. Maps and pixels have two more dimensions, other inputs
 * one. */
static void draft_fit(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root], *pixels = &l->r->nodes[n->inputs[0]];
  const compute_fit_problem *p = n->constant;
  const uint32_t maps = COMPUTE_FIT_WITH_OFFSET | COMPUTE_FIT_WITH_GAIN |
                        COMPUTE_FIT_WITH_VARIANCE | COMPUTE_FIT_WITH_MASK;
  const bool corners = (p->inputs & COMPUTE_FIT_WITH_CORNERS) != 0;
  const bool stack = !corners || (p->flags & COMPUTE_FIT_STACK) != 0;
  const int64_t rois = n->shape.size[0];
  const ir_node *whole = pixels; /* inputs with the size of the frames */
  dimension_map map = {.rank = 1};
  draft_begin(d, COMPUTE_KERNEL_FIT, n->shape, &map);
  add_fit_input(l, d, n->inputs[0], 3, stack ? rois : 0);
  for (uint32_t i = 1, bit = 0; i < n->input_count; bit++) {
    if ((p->inputs >> bit & 1) == 0) continue;
    const bool is_map = (maps >> bit & 1) != 0;
    if (is_map && stack) whole = &l->r->nodes[n->inputs[i]];
    const bool is_spline = (UINT32_C(1) << bit) == COMPUTE_FIT_WITH_SPLINE;
    add_fit_input(l, d, n->inputs[i++], is_map ? 3 : 2, is_spline ? 0 : rois);
  }
  compute_fit_attributes *fit = draft_attributes(d, sizeof *fit);
  fit->problem = *p;
  if (corners) {
    fit->frames = stack ? 0 : pixels->shape.size[0];
    fit->rows = whole->shape.size[whole->shape.rank - 2];
    fit->columns = whole->shape.size[whole->shape.rank - 1];
  }
  draft_output(l, d, c->root, &map);
  int64_t strides[COMPUTE_MAX_RANK];
  shape_dense_strides(n->shape, strides);
  d->outputs[0].stride[1] = strides[1];
  d->operations = n->folded;
}

const plan_rule rule_fit = {.draft = draft_fit};

static void draft_spots(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  const dimension_map map = draft_identity(3);
  draft_begin(d, COMPUTE_KERNEL_SPOTS, n->shape, &map);
  memcpy(draft_attributes(d, sizeof(compute_spots_attributes)), n->constant,
         sizeof(compute_spots_attributes));
  draft_own_input(l, d, n->inputs[0], 3, 0);
  draft_output(l, d, c->root, &map);
  d->operations = n->folded;
}

static bool has_spots_kernel(const compute_device *device, const compute_graph *graph,
                             const graph_node *node) {
  const graph_node *frames = &graph->nodes[node->inputs[0]];
  compute_operand in = {.dtype = frames->dtype}, out = {.dtype = node->dtype};
  compute_kernel_descriptor d = {.struct_size = sizeof d,
                                 .kind = COMPUTE_KERNEL_SPOTS,
                                 .rank = node->shape.rank,
                                 .input_count = 1,
                                 .output_count = 1,
                                 .inputs = &in,
                                 .outputs = &out,
                                 .attributes = node->constant,
                                 .attribute_bytes = sizeof(compute_spots_attributes)};
  char reason[256];
  memcpy(d.size, node->shape.size, sizeof(int64_t) * (size_t)node->shape.rank);
  shape_dense_strides(frames->shape, in.stride);
  shape_dense_strides(node->shape, out.stride);
  return kernel_is_supported(device, &d, reason, sizeof reason);
}

const plan_rule rule_spots = {.draft = draft_spots, .has_kernel = has_spots_kernel};

/* ---- User-defined functions ------------------------------------------------------------------ */

/* All operands are dense; capture has ensured this for the inputs. */
static void draft_call(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->anchor];
  const graph_host_call *call = n->constant;
  const dimension_map map = {.rank = 1};
  compute_shape space = {.rank = 1};
  for (uint32_t k = 0; k < call->key.output_count; k++)
    if (call->outputs[k].count > space.size[0]) space.size[0] = call->outputs[k].count;
  draft_begin(d, COMPUTE_KERNEL_CALL, space, &map);
  compute_call_attributes *a = draft_attributes(d, sizeof *a);
  a->run = graph_call_run;
  a->call = call;
  a->name = call->key.name;
  d->descriptor.input_count = n->input_count;
  d->descriptor.output_count = call->key.output_count;
  for (uint32_t i = 0; i < n->input_count; i++) {
    const layout *lay = &l->f->layouts[n->inputs[i]];
    d->inputs[i] = (compute_operand){.dtype = call->inputs[i].dtype, .stride = {1}};
    d->input_node[i] = lay->base;
    d->input_offset[i] = lay->offset;
    a->count[i] = call->inputs[i].count;
  }
  for (uint32_t k = 0; k < call->key.output_count; k++) {
    d->outputs[k] = (compute_operand){.dtype = call->outputs[k].dtype, .stride = {1}};
    d->output_node[k] = c->anchor + k;
    d->output_offset[k] = 0;
    a->count[n->input_count + k] = call->outputs[k].count;
  }
  d->operations = n->folded;
}

const plan_rule rule_call = {.draft = draft_call, .on_host = true};
