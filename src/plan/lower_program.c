/* A member's instruction follows from its row in ops.def; sources, casts and the few operations
 * with attributes are spelled out. */
#include "plan/lower_program.h"

#include "tensor/dtype.h"
#include "tensor/shape.h"

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

uint32_t emit_operand(const lowering *l, program_builder *b, uint32_t *value, kernel_draft *draft,
                      uint32_t first_input, uint32_t reserved, uint32_t node) {
  const ir_node *n = &l->r->nodes[node];
  if (value[node] != IR_NONE) return value[node];
  if (fuse_is_immediate(n)) return value[node] = emit_immediate(b, n);
  uint32_t input = draft->descriptor.input_count++;
  draft->inputs[input].dtype = n->dtype;
  draft->input_node[input] = node;
  return value[node] = program_load(b, value_type(n->dtype), input - first_input + reserved);
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
  if (n->dtype != COMPUTE_F16 && n->dtype != COMPUTE_BF16) return value;
  /* Rounded to these dtypes, the largest f32 below 1 would become 1. */
  double most = n->dtype == COMPUTE_F16 ? 1 - 0x1p-11 : 1 - 0x1p-8;
  return program_apply(b, COMPUTE_I_MIN, COMPUTE_F32, value, program_constant(b, COMPUTE_F32, most),
                       0);
}

/* The store converts to the narrow dtypes; inside a program only the computing type changes. */
static uint16_t emit_cast(program_builder *b, const ir_node *n, const ir_node *x,
                          uint16_t operand) {
  if (n->dtype == COMPUTE_F16 || n->dtype == COMPUTE_BF16 || n->dtype == COMPUTE_U8 ||
      n->dtype == COMPUTE_U16)
    return operand;
  compute_dtype type = value_type(n->dtype);
  return type == value_type(x->dtype) ? operand
                                      : program_apply(b, COMPUTE_I_CAST, type, operand, 0, 0);
}

static uint16_t emit_member(const ir_node *n, const ir_node *x, program_builder *b,
                            const uint16_t *operand) {
  if (n->op == OP_index) return emit_index(b, n);
  if (n->op == OP_random_uniform) return emit_random(b, n, operand[0]);
  if (n->op == OP_cast) return emit_cast(b, n, x, operand[0]);
  const graph_op_info *info = graph_op_describe(n->op);
  compute_instruction i = {.code = info->instruction,
                           .type = (uint8_t)value_type(n->dtype),
                           .a = operand[0],
                           .b = operand[1],
                           .c = operand[2]};
  if (info->has_scalar) i.immediate.f64 = n->attributes.scalar;
  return program_instruction(b, i);
}

void emit_part(const lowering *l, const cluster *c, cluster_part part, program_builder *b,
               uint32_t *value, kernel_draft *draft, uint32_t first_input, uint32_t reserved) {
  for (uint32_t m = 0; m < c->member_count; m++) {
    uint32_t node = c->members[m];
    const ir_node *n = &l->r->nodes[node];
    if (l->f->part[node] != part) continue;
    uint16_t operand[3] = {0};
    for (uint32_t k = 0; k < n->input_count; k++)
      operand[k] = (uint16_t)emit_operand(l, b, value, draft, first_input, reserved, n->inputs[k]);
    value[node] = emit_member(n, n->input_count ? &l->r->nodes[n->inputs[0]] : NULL, b, operand);
    draft->operations += n->folded;
  }
}
