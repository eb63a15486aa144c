/* Drafts: the descriptor of each kind of kernel, with dimensions brought into the order that
 * compute/backend.h asks for. */
#include <string.h>

#include "plan/lower/draft.h"
#include "plan/lower/emit.h"
#include "type/dtype.h"
#include "type/shape.h"

dimension_map draft_identity(int32_t rank) {
  dimension_map m = {.rank = rank};
  for (int32_t i = 0; i < rank; i++) m.axis[i] = i;
  return m;
}

void draft_begin(kernel_draft *d, compute_kernel_kind kind, compute_shape space,
                 const dimension_map *map) {
  /* The arrays of operands and programs are overwritten as far as they are used. */
  memset(&d->descriptor, 0, sizeof d->descriptor);
  d->prologue.count = d->prologue.output_count = 0;
  d->epilogue.count = d->epilogue.output_count = 0;
  d->prologue.full = d->epilogue.full = false;
  d->operations = 0;
  d->descriptor.struct_size = sizeof d->descriptor;
  d->descriptor.kind = kind;
  d->descriptor.rank = map->rank;
  for (int32_t i = 0; i < map->rank; i++)
    d->descriptor.size[i] = map->axis[i] < 0 ? 1 : space.size[map->axis[i]];
}

static void finish(kernel_draft *d) {
  d->descriptor.inputs = d->inputs;
  d->descriptor.outputs = d->outputs;
  if (d->prologue.count > 0) d->descriptor.prologue = program_finish(&d->prologue);
  if (d->epilogue.count > 0) d->descriptor.epilogue = program_finish(&d->epilogue);
}

void draft_spread(const dimension_map *map, const int64_t *strides, int64_t *result) {
  memset(result, 0, sizeof(int64_t) * COMPUTE_MAX_RANK);
  for (int32_t i = 0; i < map->rank; i++) result[i] = map->axis[i] < 0 ? 0 : strides[map->axis[i]];
}

/* Operand `input` reads node through its layout, broadcast to `shape`. */
static void place_input(const lowering *l, kernel_draft *d, uint32_t input, uint32_t node,
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
  place_input(l, d, input, node, shape, map);
  return input;
}

void draft_output(const lowering *l, kernel_draft *d, uint32_t node, const dimension_map *map) {
  uint32_t output = d->descriptor.output_count++;
  int64_t strides[COMPUTE_MAX_RANK];
  shape_dense_strides(l->r->nodes[node].shape, strides);
  d->outputs[output].dtype = l->r->nodes[node].dtype;
  draft_spread(map, strides, d->outputs[output].stride);
  d->output_node[output] = node;
  d->output_offset[output] = 0;
}

/* Where the anchor's value enters the epilogue; a mean is a sum divided there. */
static uint16_t emit_anchor(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *a = &l->r->nodes[c->anchor];
  bool position = a->op == OP_argmax || a->op == OP_argmin;
  compute_dtype type = position ? COMPUTE_I64 : d->descriptor.accumulate;
  uint16_t value = program_load(&d->epilogue, type, 0);
  if (a->op != OP_mean) return value;
  compute_shape from = l->r->nodes[a->inputs[0]].shape;
  double count = 1;
  for (int32_t i = 0; i < from.rank; i++)
    if (a->attributes.axes_mask >> i & 1) count *= (double)from.size[i];
  return program_apply(&d->epilogue, COMPUTE_I_DIV, type, value,
                       program_constant(&d->epilogue, type, count), 0);
}

/* Body members, operands from outside and stored values, over the shape of the root. */
void draft_body(const lowering *l, const cluster *c, uint32_t *value, kernel_draft *d,
                uint32_t first_input, uint32_t reserved, const dimension_map *map) {
  const ir_node *root = &l->r->nodes[c->root];
  bool bare = c->anchor == c->root && l->r->nodes[c->root].op != OP_mean;
  uint32_t before = d->descriptor.input_count;
  if (!bare) {
    if (c->anchor != IR_NONE) value[c->anchor] = emit_anchor(l, c, d);
    emit_part(l, c, PART_BODY,
              &(program_site){.builder = &d->epilogue,
                              .draft = d,
                              .value = value,
                              .reserved = reserved,
                              .first_input = first_input});
  }
  for (uint32_t i = before; i < d->descriptor.input_count; i++)
    place_input(l, d, i, d->input_node[i], root->shape, map);
  for (uint32_t m = 0; m < c->member_count; m++) {
    if (!l->f->stored[c->members[m]]) continue;
    draft_output(l, d, c->members[m], map);
    if (!bare) program_store(&d->epilogue, (uint16_t)value[c->members[m]]);
  }
  if (c->anchor != IR_NONE) d->operations += l->r->nodes[c->anchor].folded;
}

/* The elements that an anchor folds: the prologue's program, or its operand as it is. */
static void emit_prologue(const lowering *l, const cluster *c, uint32_t *value, kernel_draft *d,
                          const dimension_map *map) {
  const ir_node *anchor = &l->r->nodes[c->anchor];
  uint32_t operand = anchor->inputs[0];
  compute_shape shape = l->r->nodes[operand].shape;
  const program_site prologue = {.builder = &d->prologue, .draft = d, .value = value};
  emit_part(l, c, PART_PROLOGUE, &prologue);
  if (d->prologue.count == 0) {
    draft_input(l, d, operand, shape, map);
  } else {
    program_store(&d->prologue, emit_seen(l, &prologue, anchor, operand));
    for (uint32_t i = 0; i < d->descriptor.input_count; i++)
      place_input(l, d, i, d->input_node[i], shape, map);
  }
  d->descriptor.prologue_inputs = d->descriptor.input_count;
  d->descriptor.accumulate = dtype_compute_type(l->r->nodes[operand].dtype);
}

static compute_combine combine_of(graph_op op) {
  switch (op) {
  case OP_prod: return COMPUTE_COMBINE_PROD;
  case OP_max: return COMPUTE_COMBINE_MAX;
  case OP_min: return COMPUTE_COMBINE_MIN;
  case OP_argmax: return COMPUTE_COMBINE_ARGMAX;
  case OP_argmin: return COMPUTE_COMBINE_ARGMIN;
  default: return COMPUTE_COMBINE_SUM; /* sum, mean */
  }
}

/* Only what this cluster's programs can have set, since a look at every node for each kernel would
 * make long plans slow to compile. */
static void forget_loads(const lowering *l, const cluster *c, uint32_t *value) {
  for (uint32_t m = 0; m < c->member_count; m++) {
    const ir_node *n = &l->r->nodes[c->members[m]];
    value[c->members[m]] = IR_NONE;
    for (uint32_t k = 0; k < n->input_count; k++) value[n->inputs[k]] = IR_NONE;
  }
}

static void draft_reduce(const lowering *l, const cluster *c, uint32_t *value, kernel_draft *d) {
  const ir_node *anchor = &l->r->nodes[c->anchor];
  compute_shape from = l->r->nodes[anchor->inputs[0]].shape;
  dimension_map source = {.rank = from.rank}, result = {.rank = from.rank};
  int32_t kept = 0;
  for (int32_t i = 0; i < from.rank; i++) {
    if (anchor->attributes.axes_mask >> i & 1) continue;
    source.axis[kept] = i;
    result.axis[kept] = anchor->attributes.keep_axes ? i : kept;
    kept++;
  }
  int32_t position = kept;
  for (int32_t i = 0; i < from.rank; i++) {
    if (!(anchor->attributes.axes_mask >> i & 1)) continue;
    source.axis[position] = i;
    result.axis[position++] = -1;
  }
  draft_begin(d, COMPUTE_KERNEL_REDUCE, from, &source);
  compute_reduce_attributes *fold = draft_attributes(d, sizeof *fold);
  fold->kept_rank = kept;
  fold->combine = combine_of(anchor->op);
  emit_prologue(l, c, value, d, &source);
  forget_loads(l, c, value); /* the two programs share no values */
  draft_body(l, c, value, d, d->descriptor.prologue_inputs, 1, &result);
}

static void draft_row(const lowering *l, const cluster *c, uint32_t *value, kernel_draft *d) {
  const ir_node *anchor = &l->r->nodes[c->anchor];
  dimension_map map = draft_identity(anchor->shape.rank);
  int32_t axis = anchor->op == OP_normalize ? map.rank - 1 : anchor->attributes.axis;
  for (int32_t i = axis; i + 1 < map.rank; i++) map.axis[i] = i + 1;
  map.axis[map.rank - 1] = axis;
  draft_begin(d, COMPUTE_KERNEL_ROW, anchor->shape, &map);
  compute_row_attributes *row = draft_attributes(d, sizeof *row);
  row->operation = anchor->op == OP_softmax       ? COMPUTE_ROW_SOFTMAX
                   : anchor->op == OP_log_softmax ? COMPUTE_ROW_LOG_SOFTMAX
                                                  : COMPUTE_ROW_NORMALIZE;
  row->epsilon = anchor->op == OP_normalize ? anchor->attributes.scalar : 0;
  emit_prologue(l, c, value, d, &map);
  forget_loads(l, c, value);
  draft_body(l, c, value, d, d->descriptor.prologue_inputs, 1, &map);
}

/* A matrix operand: batch axes aligned to the right and broadcast, then its own last two. */
static void add_matrix(const lowering *l, kernel_draft *d, uint32_t node, int32_t rank) {
  const ir_node *n = &l->r->nodes[node];
  const layout *lay = &l->f->layouts[node];
  uint32_t input = d->descriptor.input_count++;
  memset(&d->inputs[input], 0, sizeof d->inputs[input]);
  d->inputs[input].dtype = n->dtype;
  int32_t shift = rank - n->shape.rank;
  for (int32_t i = shift; i < rank; i++) {
    bool repeated = i < rank - 2 && n->shape.size[i - shift] == 1;
    d->inputs[input].stride[i] = repeated ? 0 : lay->stride[i - shift];
  }
  d->input_node[input] = lay->base;
  d->input_offset[input] = lay->offset;
}

static bool rows_continue(const compute_operand *o, int32_t batch, int64_t rows) {
  return o->stride[batch] == o->stride[batch + 1] * rows;
}

/* Removes batch dimension `batch` from every operand, the later dimensions moving up. */
static void drop_dimension(kernel_draft *d, int32_t batch) {
  compute_kernel_descriptor *k = &d->descriptor;
  for (int32_t i = batch; i + 1 < k->rank; i++) k->size[i] = k->size[i + 1];
  for (uint32_t i = 0; i < k->input_count + k->output_count; i++) {
    compute_operand *o = i < k->input_count ? &d->inputs[i] : &d->outputs[i - k->input_count];
    for (int32_t j = batch; j + 1 < k->rank; j++) o->stride[j] = o->stride[j + 1];
    o->stride[k->rank - 1] = 0;
  }
  k->rank--;
}

/* Whether the innermost batch only adds rows: B repeats, everything else goes on from row to row.
 */
static bool batch_is_rows(const kernel_draft *d, int32_t batch) {
  const compute_kernel_descriptor *k = &d->descriptor;
  int64_t rows = k->size[batch + 1];
  if (d->inputs[1].stride[batch] != 0) return false;
  for (uint32_t i = 0; i < k->input_count; i++)
    if (i != 1 && !rows_continue(&d->inputs[i], batch, rows)) return false;
  for (uint32_t i = 0; i < k->output_count; i++)
    if (!rows_continue(&d->outputs[i], batch, rows)) return false;
  return true;
}

/* Batches of one disappear, and those that only add rows become rows. */
static void merge_batches(kernel_draft *d) {
  compute_kernel_descriptor *k = &d->descriptor;
  for (int32_t batch = k->rank - 3; batch >= 0; batch--)
    if (k->size[batch] == 1) drop_dimension(d, batch);
  while (k->rank > 2 && batch_is_rows(d, k->rank - 3)) {
    k->size[k->rank - 2] *= k->size[k->rank - 3];
    drop_dimension(d, k->rank - 3);
  }
}

static void draft_gemm(const lowering *l, const cluster *c, uint32_t *value, kernel_draft *d) {
  const ir_node *anchor = &l->r->nodes[c->anchor];
  const ir_node *a = &l->r->nodes[anchor->inputs[0]];
  dimension_map map = draft_identity(anchor->shape.rank);
  draft_begin(d, COMPUTE_KERNEL_GEMM, anchor->shape, &map);
  d->descriptor.accumulate = dtype_compute_type(a->dtype);
  compute_gemm_attributes *product = draft_attributes(d, sizeof *product);
  if (d->descriptor.accumulate == COMPUTE_F32) product->precision = l->product;
  product->k = a->shape.size[a->shape.rank - 1];
  add_matrix(l, d, anchor->inputs[0], map.rank);
  add_matrix(l, d, anchor->inputs[1], map.rank);
  draft_body(l, c, value, d, 2, 1, &map);
  merge_batches(d);
}

static void draft_map(const lowering *l, const cluster *c, uint32_t *value, kernel_draft *d) {
  dimension_map map = draft_identity(l->r->nodes[c->root].shape.rank);
  draft_begin(d, COMPUTE_KERNEL_MAP, l->r->nodes[c->root].shape, &map);
  draft_body(l, c, value, d, 0, 0, &map);
}

/* The tensor whose axis is indexed: its layout without the axis, which the index walks instead.
 * `space_axis` dimensions of the index (`index_rank` of them) stand in the axis's place. */
static void indexed_operand(const int64_t *strides, int32_t rank, int32_t axis, int32_t index_rank,
                            int64_t *result) {
  memset(result, 0, sizeof(int64_t) * COMPUTE_MAX_RANK);
  for (int32_t i = 0; i < axis; i++) result[i] = strides[i];
  for (int32_t i = axis + 1; i < rank; i++) result[i - 1 + index_rank] = strides[i];
}

/* gather and scatter_add: `whole` is the side with the whole axis, `slices` the other. */
static void draft_indexed(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  bool gather = n->op == OP_gather || n->op == OP_gather_elements;
  bool elements = n->op == OP_gather_elements || n->op == OP_scatter_add_elements;
  int32_t axis = n->attributes.axis;
  const ir_node *x = &l->r->nodes[n->inputs[0]], *indices = &l->r->nodes[n->inputs[1]];
  compute_shape space = gather ? n->shape : x->shape;
  compute_shape whole = gather ? x->shape : n->shape;
  dimension_map map = draft_identity(space.rank), index_map = map;
  if (!elements)
    for (int32_t i = 0; i < space.rank; i++)
      index_map.axis[i] = i < axis || i >= axis + indices->shape.rank ? -1 : i - axis;
  draft_begin(d, gather ? COMPUTE_KERNEL_GATHER : COMPUTE_KERNEL_SCATTER, space, &map);
  compute_index_attributes *index = draft_attributes(d, sizeof *index);
  index->axis_size = whole.size[axis];
  index->from_zero = n->attributes.from_zero;
  int64_t strides[COMPUTE_MAX_RANK];
  if (gather) {
    const layout *lay = &l->f->layouts[n->inputs[0]];
    memcpy(strides, lay->stride, sizeof strides);
    d->descriptor.input_count = 1;
    d->inputs[0].dtype = x->dtype;
    d->input_node[0] = lay->base;
    d->input_offset[0] = lay->offset;
  } else {
    shape_dense_strides(whole, strides);
    draft_input(l, d, n->inputs[0], space, &map);
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

/* Part `part` of a concat, or the written range of an embed. */
static void draft_placement(const lowering *l, const cluster *c, uint32_t input, int64_t start,
                            int64_t step, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root], *x = &l->r->nodes[n->inputs[input]];
  dimension_map map = draft_identity(x->shape.rank);
  draft_begin(d, COMPUTE_KERNEL_COPY, x->shape, &map);
  draft_input(l, d, n->inputs[input], x->shape, &map);
  draft_output(l, d, c->root, &map);
  int32_t axis = n->attributes.axis;
  d->output_offset[0] = start * d->outputs[0].stride[axis];
  d->outputs[0].stride[axis] *= step;
  d->operations = input == 0 ? n->folded : 0;
}

void draft_copy(const lowering *l, uint32_t node, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[node];
  dimension_map map = draft_identity(n->shape.rank);
  draft_begin(d, COMPUTE_KERNEL_COPY, n->shape, &map);
  draft_input(l, d, node, n->shape, &map);
  draft_output(l, d, node, &map);
  finish(d);
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
  finish(d);
}

/* A reshape that strides cannot express: the operand's elements in row-major order. */
static void draft_reshape(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root], *x = &l->r->nodes[n->inputs[0]];
  dimension_map map = draft_identity(x->shape.rank);
  draft_begin(d, COMPUTE_KERNEL_COPY, x->shape, &map);
  draft_input(l, d, n->inputs[0], x->shape, &map);
  int64_t strides[COMPUTE_MAX_RANK];
  shape_dense_strides(x->shape, strides);
  d->descriptor.output_count = 1;
  d->outputs[0].dtype = n->dtype;
  draft_spread(&map, strides, d->outputs[0].stride);
  d->output_node[0] = c->root;
  d->output_offset[0] = 0;
  d->operations = n->folded;
}

/* A lone cast converts straight from one storage dtype to the other. */
static void draft_cast(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  dimension_map map = draft_identity(n->shape.rank);
  draft_begin(d, COMPUTE_KERNEL_COPY, n->shape, &map);
  draft_input(l, d, n->inputs[0], n->shape, &map);
  draft_output(l, d, c->root, &map);
  d->operations = n->folded;
}

static bool draft_join(const lowering *l, const cluster *c, uint32_t part, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  if (n->op == OP_concat) {
    if (part >= n->input_count) return false;
    if (part == 0) d->joined = 0;
    draft_placement(l, c, part, d->joined, 1, d);
    d->joined += l->r->nodes[n->inputs[part]].shape.size[n->attributes.axis];
    return true;
  }
  if (part > 1) return false;
  if (part == 0)
    draft_fill(l, c->root, 0, d);
  else
    draft_placement(l, c, 0, n->attributes.start, n->attributes.step, d);
  return true;
}

static bool draft_multiple(const lowering *l, const cluster *c, uint32_t part, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root];
  if (ir_category(n) == CATEGORY_JOIN) return draft_join(l, c, part, d);
  bool scatter = n->op == OP_scatter_add || n->op == OP_scatter_add_elements;
  if (part > (scatter ? 1u : 0u)) return false;
  if (scatter && part == 0)
    draft_fill(l, c->root, 0, d);
  else
    draft_indexed(l, c, d);
  return true;
}

/* An input of a fit, whose dimensions are its own. Axes that it lacks in front (a map for all ROIs)
 * and those of size 1 where the fit has more repeat. */
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

/* One dimension, the ROIs; maps and pixels have two more, other inputs one. */
static void draft_fit(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[c->root], *pixels = &l->r->nodes[n->inputs[0]];
  const compute_fit_problem *p = n->constant;
  const uint32_t maps = COMPUTE_FIT_WITH_OFFSET | COMPUTE_FIT_WITH_GAIN |
                        COMPUTE_FIT_WITH_VARIANCE | COMPUTE_FIT_WITH_MASK;
  const bool corners = (p->inputs & COMPUTE_FIT_WITH_CORNERS) != 0;
  const bool stack = !corners || (p->flags & COMPUTE_FIT_STACK) != 0;
  const int64_t rois = n->shape.size[0];
  const ir_node *whole = pixels; /* what has the size of the frames */
  dimension_map map = {.rank = 1};
  draft_begin(d, COMPUTE_KERNEL_FIT, n->shape, &map);
  add_fit_input(l, d, n->inputs[0], 3, stack ? rois : 0);
  for (uint32_t i = 1, bit = 0; i < n->input_count; bit++) {
    if ((p->inputs >> bit & 1) == 0) continue;
    const bool is_map = (maps >> bit & 1) != 0;
    if (is_map && stack) whole = &l->r->nodes[n->inputs[i]];
    add_fit_input(l, d, n->inputs[i++], is_map ? 3 : 2, rois);
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

static void draft_single(const lowering *l, const cluster *c, kernel_draft *d) {
  uint32_t *value = l->values;
  const ir_node *root = &l->r->nodes[c->root];
  forget_loads(l, c, value);
  if (c->anchor == IR_NONE) {
    if (root->op == OP_find_spots)
      draft_spots(l, c, d);
    else if (ir_category(root) == CATEGORY_FIT)
      draft_fit(l, c, d);
    else if (root->op == OP_cumulative_sum)
      draft_scan(l, c, d);
    else if (root->op == OP_top_k)
      draft_top_k(l, c, d);
    else if (root->op == OP_scaled_attention)
      draft_attention(l, c, d);
    else if (ir_category(root) == CATEGORY_VIEW)
      draft_reshape(l, c, d);
    else if (root->op == OP_cast && c->member_count == 1 &&
             !fuse_is_immediate(&l->r->nodes[root->inputs[0]]))
      draft_cast(l, c, d);
    else
      draft_map(l, c, value, d);
    return;
  }
  switch (ir_category(&l->r->nodes[c->anchor])) {
  case CATEGORY_MATMUL: draft_gemm(l, c, value, d); break;
  case CATEGORY_ROW: draft_row(l, c, value, d); break;
  case CATEGORY_CONVOLUTION: draft_convolution(l, c, value, d); break;
  case CATEGORY_WINDOW: draft_window(l, c, value, d); break;
  default: draft_reduce(l, c, value, d); break;
  }
}

bool draft_cluster(const lowering *l, uint32_t index, uint32_t part, kernel_draft *d) {
  const cluster *c = &l->f->clusters[index];
  graph_category category = ir_category(&l->r->nodes[c->root]);
  if (category == CATEGORY_JOIN || category == CATEGORY_INDEXED) {
    if (!draft_multiple(l, c, part, d)) return false;
  } else {
    if (part > 0) return false;
    draft_single(l, c, d);
  }
  finish(d);
  return true;
}
