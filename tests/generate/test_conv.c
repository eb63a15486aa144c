/* SPDX-License-Identifier: MIT */
/* The generator's convolution from inside: its normal form, its default choices, its refusals, and
 * the descriptors that share a source. Other tests check the numbers. */
#include <stdio.h>
#include <string.h>

#include "codegen/generate/kinds/conv/conv.h"
#include "codegen/generate/generate.h"
#include "support/samples/sample_convolutions.h"
#include "support/harness/test.h"

/* Passes data between visits and the test. */
typedef struct made {
  const compute_target *target;
  const compute_tuning *tuning;
  const compute_generated *generated;
  char reason[256];
  conv_problem problem;
  compute_status status;
} made;

static void make(const sample_kernel *s, void *user) {
  made *m = user;
  m->status = generate_kernel(m->target, &s->descriptor, m->tuning, &m->generated, m->reason,
                              sizeof m->reason);
  generation g = {.target = m->target, .descriptor = &s->descriptor};
  conv_read(&g, &m->problem);
  text_release(&g.definitions);
}

/* A 3×3 convolution with padding 1; callers change it. */
static sample_convolution usual(compute_convolution_direction direction, int64_t n, int64_t c,
                                int64_t k, int64_t side) {
  return (sample_convolution){.shape = {.n = n,
                                        .c = c,
                                        .k = k,
                                        .groups = 1,
                                        .data = {side, side},
                                        .filter = {3, 3},
                                        .stride = {1, 1},
                                        .dilation = {1, 1},
                                        .padding = {1, 1}},
                              .direction = direction,
                              .dtype = COMPUTE_F32,
                              .result = COMPUTE_F32};
}

static made generate(sample_target target, const sample_convolution *c,
                     const compute_tuning *tuning) {
  const compute_target t = sample_target_create(target, COMPUTE_DIALECT_OPENCL);
  made m = {.target = &t, .tuning = tuning};
  sample_convolution_visit(c, make, &m);
  m.target = NULL;
  return m;
}

static uint32_t judge(sample_target target, const sample_convolution *c, uint32_t launches) {
  const made m = generate(target, c, NULL);
  if (m.status != COMPUTE_OK) fail_msg("refused: %s", m.reason);
  const uint32_t variant = m.generated->tuning.variant;
  assert_int_equal(m.generated->launch_count, launches);
  const uint32_t limit = sample_target_create(target, COMPUTE_DIALECT_OPENCL).group_limit;
  for (uint32_t i = 0; i < launches && limit > 0; i++)
    assert_in_range(m.generated->launches[i].group[0], 1, limit);
  assert_true(strlen(m.generated->text) > 0);
  generate_release(m.generated);
  return variant;
}

static void assert_one_source(sample_target target, const sample_convolution *a,
                              const sample_convolution *b) {
  const made first = generate(target, a, NULL), second = generate(target, b, NULL);
  assert_int_equal(first.status, COMPUTE_OK);
  assert_int_equal(second.status, COMPUTE_OK);
  assert_string_equal(first.generated->source, second.generated->source);
  generate_release(first.generated);
  generate_release(second.generated);
}

/* ---- Normal form --------------------------------------------------------------------------- */

static void the_gradient_of_the_data_is_a_convolution_of_stride_1(void **state) {
  (void)state;
  sample_convolution c = usual(COMPUTE_CONVOLUTION_BY_DATA, 2, 16, 32, 20);
  made m = generate(TARGET_GPU, &c, NULL);
  generate_release(m.generated);
  assert_false(m.problem.phased);
  assert_int_equal(m.problem.channels, 16);
  assert_int_equal(m.problem.positions, 2 * 20 * 20);
  assert_int_equal(m.problem.terms, 32 * 3 * 3);
  assert_int_equal(m.problem.by_term[0], -1);
  assert_int_equal(m.problem.product.batches, 1);
}

/* Stride 2: each of four phases has a quarter of the positions and at most 2×2 of the 3×3 taps.
 * Apart from the edge, there are no more products than in the forward direction. */
static void strides_make_phases_that_multiply_no_zeros(void **state) {
  (void)state;
  sample_convolution c = usual(COMPUTE_CONVOLUTION_BY_DATA, 2, 16, 32, 20);
  c.shape.stride[0] = c.shape.stride[1] = 2;
  made m = generate(TARGET_GPU, &c, NULL);
  generate_release(m.generated);
  assert_true(m.problem.phased);
  assert_int_equal(m.problem.product.batches, 4);
  assert_int_equal(m.problem.positions, 2 * 10 * 10);
  assert_int_equal(m.problem.terms, 32 * 2 * 2);
  c.shape.dilation[0] = c.shape.dilation[1] = 2; /* all taps fall into one phase */
  c.shape.padding[0] = c.shape.padding[1] = 2;
  m = generate(TARGET_GPU, &c, NULL);
  generate_release(m.generated);
  assert_int_equal(m.problem.terms, 32 * 3 * 3);
}

static void a_plain_product_is_given_to_gemm(void **state) {
  (void)state;
  sample_convolution c = usual(COMPUTE_CONVOLUTION_FORWARD, 4, 64, 96, 28);
  c.shape.filter[0] = c.shape.filter[1] = 1;
  c.shape.padding[0] = c.shape.padding[1] = 0;
  for (int direction = 0; direction < 2; direction++) {
    c.direction = (compute_convolution_direction)direction;
    made m = generate(TARGET_GPU, &c, NULL);
    assert_non_null(strstr(m.generated->text, "GEMM"));
    generate_release(m.generated);
  }
  c.shape.stride[0] = c.shape.stride[1] = 2; /* rows of positions are not adjacent */
  c.direction = COMPUTE_CONVOLUTION_FORWARD;
  made m = generate(TARGET_GPU, &c, NULL);
  assert_null(strstr(m.generated->text, "GEMM"));
  generate_release(m.generated);
  /* a window over all of the data */
  c = usual(COMPUTE_CONVOLUTION_FORWARD, 50, 8, 40, 3);
  c.shape.padding[0] = c.shape.padding[1] = 0;
  m = generate(TARGET_GPU, &c, NULL);
  assert_non_null(strstr(m.generated->text, "GEMM"));
  generate_release(m.generated);
}

/* ---- Sources ------------------------------------------------------------------------------- */

static void one_source_serves_all_sizes_filters_and_strides(void **state) {
  (void)state;
  sample_convolution a = usual(COMPUTE_CONVOLUTION_FORWARD, 8, 64, 64, 56), b = a;
  b.shape =
      (sample_convolution_shape){4, 33, 40, 1, {41, 37}, {5, 7}, {2, 2}, {1, 3}, {2, 4}, {0, 0}};
  assert_one_source(TARGET_CPU, &a, &b);
  b.shape.n = 40; /* as many tiles */
  b.shape.k = 130;
  const compute_tuning tiled = {
      .variant = CONV_TILED, .tile_m = 64, .tile_n = 64, .tile_k = 16, .item_m = 4, .item_n = 4};
  const made first = generate(TARGET_GPU, &a, &tiled), second = generate(TARGET_GPU, &b, &tiled);
  assert_string_equal(first.generated->source, second.generated->source);
  generate_release(first.generated);
  generate_release(second.generated);
}

static void directions_of_one_layout_differ_only_in_strides(void **state) {
  (void)state;
  const compute_tuning plain = {.variant = CONV_PLAIN};
  sample_convolution a = usual(COMPUTE_CONVOLUTION_FORWARD, 2, 9, 9, 9), b = a;
  b.direction = COMPUTE_CONVOLUTION_BY_DATA;
  const made first = generate(TARGET_GPU, &a, &plain), second = generate(TARGET_GPU, &b, &plain);
  assert_string_equal(first.generated->source, second.generated->source);
  generate_release(first.generated);
  generate_release(second.generated);
}

static void nothing_to_store_is_no_launch(void **state) {
  (void)state;
  for (int target = 0; target < TARGET_COUNT; target++) {
    const sample_convolution c = usual(COMPUTE_CONVOLUTION_FORWARD, 0, 3, 4, 9);
    const made m = generate((sample_target)target, &c, NULL);
    assert_int_equal(m.status, COMPUTE_OK);
    assert_int_equal(m.generated->launch_count, 0);
    generate_release(m.generated);
  }
}

/* ---- Default choices ----------------------------------------------------------------------- */

static void a_gpu_gets_tiles_parts_sums_or_stretches(void **state) {
  (void)state;
  sample_convolution c = usual(COMPUTE_CONVOLUTION_FORWARD, 8, 64, 64, 56);
  assert_int_equal(judge(TARGET_GPU, &c, 1), CONV_TILED);
  c = usual(COMPUTE_CONVOLUTION_BY_FILTER, 8, 24, 24, 56); /* few results of long sums */
  assert_int_equal(judge(TARGET_GPU, &c, 2), CONV_SPLIT);
  c = usual(COMPUTE_CONVOLUTION_FORWARD, 8, 64, 64, 56);
  c.shape.groups = 64;
  assert_int_equal(judge(TARGET_GPU, &c, 1), CONV_DIRECT);
  c.direction = COMPUTE_CONVOLUTION_BY_FILTER;
  assert_int_equal(judge(TARGET_GPU, &c, 1), CONV_PLACES);
  c = usual(COMPUTE_CONVOLUTION_BY_FILTER, 8, 1, 1, 224); /* nine sums for all compute units */
  assert_int_equal(judge(TARGET_GPU, &c, 2), CONV_PLACES);
  c.shape.filter[0] = c.shape.filter[1] = 11; /* more than one item can hold */
  assert_int_equal(judge(TARGET_GPU, &c, 1), CONV_DOT);
}

/* This form needs asynchronous copies and overlapping windows. */
static void rows_of_data_serve_all_places_of_a_filter(void **state) {
  (void)state;
  static const struct {
    int64_t c, k, stride, filter;
    bool serve;
  } cases[] = {{64, 128, 1, 3, true}, {64, 64, 1, 3, true},  {64, 64, 1, 2, true},
               {64, 64, 2, 3, false}, {64, 64, 1, 5, false}, {3, 64, 1, 3, false}};
  const compute_target t = sample_target_create(TARGET_GPU, COMPUTE_DIALECT_CUDA);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    sample_convolution c = usual(COMPUTE_CONVOLUTION_BY_FILTER, 8, cases[i].c, cases[i].k, 56);
    c.shape.stride[0] = c.shape.stride[1] = cases[i].stride;
    c.shape.filter[0] = c.shape.filter[1] = cases[i].filter;
    made m = {.target = &t};
    sample_convolution_visit(&c, make, &m);
    assert_int_equal(m.status, COMPUTE_OK);
    assert_int_equal(m.generated->tuning.variant == CONV_FILTER, cases[i].serve);
    generate_release(m.generated);
  }
}

/* The first suitable form refuses, and another one takes its place. */
static void without_room_for_rows_a_filter_gets_another_form(void **state) {
  (void)state;
  const sample_convolution c = usual(COMPUTE_CONVOLUTION_BY_FILTER, 8, 64, 128, 56);
  compute_target t = sample_target_create(TARGET_GPU, COMPUTE_DIALECT_CUDA);
  t.local_bytes = 16 << 10;
  t.launch_local_bytes = 0;
  made m = {.target = &t};
  sample_convolution_visit(&c, make, &m);
  assert_int_equal(m.status, COMPUTE_OK);
  assert_int_equal(m.generated->tuning.variant, CONV_TILED);
  assert_string_equal(m.reason, "");
  generate_release(m.generated);
}

static void large_ones_are_filtered_where_that_is_allowed(void **state) {
  (void)state;
  for (int direction = 0; direction < 3; direction++) {
    const bool by_filter = direction == COMPUTE_CONVOLUTION_BY_FILTER;
    sample_convolution c = usual((compute_convolution_direction)direction, 8, 64, 64, 56);
    assert_int_not_equal(judge(TARGET_GPU, &c, 1), CONV_WINOGRAD);
    c.precision = COMPUTE_PRECISION_WINOGRAD;
    assert_int_equal(judge(TARGET_GPU, &c, by_filter ? 1 : 4) == CONV_WINOGRAD, !by_filter);
    c.shape.n = 1; /* too little work */
    if (!by_filter) assert_int_not_equal(judge(TARGET_GPU, &c, 1), CONV_WINOGRAD);
  }
}

static void a_cpu_packs_what_has_channels(void **state) {
  (void)state;
  sample_convolution c = usual(COMPUTE_CONVOLUTION_FORWARD, 8, 64, 64, 56);
  assert_int_equal(judge(TARGET_CPU, &c, 2), CONV_PACKED);
  c.direction = COMPUTE_CONVOLUTION_BY_FILTER; /* the panels fit into the cache */
  assert_int_equal(judge(TARGET_CPU, &c, 3), CONV_PACKED);
  c.shape.groups = 64;
  assert_int_equal(judge(TARGET_CPU, &c, 1), CONV_DOT);
  c.direction = COMPUTE_CONVOLUTION_BY_DATA;
  assert_int_equal(judge(TARGET_CPU, &c, 1), CONV_DIRECT);
  c = usual(COMPUTE_CONVOLUTION_FORWARD, 1, 2, 2, 6);
  assert_int_equal(judge(TARGET_CPU, &c, 1), CONV_PLAIN);
}

/* The last candidate, on which a backend falls back. */
static void a_target_with_nothing_gets_a_plain_version(void **state) {
  (void)state;
  sample_convolution c = usual(COMPUTE_CONVOLUTION_FORWARD, 8, 64, 64, 56);
  for (int direction = 0; direction < 3; direction++) {
    compute_target t = sample_target_create(TARGET_GPU, COMPUTE_DIALECT_OPENCL);
    t.flags = 0;
    t.group_limit = t.group_limit_of[0] = t.group_limit_of[1] = t.group_limit_of[2] = 1;
    t.local_bytes = 0;
    made m = {.target = &t};
    c.direction = (compute_convolution_direction)direction;
    sample_convolution_visit(&c, make, &m);
    assert_int_equal(m.status, COMPUTE_OK);
    assert_int_equal(m.generated->tuning.variant, CONV_PLAIN);
    assert_int_equal(m.generated->launches[0].group[0], 1);
    generate_release(m.generated);
  }
}

static void default_choices_stay_within_the_limits(void **state) {
  (void)state;
  static const uint32_t groups[] = {0, 1, 16, 64, 128, 256, 1024};
  static const uint64_t local[] = {0, 1024, 4096, 16384, 65536};
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_F16};
  for (int i = 0; i < 7 * 5 * 3 * 3 * 2; i++) {
    compute_target t = sample_target_create(TARGET_GPU, COMPUTE_DIALECT_OPENCL);
    t.group_limit = t.group_limit_of[0] = groups[i % 7];
    t.local_bytes = local[i / 7 % 5];
    sample_convolution c = usual((compute_convolution_direction)(i / 105 % 3), 4, 40, 48, 30);
    c.dtype = c.result = dtypes[i / 35 % 3];
    c.shape.groups = i / 315 ? 8 : 1;
    made m = {.target = &t};
    sample_convolution_visit(&c, make, &m);
    if (m.status != COMPUTE_OK) fail_msg("refused: %s", m.reason);
    for (uint32_t l = 0; l < m.generated->launch_count; l++)
      assert_true(m.generated->launches[l].group[0] <= (groups[i % 7] ? groups[i % 7] : 64));
    generate_release(m.generated);
  }
}

/* ---- Refusals ------------------------------------------------------------------------------ */

static const struct {
  compute_tuning tuning;
  const char *reason;
} impossible[] = {
    {{.variant = 99}, "no variant"},
    {{.variant = CONV_PLAIN, .group_x = 100000}, "too large"},
    {{.variant = CONV_TILED, .tile_m = 512}, "out of range"},
    {{.variant = CONV_TILED, .tile_m = 64, .tile_n = 64, .item_m = 16, .item_n = 16, .tile_k = 32},
     "whole lines"},
    {{.variant = CONV_TILED,
      .tile_m = 256,
      .tile_n = 256,
      .tile_k = 64,
      .item_m = 16,
      .item_n = 16},
     "local memory"},
    {{.variant = CONV_SPLIT, .groups = 1000}, "parts"},
    {{.variant = CONV_DOT, .group_x = 100}, "add up"},
    {{.variant = CONV_DOT, .groups = 65}, "parts"},
    {{.variant = CONV_DIRECT, .item_m = 17}, "too many"},
    {{.variant = CONV_WINOGRAD}, "not one that"},
    {{.variant = CONV_PACKED, .vector = 8, .item_n = 12}, "vectors of 8"},
    {{.variant = CONV_PACKED, .vector = 4, .item_n = 8, .item_m = 20}, "too large"},
};

static void impossible_parameters_are_refused_with_a_reason(void **state) {
  (void)state;
  const sample_convolution c = usual(COMPUTE_CONVOLUTION_FORWARD, 8, 64, 64, 56);
  for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
    const made m = generate(TARGET_GPU, &c, &impossible[i].tuning);
    if (m.status != COMPUTE_ERROR_UNSUPPORTED || m.generated)
      fail_msg("case %d is accepted", (int)i);
    if (!strstr(m.reason, impossible[i].reason))
      fail_msg("case %d: \"%s\" does not say \"%s\"", (int)i, m.reason, impossible[i].reason);
  }
}

static void sums_of_phases_are_not_cut(void **state) {
  (void)state;
  const compute_tuning split = {.variant = CONV_SPLIT, .groups = 4};
  sample_convolution c = usual(COMPUTE_CONVOLUTION_BY_DATA, 2, 16, 32, 20);
  c.shape.stride[0] = 2;
  const made m = generate(TARGET_GPU, &c, &split);
  assert_int_equal(m.status, COMPUTE_ERROR_UNSUPPORTED);
  assert_non_null(strstr(m.reason, "phases"));
}

/* Visits return the text for a GPU with matrix units, once with and once without TF32. */
typedef struct two_texts {
  char plain[160], tf32[160];
} two_texts;

static void write_both(const sample_kernel *s, void *user) {
  two_texts *texts = user;
  const compute_target gpu = sample_target_create(TARGET_GPU, COMPUTE_DIALECT_CUDA);
  for (int allowed = 0; allowed < 2; allowed++) {
    compute_conv_attributes attributes = *compute_conv_of(&s->descriptor);
    compute_kernel_descriptor d = s->descriptor;
    const compute_generated *generated = NULL;
    char reason[160] = "", *text = allowed ? texts->tf32 : texts->plain;
    attributes.precision = allowed ? COMPUTE_PRECISION_TF32 : 0;
    d.attributes = &attributes;
    assert_int_equal(generate_kernel(&gpu, &d, NULL, &generated, reason, sizeof reason),
                     COMPUTE_OK);
    snprintf(text, sizeof texts->plain, "%s", generated->text);
    generate_release(generated);
  }
}

static void a_plain_product_has_the_precision_of_its_convolution(void **state) {
  (void)state;
  two_texts texts;
  sample_convolution c = usual(COMPUTE_CONVOLUTION_FORWARD, 8, 256, 256, 28);
  for (int i = 0; i < 2; i++) {
    c.shape.filter[i] = 1;
    c.shape.padding[i] = 0;
  }
  sample_convolution_visit(&c, write_both, &texts);
  assert_non_null(strstr(texts.tf32, "matrix units (tf32)"));
  assert_null(strstr(texts.plain, "matrix units"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_gradient_of_the_data_is_a_convolution_of_stride_1),
      cmocka_unit_test(strides_make_phases_that_multiply_no_zeros),
      cmocka_unit_test(a_plain_product_is_given_to_gemm),
      cmocka_unit_test(one_source_serves_all_sizes_filters_and_strides),
      cmocka_unit_test(directions_of_one_layout_differ_only_in_strides),
      cmocka_unit_test(nothing_to_store_is_no_launch),
      cmocka_unit_test(a_gpu_gets_tiles_parts_sums_or_stretches),
      cmocka_unit_test(rows_of_data_serve_all_places_of_a_filter),
      cmocka_unit_test(without_room_for_rows_a_filter_gets_another_form),
      cmocka_unit_test(large_ones_are_filtered_where_that_is_allowed),
      cmocka_unit_test(a_cpu_packs_what_has_channels),
      cmocka_unit_test(a_target_with_nothing_gets_a_plain_version),
      cmocka_unit_test(default_choices_stay_within_the_limits),
      cmocka_unit_test(impossible_parameters_are_refused_with_a_reason),
      cmocka_unit_test(sums_of_phases_are_not_cut),
      cmocka_unit_test(a_plain_product_has_the_precision_of_its_convolution),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
