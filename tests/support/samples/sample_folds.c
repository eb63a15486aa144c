/* SPDX-License-Identifier: MIT */
/* Samples of REDUCE and ROW. */
#include "support/samples/sample_kernels.h"
#include "support/reference/program_reference.h"

#include <stdio.h>

enum { ALL = 255 };

/* ---- REDUCE -------------------------------------------------------------------------------- */

typedef struct reduce_case {
  const char *name;
  compute_shape shape; /* kept dimensions, then reduced ones */
  int32_t kept;
  int32_t outermost; /* the outermost dimension in memory, if not the first */
} reduce_case;

static const reduce_case reduce_cases[] = {
    {"everything", {1, {10007}}, 0, 0},       {"rows", {2, {37, 301}}, 1, 0},
    {"short rows", {2, {1201, 5}}, 1, 0},     {"columns", {2, {301, 37}}, 1, 1},
    {"few columns", {2, {3, 4001}}, 1, 1},    {"middle", {3, {6, 20, 50}}, 2, 2},
    {"two of three", {3, {9, 30, 40}}, 1, 1}, {"one element", {1, {1}}, 0, 0},
    {"one of each", {2, {50, 1}}, 1, 0},      {"nothing", {2, {5, 0}}, 1, 0},
    {"no result", {2, {0, 5}}, 1, 0},         {"a long row", {2, {2, 40000}}, 1, 0},
};

static compute_dtype type_of(compute_dtype dtype) {
  return reference_type(dtype);
}

static void begin_reduce(sample_kernel *s, const reduce_case *c, compute_combine combine,
                         compute_dtype dtype) {
  static const char *const names[] = {"sum", "prod", "max", "min", "argmax", "argmin"};
  sample_begin(s, COMPUTE_KERNEL_REDUCE, c->shape, "reduce %s %s %s", names[combine], c->name,
               compute_dtype_name(dtype));
  compute_operand *x = sample_input(s, dtype, ALL);
  if (c->outermost > 0) {
    int64_t step = 1;
    for (int32_t d = c->shape.rank - 1; d >= 0; d--) {
      if (d == c->outermost) continue;
      x->stride[d] = step;
      step *= c->shape.size[d];
    }
    x->stride[c->outermost] = step;
  }
  s->attributes.reduce.kept_rank = c->kept;
  s->attributes.reduce.combine = combine;
  s->descriptor.accumulate = type_of(dtype);
  s->descriptor.prologue_inputs = 1;
  s->low = combine == COMPUTE_COMBINE_PROD ? 0.99 : -4;
  s->high = combine == COMPUTE_COMBINE_PROD ? 1.01 : 4;
  s->tolerance = (test_tolerance){8, 2e-3, 1e-4};
  if (dtype == COMPUTE_F64) s->tolerance = (test_tolerance){8, 1e-12, 1e-12};
}

/* The result has strides for the kept dimensions only. */
static compute_operand *reduce_output(sample_kernel *s, compute_dtype dtype) {
  return sample_output(s, dtype, (1u << compute_reduce_of(&s->descriptor)->kept_rank) - 1);
}

static void add_cuts(sample_kernel *s) {
  static const uint32_t groups[] = {1, 7, 32, 64, 256};
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) sample_tuning(s)->group_x = groups[i];
  for (uint32_t variant = 1; variant <= 4; variant++) sample_tuning(s)->variant = variant;
  sample_tuning(s)->vector = 4;
  *sample_tuning(s) = (compute_tuning){.items = 4, .groups = 1};
}

static void sample_combine(const reduce_case *c, compute_combine combine, compute_dtype dtype,
                           bool cuts, sample_visitor visit, void *user) {
  sample_kernel s;
  const bool position = combine >= COMPUTE_COMBINE_ARGMAX;
  begin_reduce(&s, c, combine, dtype);
  reduce_output(&s, position ? COMPUTE_I64 : dtype);
  if (cuts) add_cuts(&s);
  sample_end(&s, visit, user);
}

/* mean of (x − y)² · z, plus an operand, in two outputs. */
static void sample_reduce_programs(const reduce_case *c, compute_dtype dtype, sample_visitor visit,
                                   void *user) {
  sample_kernel s;
  const compute_dtype type = type_of(dtype);
  begin_reduce(&s, c, COMPUTE_COMBINE_SUM, dtype);
  snprintf(s.name, sizeof s.name, "reduce with programs %s %s", c->name, compute_dtype_name(dtype));
  sample_input(&s, dtype, ALL);
  sample_input(&s, dtype, (1u << c->kept) - 1);
  s.descriptor.prologue_inputs = 2;
  program_builder *p = &s.prologue, *e = &s.epilogue;
  const uint16_t difference =
      program_apply(p, COMPUTE_I_SUB, type, program_load(p, type, 0), program_load(p, type, 1), 0);
  program_store(p, program_apply(p, COMPUTE_I_SQUARE, type, difference, 0, 0));
  const uint16_t sum = program_load(e, type, 0), z = program_load(e, type, 1);
  const uint16_t mean =
      program_apply(e, COMPUTE_I_MUL, type, sum, program_constant(e, type, 0.125), 0);
  program_store(e, program_apply(e, COMPUTE_I_ADD, type, mean, z, 0));
  program_store(e, mean);
  reduce_output(&s, dtype);
  reduce_output(&s, dtype);
  sample_end(&s, visit, user);
}

void sample_reduce_kernels(sample_visitor visit, void *user) {
  static const compute_dtype folded[] = {COMPUTE_F64, COMPUTE_F16, COMPUTE_BF16, COMPUTE_I64,
                                         COMPUTE_I32, COMPUTE_U8,  COMPUTE_U16,  COMPUTE_I8,
                                         COMPUTE_I16, COMPUTE_U32};
  const size_t cases = sizeof reduce_cases / sizeof *reduce_cases;
  for (size_t i = 0; i < cases; i++) {
    sample_combine(&reduce_cases[i], COMPUTE_COMBINE_SUM, COMPUTE_F32, i < 5, visit, user);
    sample_combine(&reduce_cases[i], COMPUTE_COMBINE_ARGMAX, COMPUTE_F32, i == 1, visit, user);
    sample_reduce_programs(&reduce_cases[i], COMPUTE_F32, visit, user);
  }
  for (int combine = COMPUTE_COMBINE_SUM; combine <= COMPUTE_COMBINE_ARGMIN; combine++) {
    if (combine == COMPUTE_COMBINE_PROD || combine == COMPUTE_COMBINE_MAX ||
        combine == COMPUTE_COMBINE_MIN || combine == COMPUTE_COMBINE_ARGMIN)
      for (size_t i = 0; i < 4; i += 3)
        sample_combine(&reduce_cases[i], (compute_combine)combine, COMPUTE_F32, false, visit, user);
    for (size_t i = 0; i < sizeof folded / sizeof *folded; i++)
      sample_combine(&reduce_cases[combine % 2 ? 3 : 1], (compute_combine)combine, folded[i], false,
                     visit, user);
  }
  sample_combine(&reduce_cases[1], COMPUTE_COMBINE_MAX, COMPUTE_BOOL, false, visit, user);
  sample_combine(&reduce_cases[3], COMPUTE_COMBINE_MIN, COMPUTE_BOOL, false, visit, user);
  sample_reduce_programs(&reduce_cases[1], COMPUTE_BF16, visit, user);
  static const reduce_case large[] = {{"large", {2, {3, INT64_C(3000000007)}}, 1, 0},
                                      {"large columns", {2, {70001, 50021}}, 1, 1},
                                      {"large whole", {1, {INT64_C(5000000029)}}, 0, 0}};
  for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
    sample_kernel s;
    begin_reduce(&s, &large[i], i == 2 ? COMPUTE_COMBINE_ARGMAX : COMPUTE_COMBINE_SUM, COMPUTE_F32);
    reduce_output(&s, i == 2 ? COMPUTE_I64 : COMPUTE_F32);
    s.large = true;
    sample_end(&s, visit, user);
  }
}

/* ---- ROW ----------------------------------------------------------------------------------- */

static const char *const row_names[] = {"softmax", "log-softmax", "normalize"};

static void begin_row(sample_kernel *s, compute_row_operation row, compute_shape shape,
                      compute_dtype dtype) {
  sample_begin(s, COMPUTE_KERNEL_ROW, shape, "row %s %s %lld", row_names[row],
               compute_dtype_name(dtype), (long long)shape.size[shape.rank - 1]);
  sample_input(s, dtype, ALL);
  s->attributes.row.operation = row;
  s->descriptor.accumulate = dtype == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  s->descriptor.prologue_inputs = 1;
  s->attributes.row.epsilon = row == COMPUTE_ROW_NORMALIZE ? 1e-5 : 0;
  s->tolerance =
      dtype == COMPUTE_F64 ? (test_tolerance){64, 1e-13, 1e-13} : (test_tolerance){16, 2e-5, 2e-5};
}

static void sample_row(compute_row_operation row, compute_shape shape, compute_dtype dtype,
                       bool cuts, sample_visitor visit, void *user) {
  sample_kernel s;
  begin_row(&s, row, shape, dtype);
  sample_output(&s, dtype, ALL);
  if (cuts) add_cuts(&s);
  sample_end(&s, visit, user);
}

/* Stores y = normalize(x · a) · b, and y + z: a layer norm with its residual. */
static void sample_row_programs(compute_row_operation row, compute_shape shape, compute_dtype dtype,
                                sample_visitor visit, void *user) {
  sample_kernel s;
  const compute_dtype type = type_of(dtype);
  const uint32_t last = 1u << (shape.rank - 1);
  begin_row(&s, row, shape, dtype);
  snprintf(s.name, sizeof s.name, "row %s with programs %s %lld", row_names[row],
           compute_dtype_name(dtype), (long long)shape.size[shape.rank - 1]);
  sample_input(&s, dtype, last);
  sample_input(&s, dtype, last);
  sample_input(&s, dtype, ALL);
  s.descriptor.prologue_inputs = 2;
  program_builder *p = &s.prologue, *e = &s.epilogue;
  program_store(p, program_apply(p, COMPUTE_I_MUL, type, program_load(p, type, 0),
                                 program_load(p, type, 1), 0));
  const uint16_t y =
      program_apply(e, COMPUTE_I_MUL, type, program_load(e, type, 0), program_load(e, type, 1), 0);
  program_store(e, y);
  program_store(e, program_apply(e, COMPUTE_I_ADD, type, y, program_load(e, type, 2), 0));
  sample_output(&s, dtype, ALL);
  sample_output(&s, dtype, ALL);
  sample_end(&s, visit, user);
}

void sample_row_kernels(sample_visitor visit, void *user) {
  static const compute_shape shapes[] = {{2, {29, 7}},    {2, {5, 129}},  {2, {3, 1000}},
                                         {2, {1, 20011}}, {1, {1}},       {2, {0, 5}},
                                         {2, {4, 0}},     {2, {600, 16}}, {3, {3, 5, 64}}};
  for (int row = COMPUTE_ROW_SOFTMAX; row <= COMPUTE_ROW_NORMALIZE; row++) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
      sample_row((compute_row_operation)row, shapes[i], COMPUTE_F32, i < 4 && row != 1, visit,
                 user);
    sample_row((compute_row_operation)row, shapes[2], COMPUTE_F64, false, visit, user);
    sample_row((compute_row_operation)row, shapes[1], COMPUTE_BF16, false, visit, user);
    sample_row((compute_row_operation)row, shapes[1], COMPUTE_F16, false, visit, user);
    for (size_t i = 0; i < 4; i++)
      sample_row_programs((compute_row_operation)row, shapes[i], COMPUTE_F32, visit, user);
    sample_row_programs((compute_row_operation)row, shapes[2], COMPUTE_F16, visit, user);

    sample_kernel s; /* rows with a stride */
    begin_row(&s, (compute_row_operation)row, COMPUTE_SHAPE(65, 33), COMPUTE_F32);
    sample_output(&s, COMPUTE_F32, ALL);
    s.inputs[0].stride[0] = 1;
    s.inputs[0].stride[1] = 65;
    s.outputs[0].stride[0] = 1;
    s.outputs[0].stride[1] = 65;
    snprintf(s.name, sizeof s.name, "row %s across", row_names[row]);
    sample_end(&s, visit, user);

    begin_row(&s, (compute_row_operation)row, COMPUTE_SHAPE(70001, 50021), COMPUTE_F16);
    sample_output(&s, COMPUTE_F16, ALL);
    s.large = true;
    sample_end(&s, visit, user);
  }
}
