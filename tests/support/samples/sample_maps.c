/* SPDX-License-Identifier: MIT */
/* Samples of MAP and COPY. */
#include "support/samples/sample_kernels.h"
#include "support/reference/program_reference.h"

#include <stdio.h>
#include <string.h>

static const compute_dtype all_dtypes[] = {
    COMPUTE_F64,  COMPUTE_F32, COMPUTE_F16, COMPUTE_BF16, COMPUTE_I64, COMPUTE_I32, COMPUTE_U8,
    COMPUTE_BOOL, COMPUTE_U16, COMPUTE_I8,  COMPUTE_I16,  COMPUTE_U32, COMPUTE_U64};
static const compute_dtype numbers[] = {COMPUTE_F64, COMPUTE_F32, COMPUTE_I64, COMPUTE_I32};

enum { ALL = 255 };

/* ---- Instructions -------------------------------------------------------------------------- */

static const compute_instruction_code on_number[] = {
    COMPUTE_I_NEG, COMPUTE_I_ABS, COMPUTE_I_SIGN, COMPUTE_I_SQUARE, COMPUTE_I_RELU, COMPUTE_I_ADD,
    COMPUTE_I_SUB, COMPUTE_I_MUL, COMPUTE_I_DIV,  COMPUTE_I_MOD,    COMPUTE_I_MIN,  COMPUTE_I_MAX};
static const compute_instruction_code on_integer[] = {COMPUTE_I_BIT_NOT,    COMPUTE_I_BIT_AND,
                                                      COMPUTE_I_BIT_OR,     COMPUTE_I_BIT_XOR,
                                                      COMPUTE_I_SHIFT_LEFT, COMPUTE_I_SHIFT_RIGHT};
static const compute_instruction_code on_positive[] = {COMPUTE_I_SQRT,       COMPUTE_I_RSQRT,
                                                       COMPUTE_I_RECIPROCAL, COMPUTE_I_LOG,
                                                       COMPUTE_I_LOG1P,      COMPUTE_I_POW};
static const compute_instruction_code on_float[] = {
    COMPUTE_I_EXP,        COMPUTE_I_EXPM1,   COMPUTE_I_SIN,  COMPUTE_I_COS,   COMPUTE_I_TANH,
    COMPUTE_I_ATAN,       COMPUTE_I_TAN,     COMPUTE_I_SINH, COMPUTE_I_COSH,  COMPUTE_I_ASINH,
    COMPUTE_I_ERF,        COMPUTE_I_FLOOR,   COMPUTE_I_CEIL, COMPUTE_I_ROUND, COMPUTE_I_TRUNC,
    COMPUTE_I_SIGMOID,    COMPUTE_I_GELU,    COMPUTE_I_SILU, COMPUTE_I_ELU,   COMPUTE_I_GELU_TANH,
    COMPUTE_I_LEAKY_RELU, COMPUTE_I_SOFTPLUS};
static const compute_instruction_code on_unit[] = {COMPUTE_I_ASIN, COMPUTE_I_ACOS, COMPUTE_I_ATANH};
static const compute_instruction_code above_one[] = {COMPUTE_I_ACOSH};
static const compute_instruction_code on_single[] = {COMPUTE_I_ROUND_F16, COMPUTE_I_ROUND_BF16};
static const compute_instruction_code comparing[] = {COMPUTE_I_EQ, COMPUTE_I_NE, COMPUTE_I_LT,
                                                     COMPUTE_I_LE, COMPUTE_I_GT, COMPUTE_I_GE};

static void apply_to_inputs(sample_kernel *s, compute_instruction_code code, compute_dtype type,
                            compute_dtype result) {
  program_builder *b = &s->epilogue;
  const uint16_t x = program_load(b, type, 0), y = program_load(b, type, 1);
  const compute_instruction made = {.code = (uint8_t)code,
                                    .type = (uint8_t)result,
                                    .a = x,
                                    .b = y,
                                    .immediate.f64 = code == COMPUTE_I_LEAKY_RELU ? 0.1 : 0.7};
  program_store(b, program_instruction(b, made));
  sample_output(s, result, ALL);
}

static void sample_instructions(const char *name, const compute_instruction_code *codes,
                                size_t count, compute_dtype type, compute_dtype result, double low,
                                double high, sample_visitor visit, void *user) {
  sample_kernel s;
  sample_begin(&s, COMPUTE_KERNEL_MAP, COMPUTE_SHAPE(521), "map %s %s", name,
               compute_dtype_name(type));
  sample_input(&s, type, ALL);
  sample_input(&s, type, ALL);
  for (size_t i = 0; i < count; i++) apply_to_inputs(&s, codes[i], type, result);
  s.low = low;
  s.high = high;
  s.tolerance = (test_tolerance){16, type == COMPUTE_F32 ? 2e-7 : 2e-16, 0};
  sample_end(&s, visit, user);
}

/* Operations with BOOL operands, and operations that distinguish NaN. */
static void sample_logic(sample_visitor visit, void *user) {
  sample_kernel s;
  program_builder *b = &s.epilogue;
  sample_begin(&s, COMPUTE_KERNEL_MAP, COMPUTE_SHAPE(203), "map logic");
  sample_input(&s, COMPUTE_BOOL, ALL);
  sample_input(&s, COMPUTE_BOOL, ALL);
  sample_input(&s, COMPUTE_F32, ALL);
  const uint16_t p = program_load(b, COMPUTE_BOOL, 0), q = program_load(b, COMPUTE_BOOL, 1);
  const uint16_t x = program_load(b, COMPUTE_F32, 2);
  const uint16_t zero = program_constant(b, COMPUTE_F32, 0);
  const uint16_t ratio = program_apply(b, COMPUTE_I_DIV, COMPUTE_F32, x,
                                       program_apply(b, COMPUTE_I_FLOOR, COMPUTE_F32, x, 0, 0), 0);
  const uint16_t odd = program_apply(b, COMPUTE_I_MUL, COMPUTE_F32, ratio, zero, 0);
  static const compute_instruction_code codes[] = {COMPUTE_I_NOT, COMPUTE_I_AND, COMPUTE_I_OR,
                                                   COMPUTE_I_XOR, COMPUTE_I_EQ};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    program_store(b, program_apply(b, codes[i], COMPUTE_BOOL, p, q, 0));
    sample_output(&s, COMPUTE_BOOL, ALL);
  }
  program_store(b, program_apply(b, COMPUTE_I_IS_NAN, COMPUTE_BOOL, odd, 0, 0));
  program_store(b, program_apply(b, COMPUTE_I_IS_FINITE, COMPUTE_BOOL, ratio, 0, 0));
  program_store(b, program_apply(b, COMPUTE_I_SELECT, COMPUTE_BOOL, p, q, p));
  for (int i = 0; i < 3; i++) sample_output(&s, COMPUTE_BOOL, ALL);
  program_store(b, program_apply(b, COMPUTE_I_SELECT, COMPUTE_F32, p, x, odd));
  program_store(b, program_apply(b, COMPUTE_I_MIN, COMPUTE_F32, x, odd, 0));
  program_store(b, program_apply(b, COMPUTE_I_MAX, COMPUTE_F32, odd, x, 0));
  program_store(b, program_apply(b, COMPUTE_I_RELU, COMPUTE_F32, odd, 0, 0));
  program_store(b, program_apply(b, COMPUTE_I_SIGN, COMPUTE_F32, odd, 0, 0));
  for (int i = 0; i < 5; i++) sample_output(&s, COMPUTE_F32, ALL);
  sample_end(&s, visit, user);
}

/* Converts one input of each dtype to outputs of all dtypes. */
static void sample_casts(compute_dtype from, sample_visitor visit, void *user) {
  sample_kernel s;
  const bool f64[] = {false, true};
  const compute_dtype loaded = reference_type(from);
  for (int pass = 0; pass < 2; pass++) {
    sample_begin(&s, COMPUTE_KERNEL_MAP, COMPUTE_SHAPE(307), "map casts of %s%s",
                 compute_dtype_name(from), f64[pass] ? " to f64" : "");
    sample_input(&s, from, ALL);
    const uint16_t x = program_load(&s.epilogue, loaded, 0);
    for (size_t i = 0; i < sizeof all_dtypes / sizeof *all_dtypes; i++) {
      const compute_dtype to = all_dtypes[i];
      const compute_dtype type = reference_type(to);
      if ((to == COMPUTE_F64) != f64[pass]) continue;
      program_store(&s.epilogue, program_apply(&s.epilogue, COMPUTE_I_CAST, type, x, 0, 0));
      sample_output(&s, to, ALL);
    }
    s.low = -400;
    s.high = 400;
    sample_end(&s, visit, user);
  }
}

/* Positions, coordinates and random numbers: they depend on an element's place. */
static void sample_places(compute_dtype type, sample_visitor visit, void *user) {
  sample_kernel s;
  program_builder *b = &s.epilogue;
  sample_begin(&s, COMPUTE_KERNEL_MAP, COMPUTE_SHAPE(5, 1, 7, 3), "map places %s",
               compute_dtype_name(type));
  compute_operand *x = sample_input(&s, COMPUTE_I64, 1);
  x->stride[0] = 1;
  const uint16_t key = program_load(b, COMPUTE_I64, 0);
  uint16_t at = program_apply(b, COMPUTE_I_POSITION, COMPUTE_I64, 0, 0, 0);
  program_store(b, at);
  sample_output(&s, COMPUTE_I64, ALL);
  for (int64_t d = 0; d < 4; d++) {
    program_store(b, program_instruction(b, (compute_instruction){.code = COMPUTE_I_COORDINATE,
                                                                  .type = COMPUTE_I64,
                                                                  .immediate.i64 = d}));
    sample_output(&s, COMPUTE_I64, ALL);
  }
  program_store(b, program_instruction(b, (compute_instruction){.code = COMPUTE_I_RANDOM,
                                                                .type = (uint8_t)type,
                                                                .a = key,
                                                                .b = at,
                                                                .immediate.i64 = 3}));
  sample_output(&s, type, ALL);
  s.low = -1e9;
  s.high = 1e9;
  sample_end(&s, visit, user);
}

/* ---- Shapes and cuts ----------------------------------------------------------------------- */

/* out = x · y + z, with these operands. */
static void multiply_add(sample_kernel *s, compute_dtype dtype) {
  program_builder *b = &s->epilogue;
  const compute_dtype type = dtype == COMPUTE_F64 || dtype == COMPUTE_I32 ? dtype : COMPUTE_F32;
  const uint16_t x = program_load(b, type, 0), y = program_load(b, type, 1);
  const uint16_t xy = program_apply(b, COMPUTE_I_MUL, type, x, y, 0);
  program_store(b, program_apply(b, COMPUTE_I_ADD, type, xy, program_load(b, type, 2), 0));
  s->tolerance = (test_tolerance){2, 1e-6, 0};
}

typedef struct map_case {
  const char *name;
  compute_shape shape;
  uint32_t dimensions[4]; /* for x, y, z and the result */
  int change;             /* 1: transposed x; 2: gaps; 3: reversed x; 4: transposed result */
} map_case;

static const map_case map_cases[] = {
    {"scalar", {.rank = 0}, {ALL, ALL, ALL, ALL}, 0},
    {"one", {1, {1}}, {ALL, ALL, ALL, ALL}, 0},
    {"none", {2, {3, 0}}, {ALL, ALL, ALL, ALL}, 0},
    {"dense", {2, {64, 48}}, {ALL, ALL, ALL, ALL}, 0},
    {"prime", {1, {4099}}, {ALL, ALL, ALL, ALL}, 0},
    {"rows", {2, {37, 29}}, {ALL, 2, 1, ALL}, 0},
    {"constant", {2, {16, 64}}, {ALL, 0, 0, ALL}, 0},
    {"middle", {3, {5, 6, 7}}, {ALL, 5, 2, ALL}, 0},
    {"wide rows", {2, {6, 512}}, {ALL, 2, 1, ALL}, 0},
    {"transposed", {2, {33, 65}}, {ALL, ALL, ALL, ALL}, 1},
    {"gaps", {3, {4, 9, 11}}, {ALL, ALL, ALL, ALL}, 2},
    {"backwards", {2, {9, 40}}, {ALL, ALL, ALL, ALL}, 3},
    {"result transposed", {2, {40, 24}}, {ALL, ALL, ALL, ALL}, 4},
    {"rank 8", {8, {2, 3, 2, 1, 3, 2, 2, 5}}, {ALL, 0x55, 0xaa, ALL}, 0},
};

static void change_strides(sample_kernel *s, const map_case *c) {
  const compute_shape *shape = &c->shape;
  if (c->change == 1 || c->change == 4) {
    int64_t *stride = c->change == 1 ? s->inputs[0].stride : s->outputs[0].stride;
    stride[0] = 1;
    stride[1] = shape->size[0];
  }
  if (c->change == 2) {
    for (int32_t d = 0; d < shape->rank; d++) {
      s->inputs[0].stride[d] *= 2;
      s->inputs[1].stride[d] *= 3;
      s->outputs[0].stride[d] *= 2;
    }
  }
  if (c->change == 3) {
    s->inputs[0].stride[0] *= -1;
    s->inputs[0].stride[1] = -1;
    s->inputs[1].stride[1] = -1;
  }
}

static void add_cuts(sample_kernel *s) {
  static const uint32_t groups[] = {1, 7, 32, 64, 256};
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) sample_tuning(s)->group_x = groups[i];
  for (uint32_t vector = 1; vector <= 8; vector *= 2) sample_tuning(s)->vector = vector;
  *sample_tuning(s) = (compute_tuning){.items = 4, .vector = 4, .group_x = 64, .groups = 2};
}

static void sample_shapes(compute_dtype dtype, sample_visitor visit, void *user) {
  sample_kernel s;
  for (size_t i = 0; i < sizeof map_cases / sizeof *map_cases; i++) {
    const map_case *c = &map_cases[i];
    sample_begin(&s, COMPUTE_KERNEL_MAP, c->shape, "map %s %s", c->name, compute_dtype_name(dtype));
    for (int k = 0; k < 3; k++) sample_input(&s, dtype, c->dimensions[k]);
    sample_output(&s, dtype, c->dimensions[3]);
    change_strides(&s, c);
    multiply_add(&s, dtype);
    if (dtype == COMPUTE_F32 && (i == 4 || i == 5 || i == 9)) add_cuts(&s);
    sample_end(&s, visit, user);
  }
  sample_begin(&s, COMPUTE_KERNEL_MAP, COMPUTE_SHAPE(70000, 70001), "map large %s",
               compute_dtype_name(dtype));
  for (int k = 0; k < 3; k++) sample_input(&s, dtype, k == 1 ? 1 : ALL);
  sample_output(&s, dtype, ALL);
  multiply_add(&s, dtype);
  s.large = true;
  sample_end(&s, visit, user);
}

void sample_map_kernels(sample_visitor visit, void *user) {
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    const compute_dtype type = numbers[i];
    sample_instructions("arithmetic", on_number, sizeof on_number / sizeof *on_number, type, type,
                        -9, 9, visit, user);
    sample_instructions("comparisons", comparing, sizeof comparing / sizeof *comparing, type,
                        COMPUTE_BOOL, -2, 2, visit, user);
    if (i >= 2) {
      sample_instructions("bits", on_integer, sizeof on_integer / sizeof *on_integer, type, type,
                          -9, 70, visit, user);
      continue;
    }
    sample_instructions("roots and powers", on_positive, sizeof on_positive / sizeof *on_positive,
                        type, type, 0.01, 9, visit, user);
    sample_instructions("functions", on_float, sizeof on_float / sizeof *on_float, type, type, -9,
                        9, visit, user);
    sample_instructions("functions up to 1", on_unit, sizeof on_unit / sizeof *on_unit, type, type,
                        -1, 1, visit, user);
    sample_instructions("functions from 1", above_one, 1, type, type, 1, 90, visit, user);
    sample_places(type, visit, user);
  }
  sample_instructions("rounding", on_single, sizeof on_single / sizeof *on_single, COMPUTE_F32,
                      COMPUTE_F32, -70000, 70000, visit, user);
  sample_logic(visit, user);
  for (size_t i = 0; i < sizeof all_dtypes / sizeof *all_dtypes; i++)
    sample_casts(all_dtypes[i], visit, user);
  sample_shapes(COMPUTE_F32, visit, user);
  sample_shapes(COMPUTE_F16, visit, user);
}

/* ---- COPY ---------------------------------------------------------------------------------- */

typedef struct copy_case {
  const char *name;
  compute_shape shape;
  int order[3]; /* dimensions of the source in memory, outermost first */
} copy_case;

static const copy_case copy_cases[] = {
    {"dense", {1, {5003}}, {0, 1, 2}},
    {"transposed", {2, {67, 129}}, {1, 0, 2}},
    {"transposed squares", {3, {3, 64, 64}}, {0, 2, 1}},
    {"rotated", {3, {17, 33, 40}}, {2, 0, 1}},
    {"reversed", {3, {31, 6, 37}}, {2, 1, 0}},
    {"swapped outside", {3, {6, 5, 32}}, {1, 0, 2}},
    {"one", {2, {1, 1}}, {0, 1, 2}},
    {"none", {2, {0, 5}}, {0, 1, 2}},
};

static void begin_copy(sample_kernel *s, const copy_case *c, compute_dtype from, compute_dtype to) {
  sample_begin(s, COMPUTE_KERNEL_COPY, c->shape, "copy %s %s to %s", c->name,
               compute_dtype_name(from), compute_dtype_name(to));
  compute_operand *source = sample_input(s, from, ALL);
  int64_t step = 1;
  for (int32_t i = c->shape.rank - 1; i >= 0; i--) {
    source->stride[c->order[i]] = step;
    step *= c->shape.size[c->order[i]] > 0 ? c->shape.size[c->order[i]] : 1;
  }
  sample_output(s, to, ALL);
  s->low = -300;
  s->high = 300;
}

void sample_copy_kernels(sample_visitor visit, void *user) {
  sample_kernel s;
  const size_t cases = sizeof copy_cases / sizeof *copy_cases;
  const size_t dtypes = sizeof all_dtypes / sizeof *all_dtypes;
  for (size_t i = 0; i < cases; i++) {
    begin_copy(&s, &copy_cases[i], COMPUTE_F32, COMPUTE_F32);
    if (i == 0) add_cuts(&s);
    if (i == 1 || i == 3) {
      *sample_tuning(&s) = (compute_tuning){.tile_m = 16, .tile_n = 16};
      *sample_tuning(&s) =
          (compute_tuning){.tile_m = 32, .tile_n = 32, .group_x = 32, .group_y = 8};
      *sample_tuning(&s) =
          (compute_tuning){.tile_m = 64, .tile_n = 64, .group_x = 32, .group_y = 16};
      *sample_tuning(&s) = (compute_tuning){.variant = 1};
      *sample_tuning(&s) = (compute_tuning){.variant = 2};
    }
    sample_end(&s, visit, user);
  }
  for (size_t i = 0; i < dtypes; i++) {
    for (size_t k = 0; k < dtypes; k++) {
      if (i != k && (i + k) % 3 != 0) continue;
      if (all_dtypes[i] == COMPUTE_U64 && reference_is_float(all_dtypes[k])) continue; /* refused */
      begin_copy(&s, &copy_cases[0], all_dtypes[i], all_dtypes[k]);
      sample_end(&s, visit, user);
    }
    begin_copy(&s, &copy_cases[1], all_dtypes[i], all_dtypes[i]);
    sample_end(&s, visit, user);
  }
  begin_copy(&s, &copy_cases[1], COMPUTE_U8, COMPUTE_U8);
  s.descriptor.size[0] = 50001;
  s.descriptor.size[1] = 60001;
  s.inputs[0].stride[1] = 50001;
  s.outputs[0].stride[0] = 60001;
  s.large = true;
  snprintf(s.name, sizeof s.name, "copy large");
  sample_end(&s, visit, user);
}
