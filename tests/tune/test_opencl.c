/* SPDX-License-Identifier: MIT */
/* The tuner on an OpenCL device, and the effect of its results on the kernels of plans. Skipped if
 * there is no such device. */
#include <stdlib.h>

#include "codegen/tune/tuner.h"
#include "core/device/device.h"
#include "tune_fixture.h"

/* 2000 elements, so that a run is short. */
static bool small_problem(void *user, size_t index, tune_problem *problem) {
  const compute_operand dense = {COMPUTE_F32, {1}};
  program_builder *b = &problem->program;
  (void)user;
  (void)index;
  memset(problem, 0, sizeof *problem);
  problem->kind = problem_kind_of(COMPUTE_KERNEL_MAP);
  snprintf(problem->name, sizeof problem->name, "small");
  problem->inputs[0] = problem->output = dense;
  problem->input_elements[0] = problem->output_elements = 2000;
  program_store(
      b, program_apply(b, COMPUTE_I_EXP, COMPUTE_F32, program_load(b, COMPUTE_F32, 0), 0, 0));
  problem->descriptor = (compute_kernel_descriptor){.struct_size = sizeof problem->descriptor,
                                                    .kind = COMPUTE_KERNEL_MAP,
                                                    .rank = 1,
                                                    .size = {2000},
                                                    .input_count = 1,
                                                    .output_count = 1,
                                                    .inputs = problem->inputs,
                                                    .outputs = &problem->output,
                                                    .epilogue = program_finish(b)};
  return true;
}

static compute_context *open_device(compute_device **device) {
  compute_context *context = NULL;
  assert_ok(compute_open(&context, &(compute_open_options){.device = "opencl:0"}));
  *device = compute_default_device(context);
  return context;
}

/* The explanation of exp over `count` elements on the device. The caller frees it. */
static char *explain_map(compute_context *context, int64_t count) {
  char *text = NULL;
  compute_graph *graph = compute_graph_create(context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(count));
  const compute_node y = compute_exp(graph, x);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  float *values = calloc((size_t)count, sizeof *values);
  assert_non_null(values);
  compute_tensor *in = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(count), values);
  compute_tensor *out = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(count), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{x, in}, {y, out}}, 2, NULL));
  assert_true(test_element(out, 0) == 1 && test_element(out, count - 1) == 1);
  assert_ok(compute_explain(plan, &text));
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(graph);
  free(values);
  return text;
}

static void a_run_ends_well_and_its_entries_are_good(void **state) {
  (void)state;
  const char *path = fixture_file("run");
  compute_device *device;
  compute_context *context = open_device(&device);
  const compute_tune_options options = {.quick = true, .candidate_seconds = 0.02};
  const tuner_work work = {small_problem, NULL, 1, measure_real_clock};
  assert_ok(tuner_run(device, &options, &work));
  tuning_contents contents;
  char reason[TUNING_REASON_BYTES];
  assert_int_equal(tuning_file_read(path, true, &contents, reason), COMPUTE_OK);
  assert_true(contents.count <= 1 && contents.damaged + contents.foreign == 0);
  tuning_file_release(&contents);
  test_close(context);
}

static bool stop(void *user, const compute_tune_progress *progress) {
  *(bool *)user = true;
  return progress->candidate_index < 2;
}

static void a_suite_can_be_interrupted(void **state) {
  (void)state;
  fixture_file("interrupted");
  compute_device *device;
  compute_context *context = open_device(&device);
  bool called = false;
  assert_fails(compute_tune(device, &(compute_tune_options){.suite = "map",
                                                            .quick = true,
                                                            .candidate_seconds = 0.02,
                                                            .progress = stop,
                                                            .user = &called}),
               COMPUTE_ERROR_CANCELLED);
  assert_true(called);
  test_close(context);
}

static void forced_parameters_reach_the_kernels(void **state) {
  (void)state;
  fixture_file("forced");
  compute_device *device;
  setenv("COMPUTE_TUNING", "map:items=1234,vector=2", 1);
  compute_context *context = open_device(&device);
  char *text = explain_map(context, 5000);
  if (!strstr(text, "1234 elements") && !strstr(text, "vectors of 2")) fail_msg("%s", text);
  compute_text_free(text);
  test_close(context);
  unsetenv("COMPUTE_TUNING");
}

static compute_target target_of(const compute_device *device) {
  compute_target target = {.struct_size = sizeof target};
  assert_ok(device->backend->device_target(device->handle, &target));
  return target;
}

static void write_entry(const char *path, const compute_target *target, compute_tuning tuning) {
  char identity[ENTRY_IDENTITY_BYTES], line[ENTRY_LINE_BYTES];
  const tuning_entry entry = {entry_identity(target, identity), "map/f32>f32/in1.dense/n12", tuning,
                              1};
  fixture_write(path, "wb", line, entry_print(&entry, line));
}

static void entries_of_this_device_reach_the_kernels_and_no_others(void **state) {
  (void)state;
  const char *path = fixture_file("entries");
  compute_device *device;
  compute_context *context = open_device(&device);
  compute_target target = target_of(device);
  test_close(context);
  for (int foreign = 0; foreign < 2; foreign++) {
    target.driver[0] ^= (char)foreign;
    write_entry(path, &target, (compute_tuning){.items = 1234, .vector = 2});
    context = open_device(&device);
    char *text = explain_map(context, 5000);
    const bool used = strstr(text, "1234 elements") || strstr(text, "vectors of 2");
    if (used == (foreign == 1)) fail_msg("%s", text);
    compute_text_free(text);
    test_close(context);
  }
}

/* Files may have entries that a newer generator refuses: kernels still run with right results. */
static void parameters_that_do_not_fit_are_no_failure(void **state) {
  (void)state;
  const char *path = fixture_file("unfit");
  compute_device *device;
  compute_context *context = open_device(&device);
  const compute_target target = target_of(device);
  test_close(context);
  static const compute_tuning unfit[] = {
      {.group_x = PARAMETERS_LIMIT, .vector = 3, .items = 1, .groups = PARAMETERS_LIMIT},
      {.implementation = 99},
      {.variant = 99, .vector = PARAMETERS_LIMIT}};
  for (size_t i = 0; i < sizeof unfit / sizeof *unfit; i++) {
    write_entry(path, &target, unfit[i]);
    context = open_device(&device);
    compute_text_free(explain_map(context, 5000));
    test_close(context);
  }
}

static bool device_is_there(void) {
  compute_context *context = NULL;
  compute_device *device = NULL;
  if (compute_open(&context, NULL)) return false;
  const bool found = compute_device_by_name(context, "opencl:0", &device) == COMPUTE_OK;
  compute_close(context);
  return found;
}

int main(void) {
  unsetenv("COMPUTE_TUNING");
  if (!device_is_there()) {
    printf("no OpenCL device: skipped\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_ends_well_and_its_entries_are_good),
      cmocka_unit_test(a_suite_can_be_interrupted),
      cmocka_unit_test(forced_parameters_reach_the_kernels),
      cmocka_unit_test(entries_of_this_device_reach_the_kernels_and_no_others),
      cmocka_unit_test(parameters_that_do_not_fit_are_no_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
