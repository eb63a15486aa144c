/* SPDX-License-Identifier: MIT */
/* Samples of GEMM, QUANTIZED_GEMM, GATHER and SCATTER. */
#include "support/samples/sample_kernels.h"
#include "support/reference/program_reference.h"

#include <stdio.h>
#include <string.h>

enum { ALL = 255 };

/* ---- GEMM ---------------------------------------------------------------------------------- */

typedef struct gemm_case {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;
  compute_dtype dtype, result;
} gemm_case;

static const gemm_case gemm_cases[] = {
    {1, 64, 64, 64, false, false, COMPUTE_F32, COMPUTE_F32},
    {1, 65, 67, 71, false, false, COMPUTE_F32, COMPUTE_F32},
    {1, 65, 67, 71, true, false, COMPUTE_F32, COMPUTE_F32},
    {1, 65, 67, 71, false, true, COMPUTE_F32, COMPUTE_F32},
    {1, 65, 67, 71, true, true, COMPUTE_F32, COMPUTE_F32},
    {1, 128, 64, 32, false, true, COMPUTE_F32, COMPUTE_F32},
    {1, 1, 97, 200, false, false, COMPUTE_F32, COMPUTE_F32},
    {1, 97, 1, 200, false, false, COMPUTE_F32, COMPUTE_F32},
    {1, 1, 1, 1000, false, false, COMPUTE_F32, COMPUTE_F32},
    {1, 5, 6, 3000, false, false, COMPUTE_F32, COMPUTE_F32},
    {1, 9, 11, 1, false, false, COMPUTE_F32, COMPUTE_F32},
    {1, 9, 11, 0, false, false, COMPUTE_F32, COMPUTE_F32},
    {1, 0, 11, 4, false, false, COMPUTE_F32, COMPUTE_F32},
    {5, 33, 17, 20, false, false, COMPUTE_F32, COMPUTE_F32},
    {3, 16, 16, 16, true, true, COMPUTE_F32, COMPUTE_F32},
    {1, 65, 67, 71, false, false, COMPUTE_F64, COMPUTE_F64},
    {1, 65, 67, 71, false, true, COMPUTE_F16, COMPUTE_F16},
    {2, 64, 32, 48, true, false, COMPUTE_F16, COMPUTE_F32},
    {1, 65, 67, 71, false, false, COMPUTE_BF16, COMPUTE_BF16},
    {1, 64, 64, 32, false, false, COMPUTE_BF16, COMPUTE_F32},
    {1, 33, 35, 37, false, false, COMPUTE_I32, COMPUTE_I32},
    {1, 33, 35, 37, false, true, COMPUTE_I64, COMPUTE_I64},
    {1, 33, 35, 37, false, false, COMPUTE_U8, COMPUTE_I32},
    {1, 33, 35, 37, true, false, COMPUTE_U16, COMPUTE_I32},
    {1, 33, 35, 37, false, true, COMPUTE_I8, COMPUTE_I32},
    {1, 33, 35, 37, true, false, COMPUTE_I16, COMPUTE_I16},
    {1, 33, 35, 37, false, false, COMPUTE_U32, COMPUTE_U32},
    {1, 33, 35, 37, false, false, COMPUTE_U64, COMPUTE_U64},
};

static compute_dtype type_of(compute_dtype dtype) {
  return reference_type(dtype);
}

static void begin_gemm(sample_kernel *s, const gemm_case *c) {
  sample_begin(s, COMPUTE_KERNEL_GEMM, COMPUTE_SHAPE(c->batch, c->m, c->n),
               "gemm %lldx%lldx%lldx%lld %s%s %s", (long long)c->batch, (long long)c->m,
               (long long)c->n, (long long)c->k, c->transpose_a ? "T" : "N",
               c->transpose_b ? "T" : "N", compute_dtype_name(c->dtype));
  compute_operand *a = sample_input(s, c->dtype, 0), *b = sample_input(s, c->dtype, 0);
  a->stride[0] = c->m * c->k;
  a->stride[1] = c->transpose_a ? 1 : c->k;
  a->stride[2] = c->transpose_a ? c->m : 1;
  b->stride[0] = c->k * c->n;
  b->stride[1] = c->transpose_b ? 1 : c->n;
  b->stride[2] = c->transpose_b ? c->k : 1;
  s->attributes.gemm.k = c->k;
  s->descriptor.accumulate = type_of(c->dtype);
  s->low = -2;
  s->high = 2;
  s->tolerance =
      c->dtype == COMPUTE_F64 ? (test_tolerance){8, 1e-11, 0} : (test_tolerance){8, 1e-3, 0};
}

static void add_cuts(sample_kernel *s) {
  *sample_tuning(s) = (compute_tuning){.variant = 1};
  *sample_tuning(s) = (compute_tuning){.variant = 2};
  *sample_tuning(s) = (compute_tuning){.variant = 3};
  *sample_tuning(s) = (compute_tuning){.variant = 4};
  static const uint32_t tiles[][5] = {{16, 16, 8, 1, 1},
                                      {32, 32, 8, 4, 4},
                                      {64, 64, 16, 4, 4},
                                      {64, 32, 16, 8, 2},
                                      {128, 64, 8, 8, 8}};
  for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
    *sample_tuning(s) = (compute_tuning){.tile_m = tiles[i][0],
                                         .tile_n = tiles[i][1],
                                         .tile_k = tiles[i][2],
                                         .item_m = tiles[i][3],
                                         .item_n = tiles[i][4]};
  sample_tuning(s)->vector = 1;
  sample_tuning(s)->vector = 4;
}

/* Tunings for matrix units; targets without them refuse these. */
static void add_matrix_cuts(sample_kernel *s) {
  *sample_tuning(s) = (compute_tuning){.variant = 2};
  *sample_tuning(s) = (compute_tuning){.variant = 7, .groups = 3};
  *sample_tuning(s) = (compute_tuning){.variant = 7, .groups = 1, .vector = 1};
  *sample_tuning(s) = (compute_tuning){
      .variant = 7, .groups = 1, .tile_m = 64, .tile_n = 32, .item_m = 16, .item_n = 32};
  *sample_tuning(s) = (compute_tuning){.variant = 7,
                                       .groups = 1,
                                       .tile_m = 32,
                                       .tile_n = 64,
                                       .tile_k = 64,
                                       .item_m = 32,
                                       .item_n = 8};
  static const uint32_t tiles[][6] = {{32, 32, 0, 16, 16, 4},
                                      {64, 32, 0, 32, 16, 2},
                                      {32, 128, 64, 32, 32, 3},
                                      {128, 64, 0, 64, 32, 6}};
  for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
    *sample_tuning(s) = (compute_tuning){.variant = 8,
                                         .tile_m = tiles[i][0],
                                         .tile_n = tiles[i][1],
                                         .tile_k = tiles[i][2],
                                         .item_m = tiles[i][3],
                                         .item_n = tiles[i][4],
                                         .items = tiles[i][5],
                                         .groups = i == 1 ? 3 : 1};
  static const uint32_t warpgroups[][4] = {
      {64, 64, 64, 3}, {64, 128, 64, 3}, {128, 64, 128, 4}, {128, 64, 64, 4}, {256, 64, 128, 3}};
  for (size_t i = 0; i < sizeof warpgroups / sizeof *warpgroups; i++)
    *sample_tuning(s) = (compute_tuning){.variant = 10,
                                         .tile_m = warpgroups[i][0],
                                         .tile_n = warpgroups[i][1],
                                         .item_m = warpgroups[i][2],
                                         .items = warpgroups[i][3],
                                         .groups = i == 1 ? 2 : 1};
}

/* f32 products whose factors may be rounded. */
static void sample_gemm_tf32(const gemm_case *c, sample_visitor visit, void *user) {
  sample_kernel s;
  begin_gemm(&s, c);
  sample_output(&s, c->result, ALL);
  s.attributes.gemm.precision = COMPUTE_PRECISION_TF32;
  s.tolerance = (test_tolerance){8, 0.05, 2e-3};
  add_matrix_cuts(&s);
  const size_t length = strlen(s.name);
  snprintf(s.name + length, sizeof s.name - length, " as TF32");
  sample_end(&s, visit, user);
}

/* relu(A·B + bias), and the sum before it, into the transposed result. */
static void sample_gemm_program(const gemm_case *c, sample_visitor visit, void *user) {
  sample_kernel s;
  const compute_dtype type = type_of(c->dtype);
  begin_gemm(&s, c);
  sample_input(&s, c->dtype, 4);
  program_builder *e = &s.epilogue;
  const uint16_t sum =
      program_apply(e, COMPUTE_I_ADD, type, program_load(e, type, 0), program_load(e, type, 1), 0);
  program_store(e, program_apply(e, COMPUTE_I_RELU, type, sum, 0, 0));
  program_store(e, sum);
  sample_output(&s, c->result, ALL);
  compute_operand *t = sample_output(&s, c->result, ALL);
  t->stride[1] = 1;
  t->stride[2] = c->m;
  const size_t length = strlen(s.name);
  snprintf(s.name + length, sizeof s.name - length, " with a program");
  sample_end(&s, visit, user);
}

/* Whole tiles for matrix units, in all layouts, with edges. */
static void sample_gemm_aligned(sample_visitor visit, void *user) {
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_BF16, COMPUTE_F16, COMPUTE_F64};
  for (int i = 0; i < 16; i++) {
    const compute_dtype dtype = dtypes[i % 4];
    const gemm_case c = {1 + i % 2, 72, 80, 88, i / 4 % 2, i / 8, dtype, dtype};
    sample_kernel s;
    if (dtype == COMPUTE_F32) {
      sample_gemm_tf32(&c, visit, user);
      continue;
    }
    begin_gemm(&s, &c);
    sample_output(&s, dtype, ALL);
    add_matrix_cuts(&s);
    sample_end(&s, visit, user);
  }
}

void sample_gemm_kernels(sample_visitor visit, void *user) {
  sample_kernel s;
  sample_gemm_aligned(visit, user);
  for (size_t i = 0; i < sizeof gemm_cases / sizeof *gemm_cases; i++) {
    begin_gemm(&s, &gemm_cases[i]);
    sample_output(&s, gemm_cases[i].result, ALL);
    if (i < 5) add_cuts(&s);
    if (gemm_cases[i].dtype == COMPUTE_F16 || gemm_cases[i].dtype == COMPUTE_BF16)
      add_matrix_cuts(&s);
    sample_end(&s, visit, user);
    if (i % 3 == 1 || gemm_cases[i].k == 0) sample_gemm_program(&gemm_cases[i], visit, user);
  }
  for (size_t i = 1; i < 5; i++) sample_gemm_tf32(&gemm_cases[i], visit, user);
  const gemm_case large[] = {{1, 70001, 50021, 64, false, false, COMPUTE_F32, COMPUTE_F32},
                             {1, 100, 300, 50000017, false, true, COMPUTE_F16, COMPUTE_F16}};
  for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
    begin_gemm(&s, &large[i]);
    sample_output(&s, large[i].result, ALL);
    s.large = true;
    sample_end(&s, visit, user);
  }
}

/* ---- QUANTIZED_GEMM ------------------------------------------------------------------------- */

typedef struct quantized_case {
  int64_t batch, m, n, k;
  int32_t bits;
  int64_t block;
  compute_dtype dtype, scale, zero; /* zero BOOL: no zero points */
} quantized_case;

static const quantized_case quantized_cases[] = {
    {1, 1, 97, 256, 4, 32, COMPUTE_F32, COMPUTE_F32, COMPUTE_U8},
    {1, 1, 30, 270, 4, 32, COMPUTE_F32, COMPUTE_F32, COMPUTE_BOOL},
    {1, 7, 65, 128, 4, 16, COMPUTE_F32, COMPUTE_F32, COMPUTE_F32},
    {1, 40, 70, 71, 4, 64, COMPUTE_F32, COMPUTE_F16, COMPUTE_U8},
    {1, 5, 33, 100, 2, 20, COMPUTE_F32, COMPUTE_F32, COMPUTE_U8},
    {1, 33, 35, 64, 8, 32, COMPUTE_F16, COMPUTE_F16, COMPUTE_F16},
    {3, 17, 20, 48, 4, 16, COMPUTE_BF16, COMPUTE_F32, COMPUTE_BOOL},
    {1, 9, 11, 0, 4, 32, COMPUTE_F32, COMPUTE_F32, COMPUTE_BOOL},
    {1, 0, 11, 32, 4, 32, COMPUTE_F32, COMPUTE_F32, COMPUTE_BOOL},
};

static compute_operand *sample_weights(sample_kernel *s, compute_dtype dtype, int64_t along) {
  compute_operand *o = sample_input(s, dtype, 0);
  o->stride[1] = along;
  o->stride[2] = 1;
  return o;
}

void sample_quantized_gemm_kernels(sample_visitor visit, void *user) {
  for (size_t i = 0; i < sizeof quantized_cases / sizeof *quantized_cases; i++) {
    const quantized_case *c = &quantized_cases[i];
    const int64_t blocks = (c->k + c->block - 1) / c->block;
    sample_kernel s;
    sample_begin(&s, COMPUTE_KERNEL_QUANTIZED_GEMM, COMPUTE_SHAPE(c->batch, c->m, c->n),
                 "quantized_gemm %lldx%lldx%lldx%lld %d bits by %lld %s", (long long)c->batch,
                 (long long)c->m, (long long)c->n, (long long)c->k, (int)c->bits,
                 (long long)c->block, compute_dtype_name(c->dtype));
    compute_operand *a = sample_input(&s, c->dtype, 0);
    a->stride[0] = c->m * c->k;
    a->stride[1] = c->k;
    a->stride[2] = 1;
    sample_weights(&s, COMPUTE_U8, (c->k * c->bits + 7) / 8);
    sample_weights(&s, c->scale, blocks);
    if (c->zero != COMPUTE_BOOL) sample_weights(&s, c->zero, blocks);
    s.attributes.quantized_gemm = (compute_quantized_gemm_attributes){
        .k = c->k, .block = c->block, .bits = c->bits, .zeros = c->zero != COMPUTE_BOOL};
    s.descriptor.accumulate = COMPUTE_F32;
    sample_output(&s, c->dtype, ALL);
    s.low = 0;
    s.high = 17;
    s.tolerance = (test_tolerance){8, 0.05 * (double)c->k, 1e-4};
    sample_end(&s, visit, user);
  }
}

/* ---- GATHER and SCATTER -------------------------------------------------------------------- */

typedef struct indexed_case {
  const char *name;
  compute_shape shape;
  uint32_t indexed; /* dimensions of the indices in place of the axis: consecutive */
  bool elements;    /* the index varies along all dimensions */
  int64_t axis;
} indexed_case;

static const indexed_case indexed_cases[] = {
    {"rows", {2, {150, 64}}, 1, false, 40},
    {"wide rows", {2, {40, 333}}, 1, false, 300},
    {"rows of two", {3, {9, 7, 24}}, 3, false, 10},
    {"columns", {2, {21, 60}}, 2, false, 33},
    {"middle", {3, {5, 30, 13}}, 2, false, 12},
    {"single", {1, {700}}, 1, false, 90},
    {"histogram", {1, {5000}}, 1, false, 3},
    {"few columns", {2, {1500, 3}}, 1, false, 20},
    {"elements across", {2, {50, 37}}, 1, true, 19},
    {"elements along", {2, {23, 70}}, 2, true, 15},
    {"elements middle", {3, {4, 31, 9}}, 2, true, 8},
    {"one place", {2, {400, 70}}, 1, false, 1},
    {"none", {2, {0, 5}}, 1, false, 4},
    {"one", {1, {1}}, 1, false, 1},
};

/* Strides of the operand with the axis: its other dimensions in order, with the axis at the first
 * indexed dimension. */
static int64_t whole_strides(const sample_kernel *s, const indexed_case *c, int64_t *stride) {
  int64_t step = 1, axis_stride = 0;
  memset(stride, 0, COMPUTE_MAX_RANK * sizeof *stride);
  for (int32_t d = s->descriptor.rank - 1; d >= 0; d--) {
    const bool indexed = c->indexed >> d & 1, first = d == 0 || !(c->indexed >> (d - 1) & 1);
    if (!indexed) {
      stride[d] = step;
      step *= s->descriptor.size[d];
    } else if (first) {
      axis_stride = step;
      step *= c->axis;
    }
  }
  return axis_stride;
}

static void sample_index(compute_kernel_kind kind, const indexed_case *c, compute_dtype dtype,
                         compute_dtype index, compute_scatter_mode mode, bool cuts,
                         sample_visitor visit, void *user) {
  static const char *const modes[] = {"", "set ", "multiplying ", "maximum ", "minimum "};
  sample_kernel s;
  const bool gather = kind == COMPUTE_KERNEL_GATHER;
  sample_begin(&s, kind, c->shape, "%s %s%s %s by %s", gather ? "gather" : "scatter", modes[mode],
               c->name, compute_dtype_name(dtype), compute_dtype_name(index));
  compute_operand *x = sample_input(&s, dtype, ALL);
  sample_input(&s, index, c->elements ? ALL : c->indexed);
  compute_operand *y = sample_output(&s, dtype, ALL);
  s.attributes.index.axis_size = s.index_limit = c->axis;
  s.attributes.index.mode = mode;
  s.attributes.index.axis_stride = whole_strides(&s, c, gather ? x->stride : y->stride);
  s.large = c->shape.rank > 0 && c->shape.size[0] > 10000000;
  s.tolerance =
      dtype == COMPUTE_F64 ? (test_tolerance){8, 1e-12, 1e-12} : (test_tolerance){8, 1e-4, 1e-5};
  if (cuts) {
    static const uint32_t groups[] = {1, 7, 32, 64, 256};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
      sample_tuning(&s)->group_x = groups[i];
    *sample_tuning(&s) = (compute_tuning){.variant = 1};
    *sample_tuning(&s) = (compute_tuning){.variant = 2};
    *sample_tuning(&s) = (compute_tuning){.variant = 2, .group_x = 64, .groups = 1};
    for (uint32_t vector = 1; vector <= 4; vector *= 2) sample_tuning(&s)->vector = vector;
  }
  sample_end(&s, visit, user);
}

/* Modes with products take only the cases with few updates per element: larger products leave the
 * range. */
static void sample_mode(compute_scatter_mode mode, sample_visitor visit, void *user) {
  static const uint32_t few[] = {1, 4, 8, 9, 12, 13};
  static const compute_dtype dtypes[] = {COMPUTE_F64, COMPUTE_F16, COMPUTE_BF16, COMPUTE_I64,
                                         COMPUTE_I32, COMPUTE_U8,  COMPUTE_I16,  COMPUTE_U32,
                                         COMPUTE_U64, COMPUTE_BOOL};
  const bool multiplies = mode == COMPUTE_SCATTER_MUL, sets = mode == COMPUTE_SCATTER_SET;
  const size_t all = sizeof indexed_cases / sizeof *indexed_cases;
  const size_t count = multiplies ? sizeof few / sizeof *few : all;
  for (size_t i = 0; i < count; i++)
    sample_index(COMPUTE_KERNEL_SCATTER, &indexed_cases[multiplies ? few[i] : i], COMPUTE_F32,
                 i % 2 ? COMPUTE_I32 : COMPUTE_I64, mode, i < 2 || i == 9, visit, user);
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    if (dtypes[i] == COMPUTE_BOOL && !sets) continue;
    if (dtypes[i] == COMPUTE_U64 && mode >= COMPUTE_SCATTER_MAX) continue;
    sample_index(COMPUTE_KERNEL_SCATTER, &indexed_cases[1], dtypes[i], COMPUTE_I64, mode, false,
                 visit, user);
    sample_index(COMPUTE_KERNEL_SCATTER, &indexed_cases[8], dtypes[i], COMPUTE_I32, mode, false,
                 visit, user);
  }
}

static void sample_indexed(compute_kernel_kind kind, sample_visitor visit, void *user) {
  static const compute_dtype dtypes[] = {COMPUTE_F64, COMPUTE_F16, COMPUTE_BF16, COMPUTE_I64,
                                         COMPUTE_I32, COMPUTE_U8,  COMPUTE_BOOL, COMPUTE_U16,
                                         COMPUTE_I8,  COMPUTE_I16, COMPUTE_U32,  COMPUTE_U64};
  static const indexed_case large[] = {{"large", {2, {50000017, 64}}, 1, false, 50000},
                                       {"large axis", {2, {20000017, 3}}, 1, false, 3000000019}};
  for (size_t i = 0; i < sizeof indexed_cases / sizeof *indexed_cases; i++)
    sample_index(kind, &indexed_cases[i], COMPUTE_F32, i % 2 ? COMPUTE_I32 : COMPUTE_I64,
                 COMPUTE_SCATTER_ADD, i < 2 || i == 5 || i == 7 || i == 9, visit, user);
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    if (kind == COMPUTE_KERNEL_SCATTER && dtypes[i] == COMPUTE_BOOL) continue;
    sample_index(kind, &indexed_cases[0], dtypes[i], COMPUTE_I64, COMPUTE_SCATTER_ADD, false, visit,
                 user);
    sample_index(kind, &indexed_cases[5], dtypes[i], COMPUTE_I32, COMPUTE_SCATTER_ADD, false, visit,
                 user);
    sample_index(kind, &indexed_cases[9], dtypes[i], COMPUTE_I32, COMPUTE_SCATTER_ADD, false, visit,
                 user);
  }
  for (size_t i = 0; i < sizeof large / sizeof *large; i++)
    sample_index(kind, &large[i], COMPUTE_F32, COMPUTE_I64, COMPUTE_SCATTER_ADD, false, visit,
                 user);
}

void sample_gather_kernels(sample_visitor visit, void *user) {
  sample_indexed(COMPUTE_KERNEL_GATHER, visit, user);
}

void sample_scatter_kernels(sample_visitor visit, void *user) {
  sample_indexed(COMPUTE_KERNEL_SCATTER, visit, user);
  for (int m = COMPUTE_SCATTER_SET; m <= COMPUTE_SCATTER_MIN; m++)
    sample_mode((compute_scatter_mode)m, visit, user);
}
