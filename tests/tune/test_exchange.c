/* SPDX-License-Identifier: MIT */
/* Path, export and import through the public interface. */
#include <math.h>

#include "tune_fixture.h"

static compute_context *open_with(const char *file) {
  setenv("COMPUTE_TUNING_FILE", file, 1);
  return test_open();
}

static size_t count_lines(const char *path) {
  char line[2 * ENTRY_LINE_BYTES];
  size_t count = 0;
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) count++;
  fclose(file);
  return count;
}

static void the_path_is_the_files(void **state) {
  (void)state;
  static const char file[] = TEST_NOWHERE "/tuning";
  char path[sizeof file + 20];
  compute_context *context = open_with(file);
  assert_ok(compute_tuning_path(context, path, sizeof path));
  assert_string_equal(path, file);
  assert_fails(compute_tuning_path(context, path, sizeof file - 1), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_ok(compute_tuning_path(context, path, sizeof file));
  assert_fails(compute_tuning_path(context, NULL, sizeof file), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tuning_path(NULL, path, 19), COMPUTE_ERROR_NULL_POINTER);
  test_close(context);
}

static void what_is_exported_is_imported_elsewhere(void **state) {
  (void)state;
  static const char moved[] = TEST_SCRATCH_DIR "/moved";
  const char *path = fixture_file("from");
  fixture_append_entry(path, "M", "map/f32>f32/in2.dense/n20", 1);
  fixture_append_entry(path, "N", "map/f32>f32/in2.dense/n20", 2);
  fixture_append_entry(path, "M", "map/f32>f32/in2.dense/n20", 3);
  fixture_write(path, "ab", "damaged\n", 8);
  compute_context *context = open_with(path);
  assert_ok(compute_tuning_export(context, moved, NULL));
  test_close(context);
  assert_int_equal(count_lines(moved), 2);

  const char *to = fixture_file("to");
  fixture_write(moved, "ab", "tuning 9 of the future\n", 23);
  context = open_with(to);
  size_t skipped = 77;
  assert_ok(compute_tuning_import(context, moved, &skipped));
  assert_int_equal(skipped, 1);
  assert_int_equal(count_lines(to), 2);
  assert_ok(compute_tuning_import(context, moved, NULL)); /* all entries exist already */
  assert_int_equal(count_lines(to), 2);
  test_close(context);

  tuning_store *store = tuning_create();
  const compute_target target = fixture_target("M");
  fixture_map map;
  compute_tuning tuning;
  assert_int_equal(tuning_lookup(store, &target, fixture_descriptor(&map, 1 << 20), &tuning),
                   COMPUTE_TUNING_FILE);
  assert_int_equal(tuning.vector, 3);
  tuning_release(store);
}

/* The CPU has no generated kernels, so no entry belongs to it. */
static void an_export_of_one_device_holds_its_entries_alone(void **state) {
  (void)state;
  static const char out[] = TEST_SCRATCH_DIR "/one_device";
  const char *path = fixture_file("all");
  fixture_append_entry(path, "M", "map", 1);
  compute_context *context = open_with(path);
  compute_device *cpu = NULL;
  assert_ok(compute_device_by_name(context, "cpu", &cpu));
  assert_ok(compute_tuning_export(context, out, cpu));
  assert_int_equal(count_lines(out), 0);
  compute_context *second = test_open();
  assert_fails(compute_tuning_export(second, out, cpu), COMPUTE_ERROR_WRONG_CONTEXT);
  test_close(second);
  test_close(context);
}

static void files_that_do_not_work_are_errors(void **state) {
  (void)state;
  const char *path = fixture_file("here");
  fixture_append_entry(path, "M", "map", 1);
  compute_context *context = open_with(path);
  assert_fails(compute_tuning_import(context, TEST_SCRATCH_DIR "/nothing", NULL),
               COMPUTE_ERROR_FILE);
  assert_fails(compute_tuning_export(context, TEST_NOWHERE "/at/all", NULL), COMPUTE_ERROR_FILE);
  assert_fails(compute_tuning_export(context, "/dev/full", NULL), COMPUTE_ERROR_FILE);
  assert_fails(compute_tuning_export(context, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tuning_import(context, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  test_close(context);
  context = open_with("none");
  assert_fails(compute_tuning_import(context, path, NULL), COMPUTE_ERROR_FILE);
  test_check_message(context, "no tuning file");
  test_close(context);
}

static void a_device_without_generated_kernels_has_nothing_to_tune(void **state) {
  (void)state;
  compute_context *context = open_with("none");
  compute_device *cpu = NULL;
  assert_ok(compute_device_by_name(context, "cpu", &cpu));
  assert_fails(compute_tune(cpu, NULL), COMPUTE_ERROR_UNSUPPORTED);
  test_check_message(context, "cpu");
  assert_fails(compute_tune(NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  static const compute_tune_options bad[] = {{.suite = "maps"},           {.suite = ""},
                                             {.suite = "map,,gemm"},      {.candidate_seconds = -1},
                                             {.total_seconds = INFINITY}, {.reserved = {0, 0, 1}}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_fails(compute_tune(cpu, &bad[i]), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_close(context);
}

int main(void) {
  unsetenv("COMPUTE_TEST_DEVICE");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_path_is_the_files),
      cmocka_unit_test(what_is_exported_is_imported_elsewhere),
      cmocka_unit_test(an_export_of_one_device_holds_its_entries_alone),
      cmocka_unit_test(files_that_do_not_work_are_errors),
      cmocka_unit_test(a_device_without_generated_kernels_has_nothing_to_tune),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
