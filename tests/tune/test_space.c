/* SPDX-License-Identifier: MIT */
/* The tuner's candidates, and its suite of problems. */
#include "codegen/generate/generate.h"
#include "codegen/tune/tuner.h"
#include "tune_fixture.h"

static tune_problem problem;

static void problem_named(const char *name) {
  for (size_t row = 0; problem_build(row, &problem); row++)
    if (!strcmp(problem.name, name)) return;
  fail_msg("the suite has no '%s'", name);
}

static void every_problem_of_the_suite_is_a_proper_kernel_of_its_own(void **state) {
  (void)state;
  static char classes[128][KERNEL_CLASS_BYTES];
  size_t count = 0;
  for (; problem_build(count, &problem); count++) {
    char reason[256] = "";
    if (!descriptor_check(&problem.descriptor, reason, sizeof reason))
      fail_msg("%s: %s", problem.name, reason);
    assert_true(count < 128 && problem_bytes(&problem) <= (uint64_t)1 << 28);
    kernel_class_print(&problem.descriptor, classes[count]);
    for (size_t i = 0; i < count; i++) {
      tune_problem other;
      assert_string_not_equal(classes[i], classes[count]);
      assert_true(problem_build(i, &other));
      assert_string_not_equal(other.name, problem.name);
    }
  }
  assert_int_equal(count, problem_count());
}

/* Every kind with problems is a suite with one quick problem. No other kind is a suite. */
static void suites_are_chosen_by_name(void **state) {
  (void)state;
  size_t sum = 0, suites = 0, all = 0, all_quick = 0, two = 0;
  for (int kind = 0; kind < COMPUTE_KERNEL_KIND_COUNT; kind++) {
    const char *name = kernel_kind_name((compute_kernel_kind)kind);
    size_t of_kind = 0, quick = 0;
    for (size_t row = 0; row < problem_count(); row++) {
      of_kind += problem_chosen(row, name, false);
      quick += problem_chosen(row, name, true);
    }
    if (quick != (of_kind > 0) || problem_suite_valid(name) != (of_kind > 0))
      fail_msg("%s has %zu problems, %zu of them quick", name, of_kind, quick);
    if (of_kind == 0 && generate_grids((compute_kernel_kind)kind))
      fail_msg("%s has parameters, and no problem", name);
    sum += of_kind;
    suites += of_kind > 0;
  }
  for (size_t row = 0; row < problem_count(); row++) {
    all += problem_chosen(row, "all", false);
    all_quick += problem_chosen(row, "all", true);
    two += problem_chosen(row, "gemm,map", true);
    assert_false(problem_chosen(row, "maps", false));
  }
  assert_int_equal(sum, problem_count());
  assert_int_equal(all, problem_count());
  assert_int_equal(all_quick, suites);
  assert_true(suites >= 14);
  assert_int_equal(two, 2);
  assert_true(problem_suite_valid("map,gemm") && problem_suite_valid("all"));
  assert_false(problem_suite_valid("spots")); /* no parameters */
  assert_false(problem_suite_valid("") || problem_suite_valid("map,gemms"));
}

enum { TARGETS = 4 };

/* One of the largest GPUs, a small one, a CPU, and a GPU with matrix units. */
static compute_target target_of(int which) {
  compute_target target = fixture_target("M");
  if (which == 1) {
    target.group_limit = target.group_limit_of[0] = target.group_limit_of[1] = 64;
    target.local_bytes = 4096;
  } else if (which == 2) {
    target.type = COMPUTE_DEVICE_CPU;
    target.flags = COMPUTE_TARGET_F64;
  } else if (which == 3) {
    target.dialect = COMPUTE_DIALECT_CUDA;
    target.launch_local_bytes = 227 << 10;
    target.flags |= COMPUTE_TARGET_MATRIX_CORES | COMPUTE_TARGET_MATRIX_F64 |
                    COMPUTE_TARGET_WARPGROUP_MATRIX | COMPUTE_TARGET_LOCKSTEP;
  }
  return target;
}

static bool same_member(const compute_tuning *a, const compute_tuning *b, size_t offset) {
  return !memcmp((const char *)a + offset, (const char *)b + offset, sizeof(uint32_t));
}

/* Returns true if a candidate has a value on every axis of the grid and 0 elsewhere. */
static bool is_of_grid(const compute_tuning *tuning, const tuning_grid *grid) {
  compute_tuning rest = *tuning;
  for (int i = 0; i < TUNING_AXES && grid->axis[i].value[0]; i++) {
    bool found = false;
    for (int v = 0; v < TUNING_VALUES && grid->axis[i].value[v]; v++) {
      compute_tuning wanted = {0};
      memcpy((char *)&wanted + grid->axis[i].offset, &grid->axis[i].value[v], sizeof(uint32_t));
      found |= same_member(tuning, &wanted, grid->axis[i].offset);
    }
    if (!found) return false;
    memset((char *)&rest + grid->axis[i].offset, 0, sizeof(uint32_t));
  }
  return parameters_none(&rest);
}

static bool grid_is_reached(compute_kernel_kind kind, const tuning_grid *grid) {
  compute_tuning list[SPACE_LIMIT];
  for (size_t row = 0; problem_build(row, &problem); row++)
    for (int which = 0; which < TARGETS && problem.descriptor.kind == kind; which++) {
      const compute_target target = target_of(which);
      if ((grid->target == TUNE_CPU && which != 2) || (grid->target == TUNE_OTHERS && which == 2))
        continue;
      const uint32_t count = space_list(&target, &problem.descriptor, false, list);
      for (uint32_t i = 1; i < count; i++)
        if (is_of_grid(&list[i], grid)) return true;
    }
  return false;
}

static void every_grid_of_the_generator_is_reached_by_a_problem(void **state) {
  (void)state;
  for (int kind = 0; kind < COMPUTE_KERNEL_KIND_COUNT; kind++) {
    const tuning_grid *grid = generate_grids((compute_kernel_kind)kind);
    if (!test_in_turn((size_t)kind)) continue;
    for (int number = 0; grid && grid->target != TUNE_END; grid++, number++)
      if (!grid_is_reached((compute_kernel_kind)kind, grid))
        fail_msg("grid %d of %s is never tried", number,
                 kernel_kind_name((compute_kernel_kind)kind));
  }
}

static void candidates_differ_and_fit_the_target(void **state) {
  (void)state;
  static const char *const names[] = {"map add f32 1024x1024",     "copy strided f32 2048x2048",
                                      "reduce rows f32 4096x1024", "row softmax f32 4096x1024",
                                      "gemm f32 1024x1024x1024",   "conv 3x3 f32 8x64x64x56",
                                      "fit xynb u16 32768x7x7"};
  for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
    for (int kind = 0; kind < TARGETS; kind++) {
      const compute_target target = target_of(kind);
      if (!test_in_turn(n + (size_t)kind)) continue;
      problem_named(names[n]);
      compute_tuning list[SPACE_LIMIT];
      const uint32_t count = space_list(&target, &problem.descriptor, false, list);
      if (count < 4 || count > SPACE_LIMIT)
        fail_msg("%u candidates for %s on target %d", (unsigned)count, names[n], kind);
      assert_true(parameters_none(&list[0]));
      for (uint32_t i = 0; i < count; i++) {
        const compute_generated *generated = NULL;
        char reason[256] = "", words[PARAMETERS_BYTES];
        if (generate_kernel(&target, &problem.descriptor, &list[i], &generated, reason,
                            sizeof reason))
          fail_msg("%s with %s: %s", names[n], parameters_print(&list[i], words), reason);
        for (uint32_t l = 0; l < generated->launch_count; l++) {
          const uint32_t *group = generated->launches[l].group;
          assert_true(group[0] * group[1] * group[2] <= target.group_limit);
        }
        generate_release(generated);
        for (uint32_t j = 0; j < i; j++) assert_false(parameters_equal(&list[i], &list[j]));
      }
      assert_in_range(space_list(&target, &problem.descriptor, true, list), 1, SPACE_QUICK_LIMIT);
    }
  }
}

/* ---- Data and comparison --------------------------------------------------------------------- */

static void *copy_of(const void *data, size_t bytes) {
  void *copy = malloc(bytes);
  assert_non_null(copy);
  return memcpy(copy, data, bytes);
}

/* Checks the current problem. */
static void check_wrong_element(compute_device *cpu, compute_queue *queue) {
  tune_measure measure;
  char reason[128];
  assert_ok(measure_open(&measure, cpu, queue, &problem, measure_real_clock));
  const size_t size = compute_dtype_size(problem.output.dtype);
  const size_t bytes = (size_t)measure.result_bytes;
  unsigned char *got = copy_of(measure.expected->memory.host, bytes);
  const uint64_t at = problem.output_elements - 1;
  assert_true(problem_check(&problem, got, measure.expected->memory.host, reason, 128));
  memset(got + at * size, 0xff, size); /* NaN */
  assert_false(problem_check(&problem, got, measure.expected->memory.host, reason, 128));
  assert_true(strstr(reason, "element") || strstr(reason, "fit"));
  memcpy(got, measure.expected->memory.host, bytes);
  if (size == 4) {
    float value;
    memcpy(&value, got + at * size, size);
    value = value * 1.002F + (problem.descriptor.kind == COMPUTE_KERNEL_ROW ? 0 : 2e-3F);
    memcpy(got + at * size, &value, size);
    assert_false(problem_check(&problem, got, measure.expected->memory.host, reason, 128));
  }
  free(got);
  measure_close(&measure);
}

/* The smallest problem of a kind, in f32 if there is one. Returns false for a kind without
 * problems. */
static bool smallest_of(int kind) {
  size_t best = SIZE_MAX;
  uint64_t least = UINT64_MAX;
  for (size_t row = 0; problem_build(row, &problem); row++) {
    const bool is_float = problem.output.dtype == COMPUTE_F32;
    const uint64_t bytes = problem_bytes(&problem) + (is_float ? 0 : UINT64_C(1) << 40);
    if ((int)problem.descriptor.kind != kind || bytes >= least) continue;
    least = bytes;
    best = row;
  }
  return problem_build(best, &problem);
}

static void one_wrong_element_is_seen_in_every_kind(void **state) {
  (void)state;
  static const char *const names[] = {"reduce all f32 64x1024", "gemm f32 256x256x256",
                                      "map add f16 4096x1024", "fit xynb f32 8192x15x15"};
  compute_context *context = test_open();
  compute_device *cpu = compute_default_device(context);
  compute_queue *queue = NULL;
  assert_ok(compute_queue_create(cpu, &queue));
  for (int kind = 0; kind < COMPUTE_KERNEL_KIND_COUNT; kind++)
    if (smallest_of(kind)) check_wrong_element(cpu, queue);
  for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
    problem_named(names[n]);
    check_wrong_element(cpu, queue);
  }
  compute_queue_release(queue);
  test_close(context);
}

/* Products of numbers cut to the 11 bits of TF32, as in some matrix units. */
static void products_of_less_precision_than_f32_are_seen(void **state) {
  (void)state;
  problem_named("gemm f32 256x256x256");
  enum { N = 256 };
  float *data[2];
  float *right = calloc(N * N, sizeof *right), *coarse = calloc(N * N, sizeof *coarse);
  for (uint32_t i = 0; i < 2; i++) {
    data[i] = calloc(N * N, sizeof(float));
    assert_true(data[i] && right && coarse);
    problem_fill(&problem, i, data[i]);
  }
  for (int i = 0; i < N; i++)
    for (int p = 0; p < N; p++)
      for (int j = 0; j < N; j++) {
        const float a = data[0][i * N + p], b = data[1][p * N + j];
        uint32_t bits[2];
        float cut[2];
        memcpy(&bits[0], &a, 4);
        memcpy(&bits[1], &b, 4);
        bits[0] = (bits[0] + 0x1000) & 0xffffe000u;
        bits[1] = (bits[1] + 0x1000) & 0xffffe000u;
        memcpy(cut, bits, sizeof cut);
        right[i * N + j] += a * b;
        coarse[i * N + j] += cut[0] * cut[1];
      }
  char reason[128];
  assert_true(problem_check(&problem, right, right, reason, sizeof reason));
  assert_false(problem_check(&problem, coarse, right, reason, sizeof reason));
  for (int i = 0; i < 2; i++) free(data[i]);
  free(right);
  free(coarse);
}

int main(void) {
  unsetenv("COMPUTE_TEST_DEVICE");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_problem_of_the_suite_is_a_proper_kernel_of_its_own),
      cmocka_unit_test(suites_are_chosen_by_name),
      cmocka_unit_test(every_grid_of_the_generator_is_reached_by_a_problem),
      cmocka_unit_test(candidates_differ_and_fit_the_target),
      cmocka_unit_test(one_wrong_element_is_seen_in_every_kind),
      cmocka_unit_test(products_of_less_precision_than_f32_are_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
