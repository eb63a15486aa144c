/* SPDX-License-Identifier: MIT */
/* The division of reductions: every element once, the whole device busy, few sources.
 * test_numbers.c checks the results. */
#include <string.h>

#include "codegen/generate/generate.h"
#include "support/samples/sample_kernels.h"
#include "support/harness/test.h"
#include "codegen/generate/kinds/plan.h"

static const int64_t counts[] = {0, 1, 2, 7, 31, 32, 33, 255, 257, 1000, 4097, 100003, 30000001};
enum { COUNTS = sizeof counts / sizeof *counts };

/* `kept` results of `count` elements each. The elements are contiguous, or `kept` apart if
 * `columns`. */
typedef struct sample {
  compute_operand in, out;
  compute_kernel_descriptor d;
} sample;

static const compute_reduce_attributes sum_of_columns = {1, COMPUTE_COMBINE_SUM};

static void make(int64_t kept, int64_t count, bool columns, sample *s) {
  *s = (sample){
      .in = {COMPUTE_F32, {columns ? 1 : count, columns ? kept : 1}},
      .out = {COMPUTE_F32, {1, 0}},
      .d = {.struct_size = sizeof s->d,
            .kind = COMPUTE_KERNEL_REDUCE,
            .rank = 2,
            .size = {kept, count},
            .input_count = 1,
            .output_count = 1,
            .prologue_inputs = 1,
            .accumulate = COMPUTE_F32,
            .attributes = &sum_of_columns,
            .attribute_bytes = sizeof sum_of_columns},
  };
  s->d.inputs = &s->in;
  s->d.outputs = &s->out;
}

static void check_pass(const reduce_pass *pass, int64_t kept) {
  assert_true(pass->splits >= 1 && pass->splits <= 65535);
  assert_true(pass->groups >= 1 && pass->groups <= UINT32_MAX);
  /* Parts are adjacent, and none is empty unless there are no elements. */
  assert_true(pass->splits * pass->share >= pass->count);
  assert_true((pass->splits - 1) * pass->share < pass->count || pass->count == 0);
  assert_true(pass->lanes >= 1 && !(pass->lanes & (pass->lanes - 1)));
  if (pass->items) {
    assert_true(pass->groups * pass->run >= pass->tiles);
    assert_true((pass->groups - 1) * pass->run < pass->tiles);
    assert_int_equal(kept % pass->inner * pass->across, 0);
    if (pass->across) {
      assert_true(pass->pieces * pass->lanes >= pass->inner);
      assert_int_equal(pass->tiles, kept / pass->inner * pass->pieces);
    } else {
      assert_int_equal(pass->tiles, kept);
    }
  } else {
    assert_int_equal(pass->lanes * pass->columns, pass->group);
    assert_true(pass->tiles * pass->columns >= kept);
    assert_true((pass->tiles - 1) * pass->columns < kept);
  }
}

static void check_plan(sample_target target, int64_t kept, int64_t count, bool columns) {
  const compute_target t = sample_target_create(target, COMPUTE_DIALECT_C);
  char reason[200];
  sample s;
  make(kept, count, columns, &s);
  generation g = {
      .target = &t, .descriptor = &s.d, .reason = reason, .reason_bytes = sizeof reason};
  emit_space space;
  space_begin(&space, "space", 2, s.d.size);
  if (count == 0) space.size[1] = 1;
  space.fence = 1;
  space_add(&space, "in0", s.in.stride);
  space_canonicalise(&g, &space);
  const reduce_problem problem = {&space, 0, kept, count, 4};
  reduce_pass passes[2];
  const uint32_t made = reduce_plan(&g, &problem, passes);
  assert_in_range(made, 1, 2);
  check_pass(&passes[0], kept);
  assert_int_equal(made == 2, passes[0].splits > 1);
  if (made == 1) return;
  check_pass(&passes[1], kept);
  assert_int_equal(passes[1].count, passes[0].splits);
  assert_int_equal(passes[1].splits, 1);
}

static void every_element_belongs_to_one_part(void **state) {
  (void)state;
  for (int target = 0; target < TARGET_COUNT; target++)
    for (int k = 1; k < COUNTS; k++)
      for (int c = 0; c < COUNTS; c++) {
        check_plan((sample_target)target, counts[k], counts[c], false);
        check_plan((sample_target)target, counts[k], counts[c], true);
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

static void few_results_are_split_over_the_device(void **state) {
  (void)state;
  static const struct {
    int64_t kept, count;
    bool columns, split;
  } cases[] = {{1, 10000000, false, true},  {3, 10000000, true, true},  {2, 3000000, false, true},
               {100000, 100, false, false}, {100000, 100, true, false}, {1, 100, false, false}};
  for (int target = TARGET_CPU; target <= TARGET_GPU; target++)
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      sample s;
      make(cases[i].kept, cases[i].count, cases[i].columns, &s);
      const compute_generated *g = generate((sample_target)target, &s, NULL);
      assert_int_equal(g->launch_count, cases[i].split ? 2 : 1);
      assert_int_equal(g->workspace_bytes > 0, cases[i].split);
      const compute_target t = sample_target_create((sample_target)target, COMPUTE_DIALECT_C);
      if (cases[i].split)
        assert_true(g->launches[0].groups[0] * g->launches[0].groups[1] >= t.compute_units);
      generate_release(g);
    }
}

static void neighbours_in_memory_are_read_together(void **state) {
  (void)state;
  for (int target = 0; target < TARGET_COUNT; target++)
    for (int columns = 0; columns <= 1; columns++) {
      sample s;
      make(512, 512, columns, &s);
      const compute_generated *g = generate((sample_target)target, &s, NULL);
      assert_int_equal(g->tuning.variant, columns ? 2 : 1);
      generate_release(g);
    }
}

static void one_source_serves_many_sizes(void **state) {
  (void)state;
  static const int64_t sizes[][2] = {{100, 7000}, {301, 5000}, {7001, 4500}};
  for (int target = 0; target < TARGET_COUNT; target++)
    for (int columns = 0; columns <= 1; columns++) {
      const compute_generated *g[3];
      for (int i = 0; i < 3; i++) {
        sample s;
        make(sizes[i][0], sizes[i][1], columns, &s);
        /* Some long columns are split, which needs another source. */
        g[i] = generate((sample_target)target, &s, &(compute_tuning){.groups = 1, .vector = 16});
      }
      for (int i = 1; i < 3; i++)
        if (g[i]->launch_count == g[0]->launch_count)
          assert_string_equal(g[i]->source, g[0]->source);
      for (int i = 0; i < 3; i++) generate_release(g[i]);
    }
}

static void no_results_need_no_launch(void **state) {
  (void)state;
  sample s;
  make(0, 5, false, &s);
  const compute_generated *g = generate(TARGET_GPU, &s, NULL);
  assert_int_equal(g->launch_count, 0);
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
               {TARGET_CPU, {.vector = 24}},  {TARGET_CPU, {.vector = 1 << 12}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const compute_target t = sample_target_create(cases[i].target, COMPUTE_DIALECT_OPENCL);
    const compute_generated *generated;
    char reason[200] = "";
    sample s;
    make(300, 3000, false, &s);
    assert_int_equal(generate_kernel(&t, &s.d, &cases[i].tuning, &generated, reason, sizeof reason),
                     COMPUTE_ERROR_UNSUPPORTED);
    assert_true(strlen(reason) > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_element_belongs_to_one_part),
      cmocka_unit_test(few_results_are_split_over_the_device),
      cmocka_unit_test(neighbours_in_memory_are_read_together),
      cmocka_unit_test(one_source_serves_many_sizes),
      cmocka_unit_test(no_results_need_no_launch),
      cmocka_unit_test(parameters_that_cannot_work_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
