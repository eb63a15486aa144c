/* SPDX-License-Identifier: MIT */
/* Kernels with programs: elementwise kernels, and operations that absorb elementwise nodes before
 * them (prologue) or after them (epilogue).
 *
 * The row in ops.def determines a member's instruction. Sources, casts and the few operations with
 * attributes have separate functions. */
#include <string.h>

#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "plan/compile/rules/draft.h"

/* A program under construction and the position of its operands. */
typedef struct program_site {
  program_builder *builder;
  kernel_draft *draft;  /* external operands are added to its inputs, without strides */
  uint32_t reserved;    /* inputs of the program before those (the reduced value) */
  uint32_t first_input; /* the kernel's input that is the program's input `reserved` */
} program_site;

static compute_dtype value_type(compute_dtype dtype) {
  return dtype == COMPUTE_BOOL ? COMPUTE_BOOL : dtype_compute_type(dtype);
}

static bool type_is_integer(compute_dtype type) {
  return type == COMPUTE_I32 || type == COMPUTE_I64 || type == COMPUTE_BOOL;
}

static uint16_t emit_immediate(program_builder *b, const ir_node *n) {
  compute_dtype type = value_type(n->dtype);
  if (type_is_integer(type))
    return program_constant_integer(b, type, dtype_load_integer(n->dtype, n->constant));
  return program_constant(b, type, dtype_load(n->dtype, n->constant));
}

/* Returns the value of one operand. An external operand becomes a load or a constant. */
static uint16_t emit_operand(const lowering *l, const program_site *at, uint32_t node) {
  const ir_node *n = &l->r->nodes[node];
  if (l->values[node] == IR_NONE && fuse_is_immediate(n)) {
    l->values[node] = emit_immediate(at->builder, n);
  } else if (l->values[node] == IR_NONE) {
    uint32_t input = at->draft->descriptor.input_count++;
    at->draft->inputs[input].dtype = n->dtype;
    at->draft->input_node[input] = node;
    l->values[node] =
        program_load(at->builder, value_type(n->dtype), input - at->first_input + at->reserved);
  }
  return (uint16_t)l->values[node];
}

static uint16_t emit_index(program_builder *b, const ir_node *n) {
  compute_instruction i = {.code = COMPUTE_I_COORDINATE, .type = COMPUTE_I64};
  i.immediate.i64 = n->attributes.axis;
  uint16_t position = program_instruction(b, i);
  compute_dtype type = value_type(n->dtype);
  return type == COMPUTE_I64 ? position : program_apply(b, COMPUTE_I_CAST, type, position, 0, 0);
}

static uint16_t emit_random(program_builder *b, const ir_node *n, uint16_t seed) {
  compute_instruction position = {.code = COMPUTE_I_POSITION, .type = COMPUTE_I64};
  compute_instruction random = {.code = COMPUTE_I_RANDOM,
                                .type = (uint8_t)value_type(n->dtype),
                                .a = seed,
                                .b = program_instruction(b, position)};
  random.immediate.i64 = n->attributes.stream;
  uint16_t value = program_instruction(b, random);
  if (!dtype_is_half(n->dtype)) return value;
  /* Rounding to these dtypes would change the largest f32 below 1 to 1. */
  double most = n->dtype == COMPUTE_F16 ? 1 - 0x1p-11 : 1 - 0x1p-8;
  return program_apply(b, COMPUTE_I_MIN, COMPUTE_F32, value, program_constant(b, COMPUTE_F32, most),
                       0);
}

/* The store converts to narrow dtypes. Inside a program only the compute type changes, and
 * emit_seen rounds where necessary. */
static uint16_t emit_cast(program_builder *b, const ir_node *n, const ir_node *x,
                          uint16_t operand) {
  if (dtype_casts_in_store(x->dtype, n->dtype)) return operand;
  if (dtype_is_half(n->dtype) && x->dtype != COMPUTE_BOOL) return operand;
  compute_dtype type = value_type(n->dtype);
  return type == value_type(x->dtype) ? operand
                                      : program_apply(b, COMPUTE_I_CAST, type, operand, 0, 0);
}

/* ---- 16-bit floats --------------------------------------------------------------------------- */

/* If a dtype can hold the operand of these instructions, it can hold the result. A missing entry
 * costs a redundant rounding. */
static const bool maps_to_itself[COMPUTE_I_END] = {
    [COMPUTE_I_NEG] = true,   [COMPUTE_I_ABS] = true,  [COMPUTE_I_RELU] = true,
    [COMPUTE_I_FLOOR] = true, [COMPUTE_I_CEIL] = true, [COMPUTE_I_ROUND] = true,
    [COMPUTE_I_TRUNC] = true,
};

static bool constant_fits(compute_dtype dtype, double value) {
  unsigned char element[8];
  dtype_store(dtype, element, value);
  return dtype_load(dtype, element) == value;
}

/* True if a value is known to be representable in `dtype`. */
static bool is_rounded(const program_site *at, uint16_t value, compute_dtype dtype) {
  const compute_instruction_code rounding =
      dtype == COMPUTE_F16 ? COMPUTE_I_ROUND_F16 : COMPUTE_I_ROUND_BF16;
  for (;;) {
    const compute_instruction *i = &at->builder->instruction[value];
    if (i->code == rounding || i->code == COMPUTE_I_SIGN) return true;
    if (i->code == COMPUTE_I_LOAD)
      return i->immediate.i64 >= at->reserved &&
             at->draft->inputs[i->immediate.i64 - at->reserved + at->first_input].dtype == dtype;
    if (i->code == COMPUTE_I_CONSTANT) return constant_fits(dtype, i->immediate.f64);
    if (i->code == COMPUTE_I_CAST) return at->builder->instruction[i->a].type == COMPUTE_BOOL;
    if (!maps_to_itself[i->code]) return false;
    value = i->a;
  }
}

static bool is_discontinuous(const ir_node *n) {
  return n->op == OP_cast || n->op == OP_argmax || n->op == OP_argmin ||
         program_code_jumps((compute_instruction_code)graph_op_describe(n->op)->instruction);
}

/* Returns the value of `node` for its consumer `by`. f16 and bf16 are computed in f32, and
 * arithmetic uses the unrounded register. Discontinuous consumers (a comparison, a cast, argmax)
 * read the value rounded to the node's dtype, and so does every consumer of a cast to it. */
static uint16_t emit_seen(const lowering *l, const program_site *at, const ir_node *by,
                          uint32_t node) {
  const ir_node *n = &l->r->nodes[node];
  const uint16_t value = emit_operand(l, at, node);
  if (!dtype_is_half(n->dtype)) return value;
  if (n->op != OP_cast && !is_discontinuous(by)) return value;
  if (is_rounded(at, value, n->dtype)) return value;
  return program_apply(at->builder,
                       n->dtype == COMPUTE_F16 ? COMPUTE_I_ROUND_F16 : COMPUTE_I_ROUND_BF16,
                       COMPUTE_F32, value, 0, 0);
}

static uint16_t emit_member(const ir_node *n, const ir_node *x, program_builder *b,
                            const uint16_t *operand) {
  if (n->op == OP_index) return emit_index(b, n);
  if (n->op == OP_random_uniform) return emit_random(b, n, operand[0]);
  if (n->op == OP_cast) return emit_cast(b, n, x, operand[0]);
  const graph_op_info *info = graph_op_describe(n->op);
  compute_instruction i = {.code = n->op == OP_random_draw ? n->attributes.distribution
                                                           : info->instruction,
                           .type = (uint8_t)value_type(n->dtype),
                           .a = operand[0],
                           .b = operand[1],
                           .c = operand[2]};
  if (info->has_scalar) i.immediate.f64 = n->attributes.scalar;
  return program_instruction(b, i);
}

/* Emits the cluster's members of one part. */
static void emit_part(const lowering *l, const cluster *c, cluster_part part,
                      const program_site *at) {
  for (uint32_t m = 0; m < c->member_count; m++) {
    uint32_t node = c->members[m];
    const ir_node *n = &l->r->nodes[node];
    if (l->f->part[node] != part) continue;
    uint16_t operand[3] = {0};
    for (uint32_t k = 0; k < n->input_count; k++) operand[k] = emit_seen(l, at, n, n->inputs[k]);
    l->values[node] =
        emit_member(n, n->input_count ? &l->r->nodes[n->inputs[0]] : NULL, at->builder, operand);
    at->draft->operations += n->folded;
  }
}

/* ---- Prologue and epilogue ------------------------------------------------------------------- */

/* Loads the anchor's value into the epilogue. For a mean, divides the sum by the count. */
static uint16_t emit_anchor(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *a = &l->r->nodes[c->anchor];
  bool position = a->op == OP_argmax || a->op == OP_argmin || a->op == OP_argmax_pool2d;
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

/* Resets only the nodes that this cluster's programs can have set. A visit of every node for each
 * kernel would make long plans slow to compile. */
static void forget_loads(const lowering *l, const cluster *c) {
  uint32_t *value = l->values;
  for (uint32_t m = 0; m < c->member_count; m++) {
    const ir_node *n = &l->r->nodes[c->members[m]];
    value[c->members[m]] = IR_NONE;
    for (uint32_t k = 0; k < n->input_count; k++) value[n->inputs[k]] = IR_NONE;
  }
}

/* Drafts body members, external operands and stored values over the shape of the root. */
static void draft_body(const lowering *l, const cluster *c, kernel_draft *d, uint32_t first_input,
                       uint32_t reserved, const dimension_map *map) {
  const ir_node *root = &l->r->nodes[c->root];
  bool bare = c->anchor == c->root && l->r->nodes[c->root].op != OP_mean;
  uint32_t before = d->descriptor.input_count;
  forget_loads(l, c); /* also the prologue's: the two programs share no values */
  if (!bare) {
    if (c->anchor != IR_NONE) l->values[c->anchor] = emit_anchor(l, c, d);
    emit_part(
        l, c, PART_BODY,
        &(program_site){
            .builder = &d->epilogue, .draft = d, .reserved = reserved, .first_input = first_input});
  }
  for (uint32_t i = before; i < d->descriptor.input_count; i++)
    draft_place(l, d, i, d->input_node[i], root->shape, map);
  for (uint32_t m = 0; m < c->member_count; m++) {
    if (!l->f->stored[c->members[m]]) continue;
    draft_output(l, d, c->members[m], map);
    if (!bare) program_store(&d->epilogue, (uint16_t)l->values[c->members[m]]);
  }
  if (c->anchor != IR_NONE) d->operations += l->r->nodes[c->anchor].folded;
}

/* Drafts the elements that an anchor reduces: the prologue's result, or the anchor's operand. */
static void emit_prologue(const lowering *l, const cluster *c, kernel_draft *d,
                          const dimension_map *map) {
  const ir_node *anchor = &l->r->nodes[c->anchor];
  uint32_t operand = anchor->inputs[0];
  compute_shape shape = l->r->nodes[operand].shape;
  const program_site prologue = {.builder = &d->prologue, .draft = d};
  forget_loads(l, c);
  emit_part(l, c, PART_PROLOGUE, &prologue);
  if (d->prologue.count == 0) {
    draft_input(l, d, operand, shape, map);
  } else {
    program_store(&d->prologue, emit_seen(l, &prologue, anchor, operand));
    for (uint32_t i = 0; i < d->descriptor.input_count; i++)
      draft_place(l, d, i, d->input_node[i], shape, map);
  }
  d->descriptor.prologue_inputs = d->descriptor.input_count;
  d->descriptor.accumulate = dtype_compute_type(l->r->nodes[operand].dtype);
}

/* ---- Elementwise ----------------------------------------------------------------------------- */

/* A cast alone in its kernel converts directly from one storage dtype to the other. */
static bool is_lone_cast(const lowering *l, const cluster *c) {
  const ir_node *root = &l->r->nodes[c->root];
  return root->op == OP_cast && c->member_count == 1 &&
         !fuse_is_immediate(&l->r->nodes[root->inputs[0]]);
}

static void draft_map(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *root = &l->r->nodes[c->root];
  const dimension_map map = draft_identity(root->shape.rank);
  if (is_lone_cast(l, c)) {
    draft_begin(d, COMPUTE_KERNEL_COPY, root->shape, &map);
    draft_input(l, d, root->inputs[0], root->shape, &map);
    draft_output(l, d, c->root, &map);
    d->operations = root->folded;
    return;
  }
  draft_begin(d, COMPUTE_KERNEL_MAP, root->shape, &map);
  draft_body(l, c, d, 0, 0, &map);
}

const plan_rule rule_map = {
    .draft = draft_map, .is_element = true, .assigns = true, .in_place = true, .any_layout = true};

/* ---- Reductions and rows --------------------------------------------------------------------- */

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

static void draft_reduce(const lowering *l, const cluster *c, kernel_draft *d) {
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
  emit_prologue(l, c, d, &source);
  draft_body(l, c, d, d->descriptor.prologue_inputs, 1, &result);
}

const plan_rule rule_reduce = {.draft = draft_reduce,
                               .is_anchor = true,
                               .has_prologue = true,
                               .assigns = true,
                               .in_place = true};

static void draft_row(const lowering *l, const cluster *c, kernel_draft *d) {
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
  emit_prologue(l, c, d, &map);
  draft_body(l, c, d, d->descriptor.prologue_inputs, 1, &map);
}

const plan_rule rule_row = {
    .draft = draft_row, .is_anchor = true, .has_prologue = true, .assigns = true};

/* ---- Matrix products ------------------------------------------------------------------------- */

/* Adds a matrix operand: the batch axes align to the right and broadcast, the last two are the
 * matrix. */
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

/* Removes batch dimension `batch` from every operand; later dimensions move up. */
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

/* True if the innermost batch dimension only adds rows: B (inputs 1 … own − 1) repeats, and every
 * other operand continues from row to row. */
static bool batch_is_rows(const kernel_draft *d, uint32_t own, int32_t batch) {
  const compute_kernel_descriptor *k = &d->descriptor;
  int64_t rows = k->size[batch + 1];
  for (uint32_t i = 0; i < k->input_count; i++)
    if (i >= 1 && i < own ? d->inputs[i].stride[batch] != 0
                          : !rows_continue(&d->inputs[i], batch, rows))
      return false;
  for (uint32_t i = 0; i < k->output_count; i++)
    if (!rows_continue(&d->outputs[i], batch, rows)) return false;
  return true;
}

/* Drops batch dimensions of size 1, and converts those that only add rows to rows. */
static void merge_batches(kernel_draft *d, uint32_t own) {
  compute_kernel_descriptor *k = &d->descriptor;
  for (int32_t batch = k->rank - 3; batch >= 0; batch--)
    if (k->size[batch] == 1) drop_dimension(d, batch);
  while (k->rank > 2 && batch_is_rows(d, own, k->rank - 3)) {
    k->size[k->rank - 2] *= k->size[k->rank - 3];
    drop_dimension(d, k->rank - 3);
  }
}

/* The plan's allowances for sums of a type; `floats` are the kind's own for F32. */
static compute_precision allowed_precision(const lowering *l, compute_dtype accumulate,
                                           compute_precision floats) {
  return accumulate == COMPUTE_F32   ? l->precision & floats
         : accumulate == COMPUTE_I32 ? l->precision & COMPUTE_PRECISION_SATURATE
                                     : COMPUTE_PRECISION_STRICT;
}

static void draft_gemm(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *anchor = &l->r->nodes[c->anchor];
  const ir_node *a = &l->r->nodes[anchor->inputs[0]];
  dimension_map map = draft_identity(anchor->shape.rank);
  draft_begin(d, COMPUTE_KERNEL_GEMM, anchor->shape, &map);
  d->descriptor.accumulate = dtype_compute_type(a->dtype);
  compute_gemm_attributes *product = draft_attributes(d, sizeof *product);
  product->precision = allowed_precision(l, d->descriptor.accumulate, COMPUTE_PRECISION_TF32);
  if (l->demands) product->precision |= COMPUTE_PRECISION_REPRODUCIBLE;
  product->k = a->shape.size[a->shape.rank - 1];
  add_matrix(l, d, anchor->inputs[0], map.rank);
  add_matrix(l, d, anchor->inputs[1], map.rank);
  draft_body(l, c, d, 2, 1, &map);
  merge_batches(d, 2);
}

const plan_rule rule_gemm = {
    .draft = draft_gemm, .is_anchor = true, .assigns = true, .in_place = true};

static void draft_quantized_gemm(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *anchor = &l->r->nodes[c->anchor];
  const dimension_map map = draft_identity(anchor->shape.rank);
  draft_begin(d, COMPUTE_KERNEL_QUANTIZED_GEMM, anchor->shape, &map);
  d->descriptor.accumulate = dtype_compute_type(l->r->nodes[anchor->inputs[0]].dtype);
  compute_quantized_gemm_attributes *product = draft_attributes(d, sizeof *product);
  memcpy(product, anchor->constant, sizeof *product);
  product->reproducible = l->demands != 0;
  for (uint32_t i = 0; i < anchor->input_count; i++) add_matrix(l, d, anchor->inputs[i], map.rank);
  draft_body(l, c, d, anchor->input_count, 1, &map);
  merge_batches(d, anchor->input_count);
}

/* Asks with dense operands: a device that refuses these has no such kernels. */
static bool has_quantized_kernel(const compute_device *device, const compute_graph *graph,
                                 const graph_node *node) {
  const compute_quantized_gemm_attributes *a = node->constant;
  const int32_t rank = node->shape.rank;
  compute_operand in[4] = {0}, out = {.dtype = node->dtype};
  compute_kernel_descriptor d = {.struct_size = sizeof d,
                                 .kind = COMPUTE_KERNEL_QUANTIZED_GEMM,
                                 .rank = rank,
                                 .input_count = node->input_count - 1,
                                 .output_count = 1,
                                 .inputs = in,
                                 .outputs = &out,
                                 .accumulate = dtype_compute_type(node->dtype),
                                 .attributes = a,
                                 .attribute_bytes = sizeof *a};
  char reason[256];
  memcpy(d.size, node->shape.size, sizeof(int64_t) * (size_t)rank);
  shape_dense_strides(node->shape, out.stride);
  for (uint32_t i = 0; i < d.input_count; i++) {
    const graph_node *x = &graph->nodes[node->inputs[i]];
    int64_t strides[COMPUTE_MAX_RANK] = {0};
    shape_dense_strides(x->shape, strides);
    in[i].dtype = x->dtype;
    memcpy(&in[i].stride[rank - x->shape.rank], strides, sizeof *strides * (size_t)x->shape.rank);
  }
  return kernel_is_supported(device, &d, reason, sizeof reason);
}

const plan_rule rule_quantized_gemm = {.draft = draft_quantized_gemm,
                                       .is_anchor = true,
                                       .assigns = true,
                                       .has_kernel = has_quantized_kernel};

/* ---- Convolution and pooling ----------------------------------------------------------------- */

static void draft_conv(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *anchor = &l->r->nodes[c->anchor];
  const dimension_map map = draft_identity(anchor->shape.rank);
  draft_begin(d, COMPUTE_KERNEL_CONV, anchor->shape, &map);
  d->descriptor.accumulate = dtype_compute_type(anchor->dtype);
  compute_conv_attributes *a = draft_attributes(d, sizeof *a);
  memcpy(a, anchor->constant, sizeof *a);
  a->precision = allowed_precision(l, d->descriptor.accumulate,
                                   COMPUTE_PRECISION_TF32 | COMPUTE_PRECISION_WINOGRAD);
  draft_own_input(l, d, anchor->inputs[0], 4, 0);
  draft_own_input(l, d, anchor->inputs[1], 4, 0);
  draft_body(l, c, d, 2, 1, &map);
}

const plan_rule rule_conv = {
    .draft = draft_conv, .is_anchor = true, .assigns = true, .in_place = true, .any_layout = true};

static void draft_window(const lowering *l, const cluster *c, kernel_draft *d) {
  const ir_node *anchor = &l->r->nodes[c->anchor];
  const dimension_map map = draft_identity(anchor->shape.rank);
  draft_begin(d, COMPUTE_KERNEL_WINDOW, anchor->shape, &map);
  d->descriptor.accumulate = dtype_compute_type(l->r->nodes[anchor->inputs[0]].dtype);
  memcpy(draft_attributes(d, sizeof(compute_window_attributes)), anchor->constant,
         sizeof(compute_window_attributes));
  for (uint32_t i = 0; i < anchor->input_count; i++) draft_own_input(l, d, anchor->inputs[i], 4, 0);
  draft_body(l, c, d, anchor->input_count, 1, &map);
}

const plan_rule rule_window = {
    .draft = draft_window, .is_anchor = true, .assigns = true, .any_layout = true};
