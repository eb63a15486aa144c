/* SPDX-License-Identifier: MIT */
/* The generator's matrix multiplication from inside: its normal form, its default choices, its
 * refusals, and the descriptors that share a source. Other tests check the numbers. */
#include <string.h>

#include "codegen/generate/kinds/gemm/gemm.h"
#include "codegen/generate/generate.h"
#include "support/harness/test.h"

static compute_target cpu_target(void) {
  return (compute_target){.struct_size = sizeof(compute_target),
                          .type = COMPUTE_DEVICE_CPU,
                          .flags = COMPUTE_TARGET_F64,
                          .compute_units = 2,
                          .lanes = 1,
                          .vector_width = 16,
                          .group_limit = 4096,
                          .group_limit_of = {4096, 4096, 4096},
                          .local_bytes = 1 << 20};
}

static compute_target gpu_target(void) {
  return (compute_target){.struct_size = sizeof(compute_target),
                          .type = COMPUTE_DEVICE_GPU,
                          .flags = COMPUTE_TARGET_F64 | COMPUTE_TARGET_FAST_LOCAL,
                          .compute_units = 80,
                          .lanes = 32,
                          .vector_width = 4,
                          .group_limit = 1024,
                          .group_limit_of = {1024, 1024, 64},
                          .local_bytes = 49152};
}

/* C[batch][m][n] = A[batch][m][k] · B[batch][k][n], all dense. */
typedef struct product {
  compute_operand inputs[2], output;
  compute_kernel_descriptor descriptor;
  compute_gemm_attributes attributes;
} product;

static void describe(product *p, compute_dtype dtype, int64_t batch, int64_t m, int64_t n,
                     int64_t k) {
  memset(p, 0, sizeof *p);
  const bool is_small = dtype == COMPUTE_F16 || dtype == COMPUTE_BF16;
  p->inputs[0] = (compute_operand){.dtype = dtype, .stride = {m * k, k, 1}};
  p->inputs[1] = (compute_operand){.dtype = dtype, .stride = {k * n, n, 1}};
  p->output = (compute_operand){.dtype = dtype, .stride = {m * n, n, 1}};
  p->descriptor = (compute_kernel_descriptor){.struct_size = sizeof p->descriptor,
                                              .kind = COMPUTE_KERNEL_GEMM,
                                              .rank = 3,
                                              .size = {batch, m, n},
                                              .input_count = 2,
                                              .output_count = 1,
                                              .inputs = p->inputs,
                                              .outputs = &p->output,
                                              .accumulate = is_small ? COMPUTE_F32 : dtype,
                                              .attributes = &p->attributes,
                                              .attribute_bytes = sizeof p->attributes};
  p->attributes.k = k;
}

static gemm_problem read_problem(product *p) {
  const compute_target target = cpu_target();
  generation g = {.target = &target, .descriptor = &p->descriptor};
  gemm_problem problem;
  emit_gemm_read(&g, &problem);
  return problem;
}

static const compute_generated *generate(const compute_target *target, const product *p,
                                         const compute_tuning *tuning) {
  char reason[256] = "";
  const compute_generated *generated = NULL;
  const compute_status status =
      generate_kernel(target, &p->descriptor, tuning, &generated, reason, sizeof reason);
  if (status != COMPUTE_OK) fail_msg("refused: %s", reason);
  return generated;
}

/* ---- Normal form --------------------------------------------------------------------------- */

static void batches_that_lengthen_m_become_rows(void **state) {
  (void)state;
  product p;
  describe(&p, COMPUTE_F32, 6, 10, 20, 30);
  p.inputs[1].stride[0] = 0; /* one B for all */
  gemm_problem problem = read_problem(&p);
  assert_int_equal(problem.m, 60);
  assert_int_equal(problem.batches, 1);
  assert_int_equal(problem.batch.rank, 0);
  assert_false(problem.a.batched || problem.b.batched);

  describe(&p, COMPUTE_F32, 6, 10, 20, 30);
  problem = read_problem(&p);
  assert_int_equal(problem.m, 10);
  assert_int_equal(problem.batches, 6);
  assert_true(problem.a.batched && problem.b.batched);

  describe(&p, COMPUTE_F32, 6, 10, 20, 30);
  p.inputs[1].stride[0] = 0;
  p.output.stride[0] += 7; /* C's rows are not contiguous */
  problem = read_problem(&p);
  assert_int_equal(problem.m, 10);
  assert_int_equal(problem.batches, 6);
}

static void rows_of_single_matrices_become_the_batch(void **state) {
  (void)state;
  product p;
  describe(&p, COMPUTE_F32, 50, 1, 20, 30);
  p.inputs[1].stride[0] = 0;
  const gemm_problem problem = read_problem(&p);
  assert_int_equal(problem.m, 50);
  assert_int_equal(problem.a.outer, 30);
  assert_int_equal(problem.batches, 1);
}

static void coordinates_keep_their_dimensions_apart(void **state) {
  (void)state;
  product p;
  describe(&p, COMPUTE_F32, 6, 10, 20, 30);
  p.inputs[1].stride[0] = 0;
  const compute_instruction instructions[] = {
      {.code = COMPUTE_I_LOAD, .type = COMPUTE_F32},
      {.code = COMPUTE_I_COORDINATE, .type = COMPUTE_I64, .immediate.i64 = 1},
      {.code = COMPUTE_I_CAST, .type = COMPUTE_F32, .a = 1},
      {.code = COMPUTE_I_ADD, .type = COMPUTE_F32, .a = 0, .b = 2}};
  const uint16_t output = 3;
  p.descriptor.epilogue = (compute_program){4, 1, instructions, &output};
  const gemm_problem problem = read_problem(&p);
  assert_int_equal(problem.m, 10);
  assert_int_equal(problem.batches, 6);
}

static void the_short_side_and_the_dense_side_become_columns(void **state) {
  (void)state;
  product p;
  describe(&p, COMPUTE_F32, 1, 3, 100, 50);
  gemm_problem problem = read_problem(&p);
  assert_int_equal(problem.n, 3);
  assert_int_equal(problem.a.input, 1);
  assert_int_equal(problem.a.outer, 1);

  describe(&p, COMPUTE_F32, 1, 100, 200, 50);
  p.output.stride[1] = 1;
  p.output.stride[2] = 100;
  problem = read_problem(&p);
  assert_int_equal(problem.m, 200);
  assert_int_equal(problem.a.input, 1);
  assert_int_equal(space_walk(&problem.tile, "out0")->stride[1], 1);
}

static void indices_are_wide_only_where_sizes_need_it(void **state) {
  (void)state;
  product p;
  describe(&p, COMPUTE_F32, 1, 10000, 10000, 10000);
  gemm_problem problem = read_problem(&p);
  assert_false(gemm_problem_is_wide(&problem));
  describe(&p, COMPUTE_F32, 1, 50000, 100, 50000);
  problem = read_problem(&p);
  assert_true(gemm_problem_is_wide(&problem));
  describe(&p, COMPUTE_F32, 1, 10, 10, 10);
  p.inputs[0].stride[2] = INT64_C(1) << 30;
  problem = read_problem(&p);
  assert_true(gemm_problem_is_wide(&problem));
}

/* ---- Sources ------------------------------------------------------------------------------- */

static void assert_one_source(const compute_target *target, const product *a, const product *b) {
  const compute_generated *first = generate(target, a, NULL), *second = generate(target, b, NULL);
  assert_string_equal(first->source, second->source);
  assert_memory_not_equal(first->launches[0].shape, second->launches[0].shape,
                          first->launches[0].shape_bytes);
  generate_release(first);
  generate_release(second);
}

static void one_source_serves_all_sizes(void **state) {
  (void)state;
  const compute_target cpu = cpu_target(), gpu = gpu_target();
  product a, b;
  describe(&a, COMPUTE_F32, 1, 1024, 1024, 1024);
  describe(&b, COMPUTE_F32, 1, 480, 1120, 513);
  assert_one_source(&cpu, &a, &b);
  describe(&a, COMPUTE_F32, 1, 4096, 2048, 512);
  describe(&b, COMPUTE_F32, 1, 2047, 3001, 777);
  assert_one_source(&gpu, &a, &b);
  describe(&a, COMPUTE_F32, 5, 7, 13, 3);
  describe(&b, COMPUTE_F32, 2, 31, 2, 17);
  assert_one_source(&cpu, &a, &b);
}

static void one_source_serves_all_layouts_that_are_packed(void **state) {
  (void)state;
  const compute_target cpu = cpu_target();
  product a, b;
  describe(&a, COMPUTE_F32, 1, 200, 300, 400);
  describe(&b, COMPUTE_F32, 1, 200, 300, 400);
  b.inputs[0].stride[1] = 2;
  b.inputs[0].stride[2] = 401;
  b.inputs[1].stride[1] = 1;
  b.inputs[1].stride[2] = 400;
  assert_one_source(&cpu, &a, &b);
}

static void nothing_to_store_is_no_launch(void **state) {
  (void)state;
  const compute_target cpu = cpu_target(), gpu = gpu_target();
  static const int64_t sizes[][3] = {{0, 5, 5}, {3, 0, 5}, {3, 5, 0}};
  for (int i = 0; i < 3; i++) {
    product p;
    describe(&p, COMPUTE_F32, sizes[i][0], sizes[i][1], sizes[i][2], 4);
    for (int t = 0; t < 2; t++) {
      const compute_generated *generated = generate(t ? &gpu : &cpu, &p, NULL);
      assert_int_equal(generated->launch_count, 0);
      generate_release(generated);
    }
  }
}

static void batches_past_the_limit_of_a_grid_are_walked(void **state) {
  (void)state;
  const compute_target gpu = gpu_target();
  product p;
  describe(&p, COMPUTE_F32, 100000, 8, 8, 8);
  const compute_generated *generated = generate(&gpu, &p, NULL);
  assert_int_equal(generated->launches[0].groups[2], GEMM_GROUP_Z_LIMIT);
  assert_non_null(strstr(generated->source, "batch += "));
  generate_release(generated);
}

/* ---- Default choices ----------------------------------------------------------------------- */

static compute_tuning judge(const compute_target *target, const product *p, uint32_t launches) {
  const compute_generated *generated = generate(target, p, NULL);
  const compute_tuning tuning = generated->tuning;
  assert_int_equal(generated->launch_count, launches);
  assert_true(strlen(generated->text) > 0);
  assert_int_equal(generated->workspace_bytes > 0, launches > 1);
  generate_release(generated);
  return tuning;
}

static void a_gpu_gets_the_tile_that_keeps_it_busy(void **state) {
  (void)state;
  const compute_target gpu = gpu_target();
  product p;
  describe(&p, COMPUTE_F32, 1, 4096, 4096, 1024);
  compute_tuning t = judge(&gpu, &p, 1);
  assert_int_equal(t.variant, GEMM_TILED);
  assert_int_equal(t.tile_m, 128);
  assert_int_equal(t.tile_n, 128);
  describe(&p, COMPUTE_F32, 1, 512, 640, 200);
  t = judge(&gpu, &p, 1);
  assert_true(t.tile_m <= 64 && t.tile_n <= 64);
  describe(&p, COMPUTE_F32, 500, 30, 30, 30); /* many small products: small tiles waste less */
  t = judge(&gpu, &p, 1);
  assert_int_equal(t.tile_m, 32);
}

static void a_long_k_of_a_small_product_is_cut(void **state) {
  (void)state;
  const compute_target gpu = gpu_target();
  product p;
  describe(&p, COMPUTE_F32, 1, 64, 64, 65536);
  const compute_tuning t = judge(&gpu, &p, 2);
  assert_int_equal(t.variant, GEMM_SPLIT);
  assert_true(t.groups > 8);
}

static void few_columns_are_dot_products(void **state) {
  (void)state;
  const compute_target cpu = cpu_target(), gpu = gpu_target();
  product p;
  describe(&p, COMPUTE_F32, 1, 50000, 1, 1024);
  assert_int_equal(judge(&gpu, &p, 1).variant, GEMM_DOT);
  assert_int_equal(judge(&cpu, &p, 1).variant, GEMM_DOT);
  describe(&p, COMPUTE_F32, 1, 1, 50000, 1024);
  assert_int_equal(judge(&gpu, &p, 1).variant, GEMM_DOT);
  assert_int_equal(judge(&cpu, &p, 1).variant, GEMM_DIRECT);
}

static void a_cpu_packs_what_is_large(void **state) {
  (void)state;
  compute_target cpu = cpu_target();
  product p;
  describe(&p, COMPUTE_F32, 1, 1024, 1024, 1024);
  compute_tuning t = judge(&cpu, &p, 2);
  assert_int_equal(t.variant, GEMM_PACKED);
  assert_int_equal(t.vector, 16);
  assert_int_equal(t.group_x, 1);
  describe(&p, COMPUTE_F64, 1, 1024, 1024, 1024);
  assert_int_equal(judge(&cpu, &p, 2).vector, 8);
  cpu.vector_width = 8; /* sixteen registers of 32 bytes */
  describe(&p, COMPUTE_F32, 1, 1024, 1024, 1024);
  t = judge(&cpu, &p, 2);
  assert_int_equal(t.vector, 8);
  assert_true(t.item_m * (t.item_n / t.vector) <= 12);
  describe(&p, COMPUTE_F32, 1, 8, 8, 8);
  assert_int_equal(judge(&cpu, &p, 1).variant, GEMM_PLAIN);
  describe(&p, COMPUTE_F32, 1, 300, 300, 0);
  assert_int_equal(judge(&cpu, &p, 1).variant, GEMM_PLAIN);
}

/* The default choice fits a device with any limits. */
static void judgement_stays_within_the_limits(void **state) {
  (void)state;
  static const uint32_t groups[] = {0, 1, 16, 64, 128, 256, 1024};
  static const uint64_t local[] = {0, 1024, 4096, 16384, 65536};
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_F16};
  static const int64_t sizes[][3] = {{4096, 4096, 512}, {100, 100, 100}, {64, 64, 9000},
                                     {5000, 1, 777},    {3, 9000, 64},   {1, 1, 100000}};
  for (int i = 0; i < 7; i++)
    for (int j = 0; j < 5; j++)
      for (int d = 0; d < 3; d++)
        for (int s = 0; s < 6; s++) {
          compute_target gpu = gpu_target();
          gpu.group_limit = gpu.group_limit_of[0] = groups[i];
          gpu.local_bytes = local[j];
          product p;
          describe(&p, dtypes[d], 1, sizes[s][0], sizes[s][1], sizes[s][2]);
          const compute_generated *generated = generate(&gpu, &p, NULL);
          for (uint32_t l = 0; l < generated->launch_count; l++) {
            const uint32_t *group = generated->launches[l].group;
            const uint32_t limit = groups[i] ? groups[i] : 64;
            assert_true(group[0] * group[1] * group[2] <= limit);
          }
          generate_release(generated);
        }
}

static void pipelines_take_aligned_operands_and_the_local_memory_that_there_is(void **state) {
  (void)state;
  compute_target gpu = gpu_target();
  product p;
  gpu.dialect = COMPUTE_DIALECT_CUDA;
  gpu.flags |= COMPUTE_TARGET_MATRIX_CORES;
  describe(&p, COMPUTE_BF16, 1, 4096, 4096, 4096);
  for (int asked = 0; asked < 2; asked++) {
    gpu.launch_local_bytes = asked ? 160 << 10 : 0;
    const compute_generated *generated = generate(&gpu, &p, NULL);
    assert_int_equal(generated->tuning.variant, GEMM_PIPELINE);
    assert_int_equal(generated->launches[0].local_bytes > gpu.local_bytes, asked);
    assert_true(generated->launches[0].local_bytes <= gpu.launch_local_bytes);
    generate_release(generated);
  }
  describe(&p, COMPUTE_BF16, 1, 4096, 4096, 4095);
  assert_int_equal(judge(&gpu, &p, 1).variant, GEMM_MATRIX);
}

static void warpgroups_take_what_is_aligned_and_large(void **state) {
  (void)state;
  compute_target gpu = gpu_target();
  product p;
  gpu.dialect = COMPUTE_DIALECT_CUDA;
  gpu.flags |= COMPUTE_TARGET_MATRIX_CORES | COMPUTE_TARGET_WARPGROUP_MATRIX;
  describe(&p, COMPUTE_F16, 1, 4096, 4096, 4096);
  for (int asked = 0; asked < 2; asked++) {
    gpu.launch_local_bytes = asked ? 227 << 10 : 0;
    const compute_generated *generated = generate(&gpu, &p, NULL);
    assert_int_equal(generated->tuning.variant, GEMM_WARPGROUP);
    assert_int_equal(generated->launches[0].local_bytes > gpu.local_bytes, asked);
    assert_true(generated->launches[0].local_bytes <= gpu.launch_local_bytes);
    if (asked) assert_int_equal(generated->tuning.tile_m * generated->tuning.tile_n, 128 * 256);
    generate_release(generated);
  }
  describe(&p, COMPUTE_F16, 1, 4096, 4096, 4095);
  assert_int_equal(judge(&gpu, &p, 1).variant, GEMM_MATRIX);
  describe(&p, COMPUTE_F16, 1, 32, 4096, 4096);
  assert_int_equal(judge(&gpu, &p, 1).variant, GEMM_PIPELINE);
  describe(&p, COMPUTE_F16, 1, 256, 256, 512);
  assert_int_equal(judge(&gpu, &p, 1).groups, 1);
  describe(&p, COMPUTE_F16, 1, 256, 256, 8192);
  assert_true(judge(&gpu, &p, 2).groups > 1);
}

/* The workspace limit applies to parts of k: a C of 4 GiB in one part needs no workspace. */
static void a_product_in_one_part_may_be_of_any_size(void **state) {
  (void)state;
  compute_target gpu = gpu_target();
  product p;
  gpu.dialect = COMPUTE_DIALECT_CUDA;
  gpu.flags |= COMPUTE_TARGET_MATRIX_CORES;
  describe(&p, COMPUTE_BF16, 1, 32768, 32768, 64);
  assert_int_equal(judge(&gpu, &p, 1).variant, GEMM_PIPELINE);
  gpu.flags |= COMPUTE_TARGET_WARPGROUP_MATRIX;
  assert_int_equal(judge(&gpu, &p, 1).variant, GEMM_WARPGROUP);
  describe(&p, COMPUTE_BF16, 1, 32768, 32768, 63);
  assert_int_equal(judge(&gpu, &p, 1).variant, GEMM_MATRIX);
  describe(&p, COMPUTE_F32, 1, 1 << 28, 2, 512);
  assert_int_equal(judge(&gpu, &p, 1).variant, GEMM_DOT);
}

/* For a small product, packing costs as much as it saves. */
static void tf32_is_packed_for_warpgroups_where_that_pays(void **state) {
  (void)state;
  compute_target gpu = gpu_target();
  product p;
  gpu.dialect = COMPUTE_DIALECT_CUDA;
  gpu.flags |= COMPUTE_TARGET_MATRIX_CORES | COMPUTE_TARGET_WARPGROUP_MATRIX;
  gpu.launch_local_bytes = 227 << 10;
  describe(&p, COMPUTE_F32, 1, 2048, 2048, 2048);
  p.attributes.precision = COMPUTE_PRECISION_TF32;
  assert_int_equal(judge(&gpu, &p, 3).variant, GEMM_WARPGROUP);
  describe(&p, COMPUTE_F32, 1, 512, 512, 512);
  p.attributes.precision = COMPUTE_PRECISION_TF32;
  assert_int_equal(judge(&gpu, &p, 1).variant, GEMM_PIPELINE);
  describe(&p, COMPUTE_F32, 1, 20000, 20000, 20000); /* too large for packing */
  p.attributes.precision = COMPUTE_PRECISION_TF32;
  assert_int_equal(judge(&gpu, &p, 1).variant, GEMM_PIPELINE);
}

/* f64 needs units that multiply f64, and more local memory than some targets have. */
static void pipelines_of_f64_need_units_and_local_memory(void **state) {
  (void)state;
  compute_target gpu = gpu_target();
  product p;
  gpu.dialect = COMPUTE_DIALECT_CUDA;
  gpu.flags |= COMPUTE_TARGET_MATRIX_CORES;
  describe(&p, COMPUTE_F64, 1, 1024, 1024, 1024);
  assert_int_equal(judge(&gpu, &p, 1).variant, GEMM_TILED);
  gpu.flags |= COMPUTE_TARGET_MATRIX_F64;
  assert_int_equal(judge(&gpu, &p, 1).variant, GEMM_PIPELINE);
  gpu.local_bytes = 32 << 10;
  gpu.launch_local_bytes = 0;
  assert_int_equal(judge(&gpu, &p, 1).variant, GEMM_TILED);
}

/* One warp has the whole tile, so its items would have to copy all of it. */
static void pipelines_have_a_limited_number_of_copies_in_progress(void **state) {
  (void)state;
  const compute_tuning tuning = {.variant = GEMM_PIPELINE,
                                 .tile_m = 64,
                                 .tile_n = 64,
                                 .tile_k = 64,
                                 .item_m = 64,
                                 .item_n = 64,
                                 .items = 4};
  const compute_generated *generated = NULL;
  compute_target gpu = gpu_target();
  char reason[256] = "";
  product p;
  gpu.dialect = COMPUTE_DIALECT_CUDA;
  gpu.flags |= COMPUTE_TARGET_MATRIX_CORES;
  gpu.launch_local_bytes = 160 << 10;
  describe(&p, COMPUTE_BF16, 1, 4096, 4096, 4096);
  assert_int_equal(generate_kernel(&gpu, &p.descriptor, &tuning, &generated, reason, sizeof reason),
                   COMPUTE_ERROR_UNSUPPORTED);
  assert_non_null(strstr(reason, "copies in progress"));
}

/* ---- Refusals ------------------------------------------------------------------------------ */

static const struct {
  compute_tuning tuning;
  const char *reason;
} impossible[] = {
    {{.variant = 99}, "no variant"},
    {{.variant = GEMM_MATRIX}, "no matrix units"},
    {{.variant = GEMM_PIPELINE}, "no matrix units"},
    {{.variant = GEMM_WARPGROUP}, "no warpgroup matrix units"},
    {{.variant = GEMM_PLAIN, .group_x = 100000}, "too large"},
    {{.variant = GEMM_TILED, .tile_m = 512}, "out of range"},
    {{.variant = GEMM_TILED, .tile_m = 66, .item_m = 2}, "multiple of 4"},
    {{.variant = GEMM_TILED, .tile_m = 64, .item_m = 3}, "cannot be cut"},
    {{.variant = GEMM_TILED, .tile_m = 128, .tile_n = 128, .item_m = 1, .item_n = 1}, "items"},
    {{.variant = GEMM_TILED, .tile_m = 32, .tile_n = 32, .tile_k = 1, .item_m = 2, .item_n = 2},
     "evenly"},
    {{.variant = GEMM_TILED,
      .tile_m = 256,
      .tile_n = 256,
      .tile_k = 64,
      .item_m = 16,
      .item_n = 16},
     "local memory"},
    {{.variant = GEMM_TILED, .vector = 3}, "loads of 3"},
    {{.variant = GEMM_SPLIT, .groups = 1000}, "parts"},
    {{.variant = GEMM_DOT}, "columns"},
    {{.variant = GEMM_DIRECT, .vector = 8, .item_n = 12}, "vectors of 8"},
    {{.variant = GEMM_DIRECT, .vector = 4, .item_n = 64}, "too large"},
    {{.variant = GEMM_PACKED, .vector = 4, .item_n = 8, .item_m = 20}, "too large"},
};

static void impossible_parameters_are_refused_with_a_reason(void **state) {
  (void)state;
  const compute_target gpu = gpu_target();
  product p;
  describe(&p, COMPUTE_F32, 1, 500, 500, 500);
  for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
    char reason[256] = "";
    const compute_generated *generated = NULL;
    assert_int_equal(generate_kernel(&gpu, &p.descriptor, &impossible[i].tuning, &generated, reason,
                                     sizeof reason),
                     COMPUTE_ERROR_UNSUPPORTED);
    assert_null(generated);
    if (!strstr(reason, impossible[i].reason))
      fail_msg("case %d: \"%s\" does not say \"%s\"", (int)i, reason, impossible[i].reason);
  }
}

static void parameters_asked_for_are_used(void **state) {
  (void)state;
  const compute_target gpu = gpu_target();
  product p;
  describe(&p, COMPUTE_F32, 1, 500, 500, 500);
  const compute_tuning tuning = {.variant = GEMM_TILED,
                                 .tile_m = 64,
                                 .tile_n = 32,
                                 .tile_k = 8,
                                 .item_m = 4,
                                 .item_n = 2,
                                 .vector = 2};
  const compute_generated *generated = generate(&gpu, &p, &tuning);
  assert_memory_equal(&generated->tuning, &tuning, sizeof tuning);
  assert_int_equal(generated->launches[0].group[0], 16 * 16);
  assert_int_equal(generated->launches[0].groups[0], 8 * 16);
  generate_release(generated);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_that_lengthen_m_become_rows),
      cmocka_unit_test(rows_of_single_matrices_become_the_batch),
      cmocka_unit_test(coordinates_keep_their_dimensions_apart),
      cmocka_unit_test(the_short_side_and_the_dense_side_become_columns),
      cmocka_unit_test(indices_are_wide_only_where_sizes_need_it),
      cmocka_unit_test(one_source_serves_all_sizes),
      cmocka_unit_test(one_source_serves_all_layouts_that_are_packed),
      cmocka_unit_test(nothing_to_store_is_no_launch),
      cmocka_unit_test(batches_past_the_limit_of_a_grid_are_walked),
      cmocka_unit_test(a_gpu_gets_the_tile_that_keeps_it_busy),
      cmocka_unit_test(a_long_k_of_a_small_product_is_cut),
      cmocka_unit_test(few_columns_are_dot_products),
      cmocka_unit_test(a_cpu_packs_what_is_large),
      cmocka_unit_test(judgement_stays_within_the_limits),
      cmocka_unit_test(pipelines_take_aligned_operands_and_the_local_memory_that_there_is),
      cmocka_unit_test(warpgroups_take_what_is_aligned_and_large),
      cmocka_unit_test(a_product_in_one_part_may_be_of_any_size),
      cmocka_unit_test(tf32_is_packed_for_warpgroups_where_that_pays),
      cmocka_unit_test(pipelines_of_f64_need_units_and_local_memory),
      cmocka_unit_test(pipelines_have_a_limited_number_of_copies_in_progress),
      cmocka_unit_test(impossible_parameters_are_refused_with_a_reason),
      cmocka_unit_test(parameters_asked_for_are_used),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
