/* SPDX-License-Identifier: MIT */
/* The division of WINDOW, SCAN, TOP_K and ATTENTION into work. */
#include <string.h>

#include "codegen/generate/generate.h"
#include "support/samples/sample_kernels.h"
#include "support/harness/test.h"

typedef struct problem {
  compute_kernel_descriptor d;
  any_attributes attributes;
  compute_operand inputs[4], outputs[1];
} problem;

static void begin(problem *p, compute_kernel_kind kind, compute_shape space) {
  memset(p, 0, sizeof *p);
  p->d = (compute_kernel_descriptor){.struct_size = sizeof p->d,
                                     .kind = kind,
                                     .rank = space.rank,
                                     .input_count = 1,
                                     .output_count = 1,
                                     .accumulate = COMPUTE_F32};
  for (int32_t i = 0; i < space.rank; i++) p->d.size[i] = space.size[i];
  for (int i = 0; i < 4; i++) p->inputs[i].dtype = COMPUTE_F32;
  p->outputs[0].dtype = kind == COMPUTE_KERNEL_TOP_K ? COMPUTE_I64 : COMPUTE_F32;
  attributes_bind(&p->d, &p->attributes);
  p->d.inputs = p->inputs;
  p->d.outputs = p->outputs;
  sample_dense(&p->d, 255, p->outputs[0].stride);
  for (int i = 0; i < 4; i++) sample_dense(&p->d, 255, p->inputs[i].stride);
}

static void make_scan(problem *p, int64_t rows, int64_t length) {
  begin(p, COMPUTE_KERNEL_SCAN, COMPUTE_SHAPE(rows, length));
}

static void make_top(problem *p, int64_t rows, int64_t length, int64_t k) {
  begin(p, COMPUTE_KERNEL_TOP_K, COMPUTE_SHAPE(rows, k));
  p->attributes.top_k.axis_size = length;
  p->inputs[0].stride[0] = length;
}

static void make_attention(problem *p, int64_t batch, int64_t queries, int64_t keys) {
  begin(p, COMPUTE_KERNEL_ATTENTION, COMPUTE_SHAPE(batch, queries, 64));
  p->d.input_count = 3;
  p->attributes.attention =
      (compute_attention_attributes){.keys = keys, .width = 64, .scale = 0.125};
  p->inputs[1].stride[0] = p->inputs[2].stride[0] = keys * 64;
}

static void make_maxima(problem *p, int64_t size, int64_t stride) {
  begin(p, COMPUTE_KERNEL_WINDOW, COMPUTE_SHAPE(4, 8, 56, 56));
  const int64_t results = (56 - size) / stride + 1;
  p->d.input_count = 2;
  p->attributes.window = (compute_window_attributes){.operation = COMPUTE_WINDOW_MAX,
                                                     .by_data = true,
                                                     .data_size = {56, 56},
                                                     .result_size = {results, results},
                                                     .size = {size, size},
                                                     .stride = {stride, stride},
                                                     .dilation = {1, 1}};
  const int64_t strides[4] = {8 * results * results, results * results, results, 1};
  memcpy(p->inputs[1].stride, strides, sizeof strides);
}

static const compute_generated *generate(sample_target target, const problem *p,
                                         const compute_tuning *tuning) {
  const compute_target t = sample_target_create(target, COMPUTE_DIALECT_OPENCL);
  const compute_generated *generated;
  char reason[200] = "";
  if (generate_kernel(&t, &p->d, tuning, &generated, reason, sizeof reason)) fail_msg("%s", reason);
  return generated;
}

static void a_long_row_is_shared_by_the_device(void **state) {
  (void)state;
  for (int target = TARGET_CPU; target <= TARGET_GPU; target++) {
    problem p;
    make_scan(&p, 1, 1 << 22);
    const compute_generated *g = generate((sample_target)target, &p, NULL);
    assert_int_equal(g->launch_count, 2);
    assert_true(g->workspace_bytes > 0);
    assert_true(g->launches[1].groups[0] >= 8);
    generate_release(g);
    make_top(&p, 1, 1 << 22, 5);
    g = generate((sample_target)target, &p, NULL);
    assert_int_equal(g->launch_count, 2);
    assert_true(g->launches[0].groups[0] >= 8);
    generate_release(g);
    make_scan(&p, 10000, 1000);
    g = generate((sample_target)target, &p, NULL);
    assert_int_equal(g->launch_count, 1);
    generate_release(g);
  }
}

static void the_way_to_the_largest_follows_their_number(void **state) {
  (void)state;
  static const struct {
    int64_t rows, length, k;
    uint32_t variant[2]; /* on a CPU, on a GPU */
  } cases[] = {{5000, 20, 3, {1, 1}},
               {10, 5000, 10, {2, 2}},
               {10, 5000, 500, {3, 3}},
               {10, 50000, 40000, {4, 4}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int target = TARGET_CPU; target <= TARGET_GPU; target++) {
      problem p;
      make_top(&p, cases[i].rows, cases[i].length, cases[i].k);
      const compute_generated *g = generate((sample_target)target, &p, NULL);
      assert_int_equal(g->tuning.variant, cases[i].variant[target]);
      generate_release(g);
    }
}

static void sorting_rows_takes_bounded_memory(void **state) {
  (void)state;
  problem p;
  make_top(&p, 100000, 1000000, 900000);
  const compute_generated *g = generate(TARGET_GPU, &p, NULL);
  assert_true(g->workspace_bytes <= UINT64_C(1) << 28);
  generate_release(g);
}

static void overlapping_windows_note_their_maxima(void **state) {
  (void)state;
  problem p;
  make_maxima(&p, 2, 2);
  const compute_generated *g = generate(TARGET_GPU, &p, NULL);
  assert_int_equal(g->launch_count, 1);
  generate_release(g);
  make_maxima(&p, 5, 1);
  g = generate(TARGET_GPU, &p, NULL);
  assert_int_equal(g->launch_count, 2);
  assert_int_equal(g->workspace_bytes, 4 * 4 * 8 * 52 * 52);
  generate_release(g);
}

/* On GPUs, each small window has a separate source. Larger windows share one source for all
 * sizes. */
static void small_windows_are_text_of_their_own(void **state) {
  (void)state;
  static const struct {
    int64_t size, stride;
    uint32_t variant;
  } cases[] = {{2, 2, 3}, {3, 2, 3}, {3, 1, 3}, {5, 1, 2}, {7, 7, 2}, {3, 5, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    problem p;
    make_maxima(&p, cases[i].size, cases[i].stride);
    const compute_generated *g = generate(TARGET_GPU, &p, NULL);
    assert_int_equal(g->tuning.variant, cases[i].variant);
    generate_release(g);
    g = generate(TARGET_CPU, &p, NULL);
    assert_true(g->tuning.variant < 3);
    generate_release(g);
  }
}

/* A device with small limits gets smaller tiles, or none. */
static void attention_goes_by_tiles_where_they_fit(void **state) {
  (void)state;
  problem p;
  make_attention(&p, 16, 512, 512);
  const compute_generated *g = generate(TARGET_GPU, &p, NULL);
  assert_int_equal(g->tuning.variant, 2);
  assert_int_equal(g->launches[0].groups[0], 16 * 512 / g->tuning.tile_m);
  generate_release(g);
  for (int i = 0; i < 2; i++) {
    make_attention(&p, 16, i ? 1 : 512, 512);
    g = generate(i ? TARGET_GPU : TARGET_CPU, &p, NULL);
    assert_int_equal(g->tuning.variant, 1);
    generate_release(g);
  }
}

/* On a GPU with warpgroups. If there are few groups of 128 queries, two halves of a group divide
 * the keys. */
static void groups_of_attention_follow_their_number(void **state) {
  (void)state;
  static const struct {
    compute_dtype dtype;
    int64_t batch, queries;
    uint32_t variant, tile_m, group_x;
  } cases[] = {{COMPUTE_F32, 64, 512, 2, 128, 128}, {COMPUTE_F32, 4, 256, 2, 64, 256},
               {COMPUTE_F32, 2, 128, 2, 16, 256},   {COMPUTE_BF16, 64, 512, 4, 128, 256},
               {COMPUTE_BF16, 4, 256, 4, 64, 256},  {COMPUTE_F16, 64, 512, 4, 128, 256}};
  compute_target t = sample_target_create(TARGET_GPU, COMPUTE_DIALECT_CUDA);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const compute_generated *g;
    char reason[200] = "";
    problem p;
    make_attention(&p, cases[i].batch, cases[i].queries, 512);
    for (int j = 0; j < 3; j++) p.inputs[j].dtype = cases[i].dtype;
    p.outputs[0].dtype = cases[i].dtype;
    if (generate_kernel(&t, &p.d, NULL, &g, reason, sizeof reason)) fail_msg("%s", reason);
    assert_int_equal(g->tuning.variant, cases[i].variant);
    assert_int_equal(g->tuning.tile_m, cases[i].tile_m);
    assert_int_equal(g->tuning.group_x, cases[i].group_x);
    assert_true(g->launches[0].local_bytes <= t.launch_local_bytes);
    generate_release(g);
  }
  t.flags &= ~(uint32_t)COMPUTE_TARGET_WARPGROUP_MATRIX;
  const compute_tuning asked = {.variant = 4};
  const compute_generated *g;
  char reason[200] = "";
  problem p;
  make_attention(&p, 64, 512, 512);
  for (int j = 0; j < 3; j++) p.inputs[j].dtype = COMPUTE_BF16;
  p.outputs[0].dtype = COMPUTE_BF16;
  assert_int_equal(generate_kernel(&t, &p.d, &asked, &g, reason, sizeof reason),
                   COMPUTE_ERROR_UNSUPPORTED);
  if (generate_kernel(&t, &p.d, NULL, &g, reason, sizeof reason)) fail_msg("%s", reason);
  assert_int_equal(g->tuning.variant, 3);
  generate_release(g);
}

static void one_source_serves_many_sizes(void **state) {
  (void)state;
  for (int target = 0; target < TARGET_COUNT; target++) {
    const compute_generated *g[2];
    for (int kind = 0; kind < 4; kind++) {
      for (int i = 0; i < 2; i++) {
        problem p;
        if (kind == 0) make_scan(&p, 3000 + 17 * i, 5000 + i);
        if (kind == 1) make_top(&p, 3000 + 17 * i, 5000 + i, 7);
        if (kind == 2) make_attention(&p, 5 + i, 400 + 3 * i, 300 + i);
        if (kind == 3) make_maxima(&p, 5 + i, 2);
        g[i] = generate((sample_target)target, &p, NULL);
      }
      assert_string_equal(g[0]->source, g[1]->source);
      for (int i = 0; i < 2; i++) generate_release(g[i]);
    }
  }
}

static void parameters_that_cannot_work_are_refused(void **state) {
  (void)state;
  static const struct {
    compute_kernel_kind kind;
    compute_tuning tuning;
  } cases[] = {{COMPUTE_KERNEL_SCAN, {.variant = 3}},
               {COMPUTE_KERNEL_SCAN, {.variant = 2, .items = 3}},
               {COMPUTE_KERNEL_SCAN, {.variant = 2, .group_x = 1024, .items = 32}},
               {COMPUTE_KERNEL_TOP_K, {.variant = 5}},
               {COMPUTE_KERNEL_TOP_K, {.variant = 2}},
               {COMPUTE_KERNEL_TOP_K, {.variant = 3}},
               {COMPUTE_KERNEL_ATTENTION, {.variant = 3}},
               {COMPUTE_KERNEL_ATTENTION, {.variant = 2, .tile_m = 12}},
               {COMPUTE_KERNEL_ATTENTION, {.variant = 2, .tile_n = 512}},
               {COMPUTE_KERNEL_ATTENTION, {.variant = 1, .item_n = 1000}},
               {COMPUTE_KERNEL_WINDOW, {.variant = 4}},
               {COMPUTE_KERNEL_WINDOW, {.variant = 3, .item_n = 3}},
               {COMPUTE_KERNEL_WINDOW, {.variant = 3, .item_n = 64}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const compute_target t = sample_target_create(TARGET_GPU, COMPUTE_DIALECT_OPENCL);
    const compute_generated *generated;
    char reason[200] = "";
    problem p;
    make_scan(&p, 3, 100000);
    if (cases[i].kind == COMPUTE_KERNEL_TOP_K) make_top(&p, 3, 10000, 9000);
    if (cases[i].kind == COMPUTE_KERNEL_ATTENTION) make_attention(&p, 3, 100, 100);
    if (cases[i].kind == COMPUTE_KERNEL_WINDOW) make_maxima(&p, 3, 2);
    assert_int_equal(generate_kernel(&t, &p.d, &cases[i].tuning, &generated, reason, sizeof reason),
                     COMPUTE_ERROR_UNSUPPORTED);
    assert_true(strlen(reason) > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_long_row_is_shared_by_the_device),
      cmocka_unit_test(the_way_to_the_largest_follows_their_number),
      cmocka_unit_test(sorting_rows_takes_bounded_memory),
      cmocka_unit_test(overlapping_windows_note_their_maxima),
      cmocka_unit_test(small_windows_are_text_of_their_own),
      cmocka_unit_test(attention_goes_by_tiles_where_they_fit),
      cmocka_unit_test(groups_of_attention_follow_their_number),
      cmocka_unit_test(one_source_serves_many_sizes),
      cmocka_unit_test(parameters_that_cannot_work_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
