/* A member's instruction follows from its row in ops.def; sources, casts and the few operations
 * with attributes are spelled out. */
#include "plan/lower/emit.h"

#include "type/dtype.h"
#include "type/shape.h"

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

/* The value of one operand; adds a load or a constant for one from outside. */
static uint16_t emit_operand(const lowering *l, const program_site *at, uint32_t node) {
  const ir_node *n = &l->r->nodes[node];
  if (at->value[node] == IR_NONE && fuse_is_immediate(n)) {
    at->value[node] = emit_immediate(at->builder, n);
  } else if (at->value[node] == IR_NONE) {
    uint32_t input = at->draft->descriptor.input_count++;
    at->draft->inputs[input].dtype = n->dtype;
    at->draft->input_node[input] = node;
    at->value[node] =
        program_load(at->builder, value_type(n->dtype), input - at->first_input + at->reserved);
  }
  return (uint16_t)at->value[node];
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
  /* Rounded to these dtypes, the largest f32 below 1 would become 1. */
  double most = n->dtype == COMPUTE_F16 ? 1 - 0x1p-11 : 1 - 0x1p-8;
  return program_apply(b, COMPUTE_I_MIN, COMPUTE_F32, value, program_constant(b, COMPUTE_F32, most),
                       0);
}

/* The store converts to the narrow dtypes; inside a program only the computing type changes, and
 * emit_seen rounds where that shows. */
static uint16_t emit_cast(program_builder *b, const ir_node *n, const ir_node *x,
                          uint16_t operand) {
  if (n->dtype == COMPUTE_U8 || n->dtype == COMPUTE_U16) return operand;
  if (dtype_is_half(n->dtype) && x->dtype != COMPUTE_BOOL) return operand;
  compute_dtype type = value_type(n->dtype);
  return type == value_type(x->dtype) ? operand
                                      : program_apply(b, COMPUTE_I_CAST, type, operand, 0, 0);
}

/* ---- 16-bit floats ------------------------------------------------------------------------- */

/* Whether a value is known to be one that `dtype` can hold. */
static bool is_rounded(const program_site *at, uint16_t value, compute_dtype dtype) {
  const compute_instruction_code rounding =
      dtype == COMPUTE_F16 ? COMPUTE_I_ROUND_F16 : COMPUTE_I_ROUND_BF16;
  for (;;) {
    const compute_instruction *i = &at->builder->instruction[value];
    if (i->code == rounding || i->code == COMPUTE_I_SIGN) return true;
    switch (i->code) {
    case COMPUTE_I_LOAD:
      return i->immediate.i64 >= at->reserved &&
             at->draft->inputs[i->immediate.i64 - at->reserved + at->first_input].dtype == dtype;
    case COMPUTE_I_CONSTANT: {
      unsigned char element[8];
      dtype_store(dtype, element, i->immediate.f64);
      return dtype_load(dtype, element) == i->immediate.f64;
    }
    case COMPUTE_I_CAST: return at->builder->instruction[i->a].type == COMPUTE_BOOL;
    case COMPUTE_I_NEG:
    case COMPUTE_I_ABS:
    case COMPUTE_I_RELU:
    case COMPUTE_I_FLOOR:
    case COMPUTE_I_CEIL:
    case COMPUTE_I_ROUND:
    case COMPUTE_I_TRUNC: value = i->a; break; /* representable if the operand is */
    default: return false;
    }
  }
}

static bool is_discontinuous(const ir_node *n) {
  return n->op == OP_cast || n->op == OP_argmax || n->op == OP_argmin ||
         program_code_jumps((compute_instruction_code)graph_op_describe(n->op)->instruction);
}

uint16_t emit_seen(const lowering *l, const program_site *at, const ir_node *by, uint32_t node) {
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
  compute_instruction i = {.code = info->instruction,
                           .type = (uint8_t)value_type(n->dtype),
                           .a = operand[0],
                           .b = operand[1],
                           .c = operand[2]};
  if (info->has_scalar) i.immediate.f64 = n->attributes.scalar;
  return program_instruction(b, i);
}

void emit_part(const lowering *l, const cluster *c, cluster_part part, const program_site *at) {
  for (uint32_t m = 0; m < c->member_count; m++) {
    uint32_t node = c->members[m];
    const ir_node *n = &l->r->nodes[node];
    if (l->f->part[node] != part) continue;
    uint16_t operand[3] = {0};
    for (uint32_t k = 0; k < n->input_count; k++) operand[k] = emit_seen(l, at, n, n->inputs[k]);
    at->value[node] =
        emit_member(n, n->input_count ? &l->r->nodes[n->inputs[0]] : NULL, at->builder, operand);
    at->draft->operations += n->folded;
  }
}
