/* SPDX-License-Identifier: MIT */
/* Generated fits in the emulator: the right numbers on every kind of device and in every variant,
 * for all models, solvers and cameras; the default choices; refusals; and kernels that share a
 * source.
 *
 * A command line argument restricts the numbers to samples whose names contain it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "codegen/generate/kinds/plan.h"
#include "codegen/generate/generate.h"
#include "support/emulator/emulator_sample.h"
#include "support/samples/sample_fits.h"
#include "support/harness/test.h"
#include "core/type/dtype.h"

enum { PROBLEM_BYTES = 3000, REPORTED = 30 };

static const char folder[] = TEST_SCRATCH_DIR "/objects";
static const char *filter = "";
static size_t failures, launches, number;

/* ---- Numbers ------------------------------------------------------------------------------- */

COMPUTE_PRINTF(2, 3) static void report(const char *what, const char *format, ...) {
  char text[PROBLEM_BYTES + 200];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (++failures <= REPORTED) print_error("%s: %s\n", what, text);
}

static bool run(emulator_program *program, const compute_generated *generated, emulator_sample *m,
                emulator_order order, const char *what) {
  char problem[PROBLEM_BYTES] = "";
  bool fault;
  launches++;
  if (emulator_sample_run(m, program, generated, order, &fault, problem, sizeof problem))
    return true;
  report(what, "%s", problem);
  return false;
}

/* Ways to divide a fit; way 0 is the default choice. */
static const compute_tuning ways[] = {
    {0}, {.variant = FIT_GROUP, .group_x = 40}, {.variant = FIT_DIRECT, .group_x = 7, .items = 2}};
enum { WAYS = sizeof ways / sizeof *ways };

/* Targets without local memory differ only in the work of one item. */
static bool takes(sample_target target, uint32_t way, bool all_targets) {
  if (target == TARGET_GPU) return way == 0 || all_targets;
  return target == TARGET_CPU && way == 0 && all_targets;
}

static void check_way(const sample_kernel *s, emulator_sample *m, sample_target target,
                      uint32_t way) {
  char what[200], problem[PROBLEM_BYTES] = "";
  const compute_target t = sample_target_create(target, COMPUTE_DIALECT_C);
  const compute_generated *generated = NULL;
  snprintf(what, sizeof what, "%s on %s, way %u", s->name, sample_target_name(target), way);
  if (generate_kernel(&t, &s->descriptor, &ways[way], &generated, problem, sizeof problem)) {
    if (way == 0 || !problem[0]) report(what, "refused: %s", problem);
    return;
  }
  const emulator_source source = emulator_source_of(generated);
  emulator_program *program = emulator_open(folder, &source, problem, sizeof problem);
  if (!program) report(what, "does not compile: %s", problem);
  if (program && run(program, generated, m, (emulator_order)(way % EMULATOR_ORDERS), what)) {
    if (!emulator_sample_check(m, problem, sizeof problem) ||
        !emulator_sample_repeats(m, program, generated, EMULATOR_MIXED, problem, sizeof problem))
      report(what, "%s (%s)", problem, generated->text);
  }
  emulator_close(program);
  generate_release(generated);
}

static void check_sample(const sample_kernel *s, void *user) {
  emulator_sample m;
  const bool *all_targets = user;
  if (!strstr(s->name, filter) || (!*all_targets && number++ % 2)) return;
  assert_true(emulator_sample_create(s, &m));
  for (int target = 0; target < TARGET_COUNT; target++)
    for (uint32_t way = 0; way < WAYS; way++)
      if (takes((sample_target)target, way, *all_targets))
        check_way(s, &m, (sample_target)target, way);
  emulator_sample_release(&m);
}

static void every_variant_fits_as_the_reference_does(void **state) {
  (void)state;
  bool all_targets = true;
  sample_fit_kernels(check_sample, &all_targets);
  print_message("%zu launches\n", launches);
  if (failures > 0) fail_msg("%zu fits went wrong", failures);
}

/* Every second combination; compute-conformance runs all of them on the CPU. */
static void all_models_solvers_and_cameras_fit_as_the_reference_does(void **state) {
  (void)state;
  bool all_targets = false;
  failures = 0;
  sample_fits_in_full(check_sample, &all_targets);
  if (failures > 0) fail_msg("%zu fits went wrong", failures);
}

/* ---- Far apart ------------------------------------------------------------------------------ */

enum { PIXEL_STRIDE = 1 << 29, RECORD_STRIDE = 1 << 28 };

static unsigned char *reserve(size_t bytes) {
  void *memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

/* Runs a sample whose ROIs and records are so far apart that 32 bits cannot count the elements.
 * Only few pages of this memory are ever touched. */
static void check_far(const sample_kernel *s, void *user) {
  char problem[PROBLEM_BYTES] = "";
  emulator_sample m;
  bool fault, *done = user;
  if (*done || s->descriptor.input_count != 1) return;
  *done = true;
  const int64_t n = s->descriptor.size[0],
                pixels = s->attributes.fit.problem.rows * s->attributes.fit.problem.columns;
  sample_kernel far = *s;
  far.descriptor.inputs = far.inputs;
  far.descriptor.outputs = far.outputs;
  far.inputs[0].stride[0] = PIXEL_STRIDE;
  far.outputs[0].stride[0] = RECORD_STRIDE;
  const size_t bytes[] = {(size_t)n * PIXEL_STRIDE * 2, (size_t)n * RECORD_STRIDE * 4};
  unsigned char *memory[] = {reserve(bytes[0]), reserve(bytes[1])};
  if (!memory[0] || !memory[1]) test_skip("no address space for that");
  assert_true(emulator_sample_create(s, &m));
  const unsigned char *pixels_of = m.host.operand[0].before + m.host.operand[0].offset;
  for (int64_t roi = 0; roi < n; roi++)
    memcpy(memory[0] + roi * PIXEL_STRIDE * 2, pixels_of + roi * pixels * 2, (size_t)pixels * 2);
  for (uint32_t way = 0; way < WAYS; way++) {
    const compute_target t = sample_target_create(TARGET_GPU, COMPUTE_DIALECT_C);
    const compute_generated *generated = NULL;
    assert_int_equal(
        generate_kernel(&t, &far.descriptor, &ways[way], &generated, problem, sizeof problem),
        COMPUTE_OK);
    const emulator_source source = emulator_source_of(generated);
    emulator_program *program = emulator_open(folder, &source, problem, sizeof problem);
    if (!program) fail_msg("%s", problem);
    void *arguments[] = {memory[0], memory[1]};
    if (!emulator_run(program, generated, arguments, EMULATOR_ASCENDING, &fault, problem,
                      sizeof problem))
      fail_msg("%s", problem);
    const void *operands[] = {memory[0], memory[1]};
    if (!sample_fit_check(&far, operands, (const float *)(const void *)memory[1], problem,
                          sizeof problem))
      fail_msg("way %u: %s", (unsigned)way, problem);
    emulator_close(program);
    generate_release(generated);
  }
  for (int i = 0; i < 2; i++) munmap(memory[i], bytes[i]);
  emulator_sample_release(&m);
}

static void elements_past_2_to_the_31_are_found(void **state) {
  (void)state;
  bool done = false;
  sample_fit_kernels(check_far, &done);
  assert_true(done);
}

/* ---- Few groups ---------------------------------------------------------------------------- */

static void check_few_groups(const sample_kernel *s, void *user) {
  char problem[PROBLEM_BYTES] = "";
  emulator_sample m;
  bool *done = user;
  if (*done) return;
  *done = true;
  assert_true(emulator_sample_create(s, &m));
  emulator_buffer *records = &m.buffer[m.host.count - 1];
  unsigned char *usual = malloc(records->bytes);
  assert_non_null(usual);
  for (uint32_t way = 1; way < WAYS; way++) {
    const compute_target t = sample_target_create(TARGET_GPU, COMPUTE_DIALECT_C);
    const compute_generated *generated = NULL;
    const compute_tuning tuning = {.variant = ways[way].variant, .group_x = 8 - (way == 2) * 6};
    assert_int_equal(
        generate_kernel(&t, &s->descriptor, &tuning, &generated, problem, sizeof problem),
        COMPUTE_OK);
    const emulator_source source = emulator_source_of(generated);
    emulator_program *program = emulator_open(folder, &source, problem, sizeof problem);
    if (!program) fail_msg("%s", problem);
    assert_true(generated->launches[0].groups[0] > 2);
    assert_true(run(program, generated, &m, EMULATOR_ASCENDING, "all groups"));
    memcpy(usual, records->data, records->bytes);
    compute_generated fewer = *generated;
    fewer.launches[0].groups[0] = 2;
    assert_true(run(program, &fewer, &m, EMULATOR_DESCENDING, "two groups"));
    assert_memory_equal(usual, records->data, records->bytes);
    emulator_close(program);
    generate_release(generated);
  }
  free(usual);
  emulator_sample_release(&m);
}

static void groups_go_on_until_all_rois_are_done(void **state) {
  (void)state;
  bool done = false;
  sample_fit_kernels(check_few_groups, &done);
}

/* ---- Default choices ----------------------------------------------------------------------- */

typedef struct made {
  compute_target target;
  const compute_tuning *tuning;
  compute_status status;
  const compute_generated *generated;
  char reason[256];
} made;

static void make(const sample_kernel *s, void *user) {
  made *m = user;
  m->status = generate_kernel(&m->target, &s->descriptor, m->tuning, &m->generated, m->reason,
                              sizeof m->reason);
}

static compute_fit_problem square(int32_t side) {
  return (compute_fit_problem){.rows = side, .columns = side, .sigma = {1.3}};
}

static made generate(const compute_target *target, const compute_fit_problem *p, int64_t n,
                     const compute_tuning *tuning) {
  made m = {.target = *target, .tuning = tuning};
  sample_fit_visit(p, COMPUTE_U16, n, make, &m);
  return m;
}

static uint32_t judge(const compute_target *target, int32_t side, uint32_t *group) {
  const compute_fit_problem p = square(side);
  const made m = generate(target, &p, 1000, NULL);
  if (m.status) fail_msg("refused: %s", m.reason);
  const uint32_t variant = m.generated->tuning.variant;
  *group = m.generated->launches[0].group[0];
  assert_true(strlen(m.generated->text) > 0);
  generate_release(m.generated);
  return variant;
}

static void small_rois_are_for_items_and_large_ones_for_groups(void **state) {
  (void)state;
  uint32_t group;
  const compute_target gpu = sample_target_create(TARGET_GPU, COMPUTE_DIALECT_CUDA);
  const compute_target cpu = sample_target_create(TARGET_CPU, COMPUTE_DIALECT_OPENCL);
  assert_int_equal(judge(&gpu, 7, &group), FIT_ITEM);
  assert_int_equal(judge(&gpu, 13, &group), FIT_ITEM);
  assert_int_equal(judge(&gpu, 15, &group), FIT_GROUP);
  assert_int_equal(judge(&gpu, COMPUTE_FIT_MAX_SIDE, &group), FIT_GROUP);
  assert_int_equal(judge(&cpu, 7, &group), FIT_DIRECT);
  assert_int_equal(group, 1);
}

/* The last candidates, on which a backend falls back. */
static void a_target_with_nothing_reads_pixels_in_place(void **state) {
  (void)state;
  compute_target t = sample_target_create(TARGET_GPU, COMPUTE_DIALECT_OPENCL);
  uint32_t group;
  t.flags = 0;
  t.local_bytes = 0;
  assert_int_equal(judge(&t, 15, &group), FIT_DIRECT);
  t.group_limit = t.group_limit_of[0] = 1;
  assert_int_equal(judge(&t, 7, &group), FIT_DIRECT);
  assert_int_equal(group, 1);
}

static void judgement_stays_within_the_limits(void **state) {
  (void)state;
  static const uint32_t groups[] = {0, 1, 16, 64, 128, 256, 1024};
  static const uint64_t local[] = {0, 1024, 4096, 16384, 65536};
  for (int i = 0; i < 7 * 5 * COMPUTE_FIT_MAX_SIDE; i++) {
    compute_target t = sample_target_create(TARGET_GPU, COMPUTE_DIALECT_OPENCL);
    uint32_t group;
    t.group_limit = t.group_limit_of[0] = groups[i % 7];
    t.local_bytes = local[i / 7 % 5];
    judge(&t, 1 + i / 35 < 2 ? 2 : 1 + i / 35, &group);
    assert_true(group <= (groups[i % 7] ? groups[i % 7] : 64));
  }
}

static void one_source_serves_all_numbers(void **state) {
  (void)state;
  const compute_target t = sample_target_create(TARGET_GPU, COMPUTE_DIALECT_OPENCL);
  compute_fit_problem a = square(7), b = a;
  a.camera = b.camera = COMPUTE_FIT_SCMOS;
  b.sigma[1] = 1.7;
  b.iterations = 7;
  b.epsilon = 0.5;
  b.fixed = 8;
  b.start_set = 15;
  b.start[2] = 100;
  b.lower_set = 3;
  b.lower[1] = 1;
  b.gain = 0.3;
  b.offset = 50;
  b.variance = 3;
  const made first = generate(&t, &a, 10, NULL), second = generate(&t, &b, 100000000, NULL);
  assert_int_equal(first.status, COMPUTE_OK);
  assert_int_equal(second.status, COMPUTE_OK);
  assert_string_equal(first.generated->source, second.generated->source);
  generate_release(first.generated);
  generate_release(second.generated);
}

static void nothing_to_fit_is_no_launch(void **state) {
  (void)state;
  const compute_target t = sample_target_create(TARGET_GPU, COMPUTE_DIALECT_OPENCL);
  const compute_fit_problem p = square(7);
  const made m = generate(&t, &p, 0, NULL);
  assert_int_equal(m.status, COMPUTE_OK);
  assert_int_equal(m.generated->launch_count, 0);
  generate_release(m.generated);
}

static const struct {
  int32_t side;
  compute_tuning tuning;
  const char *reason;
} impossible[] = {
    {7, {.variant = 9}, "no variant"},
    {7, {.variant = FIT_ITEM, .group_x = 2048}, "too large"},
    {7, {.variant = FIT_DIRECT, .group_x = 100000}, "too large"},
    {7, {.variant = FIT_GROUP, .group_x = 4}, "too few"},
    {64, {.variant = FIT_ITEM, .group_x = 64}, "local memory"},
    {64, {.variant = FIT_GROUP, .group_x = 1024}, "local memory"},
};

static void impossible_parameters_are_refused_with_a_reason(void **state) {
  (void)state;
  const compute_target t = sample_target_create(TARGET_GPU, COMPUTE_DIALECT_OPENCL);
  for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
    const compute_fit_problem p = square(impossible[i].side);
    const made m = generate(&t, &p, 1000, &impossible[i].tuning);
    if (m.status != COMPUTE_ERROR_UNSUPPORTED || m.generated)
      fail_msg("case %d is accepted", (int)i);
    if (!strstr(m.reason, impossible[i].reason))
      fail_msg("case %d: \"%s\" does not say \"%s\"", (int)i, m.reason, impossible[i].reason);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) filter = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_variant_fits_as_the_reference_does),
      cmocka_unit_test(all_models_solvers_and_cameras_fit_as_the_reference_does),
      cmocka_unit_test(elements_past_2_to_the_31_are_found),
      cmocka_unit_test(groups_go_on_until_all_rois_are_done),
      cmocka_unit_test(small_rois_are_for_items_and_large_ones_for_groups),
      cmocka_unit_test(a_target_with_nothing_reads_pixels_in_place),
      cmocka_unit_test(judgement_stays_within_the_limits),
      cmocka_unit_test(one_source_serves_all_numbers),
      cmocka_unit_test(nothing_to_fit_is_no_launch),
      cmocka_unit_test(impossible_parameters_are_refused_with_a_reason),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
