/* SPDX-License-Identifier: MIT */
/* The division of rows: every element once, the whole device busy, few sources. test_numbers.c
 * checks the results. */
#include <string.h>

#include "codegen/generate/generate.h"
#include "support/samples/sample_kernels.h"
#include "support/harness/test.h"
#include "codegen/generate/kinds/plan.h"

static const int64_t lengths[] = {1, 2, 9, 32, 33, 129, 1000, 1025, 4097, 20011, 3000017};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* `rows` rows with contiguous elements, or elements `rows` apart if `across`. */
typedef struct sample {
  compute_operand in, out;
  compute_kernel_descriptor d;
} sample;

static const compute_row_attributes softmax = {COMPUTE_ROW_SOFTMAX, 0};

static void make(int64_t rows, int64_t length, bool across, sample *s) {
  const compute_operand operand = {COMPUTE_F32, {across ? 1 : length, across ? rows : 1}};
  *s = (sample){
      .in = operand,
      .out = operand,
      .d = {.struct_size = sizeof s->d,
            .kind = COMPUTE_KERNEL_ROW,
            .rank = 2,
            .size = {rows, length},
            .input_count = 1,
            .output_count = 1,
            .prologue_inputs = 1,
            .accumulate = COMPUTE_F32,
            .attributes = &softmax,
            .attribute_bytes = sizeof softmax},
  };
  s->d.inputs = &s->in;
  s->d.outputs = &s->out;
}

static void check_plan(sample_target target, int64_t rows, int64_t length, bool across) {
  const compute_target t = sample_target_create(target, COMPUTE_DIALECT_C);
  char reason[200];
  sample s;
  make(rows, length, across, &s);
  generation g = {
      .target = &t, .descriptor = &s.d, .reason = reason, .reason_bytes = sizeof reason};
  emit_space space;
  space_begin(&space, "space", 2, s.d.size);
  space.fence = 1;
  space_add(&space, "in0", s.in.stride);
  space_add(&space, "out0", s.out.stride);
  space_canonicalise(&g, &space);
  const row_problem problem = {&space, 0, rows, length, 4};
  row_cut cut;
  assert_true(row_plan(&g, &problem, &cut));
  assert_true(cut.splits >= 1 && cut.splits <= 65535);
  assert_true(cut.splits * cut.share >= length && (cut.splits - 1) * cut.share < length);
  switch (cut.form) {
  case ROW_HELD: assert_true(length <= (int64_t)cut.lanes * cut.items); /* fall through */
  case ROW_LONG:
    assert_int_equal(cut.lanes * cut.rows, cut.group);
    assert_true(cut.tiles * cut.rows >= rows && (cut.tiles - 1) * cut.rows < rows);
    break;
  case ROW_ACROSS:
    assert_int_equal(cut.splits, 1);
    assert_true(cut.width <= cut.inner && cut.pieces * cut.width >= cut.inner);
    assert_int_equal(cut.tiles, rows / cut.inner * cut.pieces);
    break;
  case ROW_ITEM: assert_int_equal(cut.tiles, rows); break;
  }
  if (cut.form == ROW_ITEM || cut.form == ROW_ACROSS)
    assert_true(cut.groups * cut.run >= cut.tiles && (cut.groups - 1) * cut.run < cut.tiles);
}

static void every_element_belongs_to_one_part(void **state) {
  (void)state;
  for (int target = 0; target < TARGET_COUNT; target++)
    for (int r = 0; r < LENGTHS; r++)
      for (int l = 0; l < LENGTHS; l++) {
        check_plan((sample_target)target, lengths[r], lengths[l], false);
        check_plan((sample_target)target, lengths[r], lengths[l], true);
      }
}

static const compute_generated *generate(sample_target target, const sample *s,
                                         const compute_tuning *tuning) {
  const compute_target t = sample_target_create(target, COMPUTE_DIALECT_OPENCL);
  const compute_generated *generated;
  char reason[200];
  assert_int_equal(generate_kernel(&t, &s->d, tuning, &generated, reason, sizeof reason),
                   COMPUTE_OK);
  return generated;
}

static void a_long_row_is_split_over_the_device(void **state) {
  (void)state;
  for (int target = TARGET_CPU; target <= TARGET_GPU; target++) {
    const compute_target t = sample_target_create((sample_target)target, COMPUTE_DIALECT_OPENCL);
    sample s;
    make(1, 1 << 20, false, &s);
    const compute_generated *g = generate((sample_target)target, &s, NULL);
    assert_int_equal(g->launch_count, 2);
    assert_true(g->workspace_bytes > 0);
    assert_true(g->launches[0].groups[0] * g->launches[0].groups[1] >= t.compute_units);
    generate_release(g);
    make(100000, 300, false, &s);
    g = generate((sample_target)target, &s, NULL);
    assert_int_equal(g->launch_count, 1);
    generate_release(g);
  }
}

static void neighbours_in_memory_are_read_together(void **state) {
  (void)state;
  for (int target = 0; target < TARGET_COUNT; target++)
    for (int across = 0; across <= 1; across++) {
      sample s;
      make(512, 512, across, &s);
      const compute_generated *g = generate((sample_target)target, &s, NULL);
      assert_int_equal(g->tuning.variant, across ? 2 : 1);
      generate_release(g);
    }
}

static void one_source_serves_many_sizes(void **state) {
  (void)state;
  static const int64_t sizes[][2] = {{3000, 600}, {3001, 1000}, {70001, 555}};
  for (int target = 0; target < TARGET_COUNT; target++) {
    const compute_generated *g[3];
    for (int i = 0; i < 3; i++) {
      sample s;
      make(sizes[i][0], sizes[i][1], false, &s);
      g[i] = generate((sample_target)target, &s, NULL);
      if (i > 0) assert_string_equal(g[i]->source, g[0]->source);
    }
    for (int i = 0; i < 3; i++) generate_release(g[i]);
  }
}

static void no_elements_need_no_launch(void **state) {
  (void)state;
  for (int empty = 0; empty < 2; empty++) {
    sample s;
    make(empty ? 0 : 5, empty ? 5 : 0, false, &s);
    const compute_generated *g = generate(TARGET_GPU, &s, NULL);
    assert_int_equal(g->launch_count, 0);
    generate_release(g);
  }
}

static void only_neighbours_are_loaded_at_once(void **state) {
  (void)state;
  const compute_tuning tuning = {.vector = 4};
  for (int64_t stride = -1; stride <= 2; stride++) {
    sample s;
    make(64, 512, false, &s);
    s.in.stride[1] = stride;
    const compute_generated *g = generate(TARGET_GPU, &s, &tuning);
    assert_int_equal(g->tuning.vector, stride == 0 || stride == 1 ? 4 : 1);
    generate_release(g);
  }
  sample s;
  make(64, 1, false, &s);
  const compute_generated *g = generate(TARGET_GPU, &s, &tuning);
  assert_int_equal(g->tuning.vector, 1);
  generate_release(g);
}

static void parameters_that_cannot_work_are_refused(void **state) {
  (void)state;
  static const struct {
    sample_target target;
    compute_tuning tuning;
  } cases[] = {{TARGET_GPU, {.group_x = 48}}, {TARGET_GPU, {.group_x = 1 << 16}},
               {TARGET_GPU, {.tile_k = 3}},   {TARGET_GPU, {.group_x = 64, .tile_k = 128}},
               {TARGET_GPU, {.items = 1000}}, {TARGET_GPU, {.variant = 3}},
               {TARGET_CPU, {.vector = 24}},  {TARGET_CPU, {.variant = 2, .vector = 64}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const compute_target t = sample_target_create(cases[i].target, COMPUTE_DIALECT_OPENCL);
    const compute_generated *generated;
    char reason[200] = "";
    sample s;
    make(30, 3000, false, &s); /* more than the 30 rows: 64 per group */
    assert_int_equal(generate_kernel(&t, &s.d, &cases[i].tuning, &generated, reason, sizeof reason),
                     COMPUTE_ERROR_UNSUPPORTED);
    assert_true(strlen(reason) > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_element_belongs_to_one_part),
      cmocka_unit_test(a_long_row_is_split_over_the_device),
      cmocka_unit_test(neighbours_in_memory_are_read_together),
      cmocka_unit_test(one_source_serves_many_sizes),
      cmocka_unit_test(no_elements_need_no_launch),
      cmocka_unit_test(only_neighbours_are_loaded_at_once),
      cmocka_unit_test(parameters_that_cannot_work_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
