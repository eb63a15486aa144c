/* SPDX-License-Identifier: MIT */
/* The lookup of parameters: its order, the device that entries belong to, the forced text, and
 * files that change while in use. */
#include <sys/stat.h>
#include <time.h>

#include "codegen/tune/tuning.h"
#include "support/harness/failing_allocator.h"
#include "tune_fixture.h"

static compute_tuning_source lookup(tuning_store *store, const char *model, int64_t count,
                                    uint32_t *vector) {
  const compute_target target = fixture_target(model);
  fixture_map map;
  compute_tuning tuning;
  memset(&tuning, 0xff, sizeof tuning);
  const compute_tuning_source source =
      tuning_lookup(store, &target, fixture_descriptor(&map, count), &tuning);
  *vector = tuning.vector;
  tuning.vector = 0;
  assert_true(parameters_none(&tuning));
  return source;
}

/* A store with these rows in the current environment gives this answer for a model. */
static void expect(const table_row *rows, const char *model, compute_tuning_source source,
                   uint32_t vector) {
  tuning_store *store = rows ? tuning_create_with(rows) : tuning_create();
  assert_non_null(store);
  uint32_t found;
  assert_int_equal(lookup(store, model, 1 << 20, &found), source);
  assert_int_equal(found, vector);
  tuning_release(store);
}

/* ---- Order --------------------------------------------------------------------------------- */

static const table_row rows[] = {
    {TABLE_TYPE, NULL, "gpu", "map", {.vector = 11}},
    {TABLE_VENDOR, NULL, "vendor", "map", {.vector = 12}},
    {TABLE_FAMILY, NULL, "gfx1100", "map", {.vector = 13}},
    {TABLE_MODEL, NULL, "Known", "map", {.vector = 14}},
    {TABLE_MODEL, "cuda", "Known", "map/f32>f32", {.vector = 99}},
    {TABLE_MODEL, NULL, "Known", "copy/f32>f32/dense/n20", {.vector = 98}},
    {.kernels = NULL},
};

static void the_order_is_forced_file_table_heuristic(void **state) {
  (void)state;
  static const table_row none[] = {{.kernels = NULL}};
  const char *path = fixture_file("order");
  unsetenv("COMPUTE_TUNING");
  expect(none, "Known", COMPUTE_TUNING_HEURISTIC, 0);
  expect(rows, "Known", COMPUTE_TUNING_TABLE, 14);
  fixture_append_entry(path, "Known", "map/f32>f32/in2.dense/n20", 3);
  expect(rows, "Known", COMPUTE_TUNING_FILE, 3);
  setenv("COMPUTE_TUNING", "map:vector=2", 1);
  expect(rows, "Known", COMPUTE_TUNING_FORCED, 2);
  setenv("COMPUTE_TUNING", "copy:vector=2", 1);
  expect(rows, "Known", COMPUTE_TUNING_FILE, 3);
  unsetenv("COMPUTE_TUNING");
}

static bool find_without(const table_row *left_out, const compute_target *target,
                         compute_tuning *tuning) {
  table_row some[sizeof rows / sizeof *rows];
  size_t count = 0;
  for (const table_row *row = rows; row->kernels; row++)
    if (row < left_out) some[count++] = *row;
  some[count] = (table_row){.kernels = NULL};
  return table_find(some, target, "map/f32>f32/in2.dense/n20", tuning);
}

static void the_table_prefers_model_to_family_to_vendor_to_type(void **state) {
  (void)state;
  const compute_target target = fixture_target("Known");
  compute_tuning tuning;
  for (size_t levels = 4; levels > 0; levels--) {
    assert_true(find_without(&rows[levels], &target, &tuning));
    assert_int_equal(tuning.vector, 10 + levels);
  }
  assert_false(find_without(&rows[0], &target, &tuning));
}

static void a_row_serves_only_its_own_devices_and_kernels(void **state) {
  (void)state;
  compute_tuning tuning;
  compute_target target = fixture_target("Unknown");
  assert_true(table_find(rows, &target, "map/f32>f32/in2.dense/n20", &tuning));
  assert_int_equal(tuning.vector, 13);
  snprintf(target.family, sizeof target.family, "gfx1101");
  assert_true(table_find(rows, &target, "map/f32>f32/in2.dense/n20", &tuning));
  assert_int_equal(tuning.vector, 12);
  snprintf(target.vendor, sizeof target.vendor, "Somebody");
  assert_true(table_find(rows, &target, "map/f32>f32/in2.dense/n20", &tuning));
  assert_int_equal(tuning.vector, 11);
  target.type = COMPUTE_DEVICE_CPU;
  assert_false(table_find(rows, &target, "map/f32>f32/in2.dense/n20", &tuning));
  target = fixture_target("Known");
  assert_false(table_find(rows, &target, "row/f32>f32>f32/softmax/r1n1", &tuning));
  assert_true(table_find(rows, &target, "copy/f32>f32/dense/n22", &tuning));
  assert_int_equal(tuning.vector, 98);
  snprintf(target.backend, sizeof target.backend, "cuda");
  assert_true(table_find(rows, &target, "map/f32>f32/in2.dense/n20", &tuning));
  assert_int_equal(tuning.vector, 99);
}

static void rows_that_are_built_in_are_well_formed(void **state) {
  (void)state;
  for (const table_row *row = table_builtin; row->kernels; row++) {
    assert_true(kernel_class_valid(row->kernels, strlen(row->kernels)));
    assert_non_null(row->device);
    assert_false(parameters_none(&row->tuning));
  }
}

/* ---- The file ------------------------------------------------------------------------------ */

static void the_last_of_equal_entries_wins(void **state) {
  (void)state;
  const char *path = fixture_file("last");
  for (uint32_t vector = 1; vector <= 5; vector++)
    fixture_append_entry(path, "M", "map/f32>f32/in2.dense/n20", vector);
  fixture_append_entry(path, "M", "map/f32>f32/in2.dense/n21", 8);
  expect(NULL, "M", COMPUTE_TUNING_FILE, 5);
}

static void entries_serve_only_the_very_same_device(void **state) {
  (void)state;
  const char *path = fixture_file("foreign");
  char line[ENTRY_LINE_BYTES], identity[ENTRY_IDENTITY_BYTES];
  compute_target others[4];
  for (int i = 0; i < 4; i++) others[i] = fixture_target("M");
  others[0].backend[0] ^= 1;
  others[1].vendor[0] ^= 1;
  others[2].model[0] ^= 1;
  others[3].driver[0] ^= 1;
  for (int i = 0; i < 4; i++) {
    const tuning_entry entry = {
        entry_identity(&others[i], identity), "map/f32>f32/in2.dense/n20", {.vector = 7}, 1};
    fixture_write(path, "ab", line, entry_print(&entry, line));
  }
  expect(NULL, "M", COMPUTE_TUNING_HEURISTIC, 0);
}

static void the_nearest_size_serves_where_the_exact_one_is_missing(void **state) {
  (void)state;
  const char *path = fixture_file("nearest");
  fixture_append_entry(path, "M", "map/f32>f32/in2.dense/n18", 1);
  fixture_append_entry(path, "M", "map/f32>f32/in2.dense/n21", 2);
  fixture_append_entry(path, "M", "map/f32>f32/in2.dense/n24", 3);
  tuning_store *store = tuning_create();
  static const struct {
    int log2;
    uint32_t vector;
  } cases[] = {{14, 0}, {15, 1}, {18, 1}, {19, 1}, {20, 2}, {21, 2}, {23, 3}, {27, 3}, {28, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint32_t vector;
    const compute_tuning_source source = lookup(store, "M", INT64_C(1) << cases[i].log2, &vector);
    assert_int_equal(vector, cases[i].vector);
    assert_int_equal(source, vector ? COMPUTE_TUNING_FILE : COMPUTE_TUNING_HEURISTIC);
  }
  tuning_release(store);
}

static void an_entry_without_parameters_is_the_heuristic(void **state) {
  (void)state;
  const char *path = fixture_file("unbeaten");
  fixture_append_entry(path, "Known", "map/f32>f32/in2.dense/n21", 2);
  fixture_append_entry(path, "Known", "map/f32>f32/in2.dense/n20", 0);
  expect(rows, "Known", COMPUTE_TUNING_FILE, 0);
}

static void a_file_of_nonsense_changes_nothing(void **state) {
  (void)state;
  static const char noise[] = "tuning 1 \"\n\0\n\n\xff\xfe tuning tuning 1 \n{}\n";
  const char *path = fixture_file("noise");
  fixture_write(path, "wb", noise, sizeof noise);
  expect(rows, "Known", COMPUTE_TUNING_TABLE, 14);
  fixture_append_entry(path, "Known", "map/f32>f32/in2.dense/n20", 6);
  expect(rows, "Known", COMPUTE_TUNING_FILE, 6);
  assert_int_equal(truncate(path, (off_t)TUNING_FILE_LIMIT + 1), 0);
  expect(rows, "Known", COMPUTE_TUNING_TABLE, 14);
  unlink(path);
}

static void append(tuning_store *store, uint32_t vector) {
  char line[ENTRY_LINE_BYTES], reason[TUNING_REASON_BYTES];
  const size_t bytes = fixture_line("M", "map/f32>f32/in2.dense/n20", vector, line);
  assert_int_equal(tuning_store_append(store, line, bytes, reason), COMPUTE_OK);
}

static void an_own_entry_is_in_force_at_once_and_others_soon(void **state) {
  (void)state;
  uint32_t vector;
  const char *path = fixture_file("changes");
  tuning_store *store = tuning_create(), *other = tuning_create();
  assert_int_equal(lookup(store, "M", 1 << 20, &vector), COMPUTE_TUNING_HEURISTIC);
  append(store, 4);
  assert_int_equal(lookup(store, "M", 1 << 20, &vector), COMPUTE_TUNING_FILE);
  assert_int_equal(vector, 4);
  append(other, 5);
  const time_t start = time(NULL);
  while (vector != 5 && time(NULL) - start < 60) {
    const struct timespec moment = {.tv_nsec = 50000000};
    nanosleep(&moment, NULL);
    lookup(store, "M", 1 << 20, &vector);
  }
  assert_int_equal(vector, 5);
  assert_string_equal(tuning_store_path(store), path);
  tuning_release(store);
  tuning_release(other);
}

static void the_place_of_the_file_follows_the_environment(void **state) {
  (void)state;
  char before[4096] = "";
  if (getenv("COMPUTE_CACHE_DIR"))
    snprintf(before, sizeof before, "%s", getenv("COMPUTE_CACHE_DIR"));
  static const struct {
    const char *file, *cache, *expected;
  } cases[] = {{TEST_NOWHERE "/file", TEST_NOWHERE "/cache", TEST_NOWHERE "/file"},
               {"none", TEST_NOWHERE "/cache", ""},
               {"relative", TEST_NOWHERE "/cache", TEST_NOWHERE "/cache/tuning"},
               {"", TEST_NOWHERE "/cache", TEST_NOWHERE "/cache/tuning"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setenv("COMPUTE_TUNING_FILE", cases[i].file, 1);
    setenv("COMPUTE_CACHE_DIR", cases[i].cache, 1);
    tuning_store *store = tuning_create();
    assert_string_equal(tuning_store_path(store), cases[i].expected);
    tuning_release(store);
  }
  if (before[0])
    setenv("COMPUTE_CACHE_DIR", before, 1);
  else
    unsetenv("COMPUTE_CACHE_DIR");
}

static void short_memory_leaves_nothing_behind(void **state) {
  (void)state;
  const char *path = fixture_file("memory");
  fixture_append_entry(path, "M", "map/f32>f32/in2.dense/n20", 4);
  failing_allocator_install();
  bool done = false;
  for (int64_t nth = 1; !done; nth++) {
    uint32_t vector = 0;
    failing_allocator_arm(nth, false);
    tuning_store *store = tuning_create();
    if (store) lookup(store, "M", 1 << 20, &vector);
    done = failing_allocator_failures() == 0;
    assert_int_equal(vector, done ? 4 : 0);
    tuning_release(store);
    assert_int_equal(failing_allocator_live(), 0);
  }
  assert_int_equal(failing_allocator_remove(), 0);
}

/* ---- The forced text ------------------------------------------------------------------------ */

static void forced_rules_are_read(void **state) {
  (void)state;
  forced_rules rules;
  char reason[128] = "";
  assert_true(
      forced_parse("gemm:tile_m=64,tile_n=32;; map/f16>f16:vector=8 ;map:-;", &rules, reason));
  assert_int_equal(rules.count, 3);
  compute_tuning tuning;
  assert_true(forced_find(&rules, "gemm/f32>f32>f32/nn.single/b0m1n1k1", &tuning));
  assert_int_equal(tuning.tile_m, 64);
  assert_int_equal(tuning.tile_n, 32);
  assert_true(forced_find(&rules, "map/f16>f16/in1.dense/n20", &tuning));
  assert_int_equal(tuning.vector, 8);
  assert_true(forced_find(&rules, "map/f32>f32/in1.dense/n20", &tuning));
  assert_true(parameters_none(&tuning));
  assert_false(forced_find(&rules, "copy/f32>f32/dense/n20", &tuning));
  assert_true(forced_parse("map:vector=1;map:vector=2", &rules, reason));
  assert_true(forced_find(&rules, "map/f32>f32/in1.dense/n20", &tuning));
  assert_int_equal(tuning.vector, 2);
}

static void a_malformed_text_is_refused_as_a_whole(void **state) {
  (void)state;
  static const char *const bad[] = {"map",
                                    "map:",
                                    ":vector=1",
                                    "map:vector",
                                    "map:vector=",
                                    "map:vector=x",
                                    "map:vector=-1",
                                    "map:vector=1.5",
                                    "map:speed=1",
                                    "map:vector=1,",
                                    "map:,vector=1",
                                    "map:vector=1 ,items=1",
                                    "nomap:items=1",
                                    "map:items=1048577",
                                    "map:items=99999999999",
                                    "map:vector=1,vector=2",
                                    "map:vector=1:items=2",
                                    "map:vector=1;copy"};
  forced_rules rules;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char reason[128] = "";
    if (forced_parse(bad[i], &rules, reason)) fail_msg("'%s' was taken", bad[i]);
    assert_int_equal(rules.count, 0);
    assert_true(reason[0] != '\0');
  }
  char many[64 * 16] = "", reason[128];
  for (int i = 0; i < 64; i++) strcat(many, "map:items=1;");
  assert_false(forced_parse(many, &rules, reason));
}

static int warnings;

static void count_warnings(void *user, compute_log_level level, const char *module,
                           const char *message) {
  (void)user;
  (void)module;
  if (level == COMPUTE_LOG_WARNING && strstr(message, "COMPUTE_TUNING ")) warnings++;
}

static void a_malformed_text_is_logged_once_and_ignored(void **state) {
  (void)state;
  fixture_file("malformed");
  setenv("COMPUTE_TUNING", "map:vector=2;map:sped=3", 1);
  compute_log_set(count_warnings, NULL, COMPUTE_LOG_WARNING);
  tuning_store *store = tuning_create();
  uint32_t vector;
  for (int i = 0; i < 3; i++)
    assert_int_equal(lookup(store, "M", 1 << 20, &vector), COMPUTE_TUNING_HEURISTIC);
  compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
  assert_int_equal(warnings, 1);
  tuning_release(store);
  unsetenv("COMPUTE_TUNING");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_order_is_forced_file_table_heuristic),
      cmocka_unit_test(the_table_prefers_model_to_family_to_vendor_to_type),
      cmocka_unit_test(a_row_serves_only_its_own_devices_and_kernels),
      cmocka_unit_test(rows_that_are_built_in_are_well_formed),
      cmocka_unit_test(the_last_of_equal_entries_wins),
      cmocka_unit_test(entries_serve_only_the_very_same_device),
      cmocka_unit_test(the_nearest_size_serves_where_the_exact_one_is_missing),
      cmocka_unit_test(an_entry_without_parameters_is_the_heuristic),
      cmocka_unit_test(a_file_of_nonsense_changes_nothing),
      cmocka_unit_test(an_own_entry_is_in_force_at_once_and_others_soon),
      cmocka_unit_test(the_place_of_the_file_follows_the_environment),
      cmocka_unit_test(short_memory_leaves_nothing_behind),
      cmocka_unit_test(forced_rules_are_read),
      cmocka_unit_test(a_malformed_text_is_refused_as_a_whole),
      cmocka_unit_test(a_malformed_text_is_logged_once_and_ignored),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
