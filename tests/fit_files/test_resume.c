/* SPDX-License-Identifier: MIT */
/* A run that was interrupted at any moment resumes to the same bytes. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fit_files/results_check.h"

/* ---- Resuming ------------------------------------------------------------------------------ */

#define ROIS 3000

/* In a separate process: writes from the file's current end up to `end`, and is killed there. */
static void run_and_die(const char *path, const results_options *options, int64_t end,
                        bool checkpoint) {
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    results_file *file;
    results_progress begin;
    if (results_file_create(path, options, &file, &begin, NULL)) _exit(1);
    if (sample_results_append(file, problem.model, begin.rois, begin.rois, end, 30, NULL)) _exit(2);
    if (checkpoint && results_file_checkpoint(file, NULL)) _exit(3);
    if (end < ROIS)
      sample_results_append(file, problem.model, begin.rois, end, end + 300, 30, NULL);
    raise(SIGKILL);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Rows that a run wrote after its last checkpoint. */
static void write_behind(const char *path) {
  char name[512];
  snprintf(name, sizeof name, "%s.incomplete", path);
  FILE *file = fopen(name, "ab");
  assert_non_null(file);
  for (int i = 0; i < 100000; i++) fputs("9,9,9", file);
  assert_int_equal(fclose(file), 0);
}

static void finish_run(const char *path, const results_options *options, int64_t from) {
  results_progress begin;
  results_file *file = create(path, options, &begin);
  assert_int_equal(begin.rois, from);
  assert_int_equal(begin.frames, options->corners ? sample_results_frames(from) : 0);
  assert_done(sample_results_append(file, problem.model, begin.rois, begin.rois, ROIS, 30, &why));
  assert_done(results_file_finish(file, sample_results_frames(ROIS), &why));
}

static void killed_runs_go_on_to_the_same_bytes(void **state) {
  (void)state;
  static const char *const paths[] = {CSV, NPY};
  for (int i = 0; i < 4; i++) {
    const char *path = paths[i / 2];
    results_options options = usual(path);
    options.corners = i % 2 == 0;
    options.statuses = i % 2 == 0 ? 0 : 1u << COMPUTE_FIT_CONVERGED | 1u << COMPUTE_FIT_BAD_DATA;
    write_whole(path, &options, ROIS);
    size_t bytes, whole_bytes;
    char *whole = read_file(path, &whole_bytes);
    remove_all(path);
    options.resume = true;
    run_and_die(path, &options, 600, true);
    run_and_die(path, &options, 900, false); /* none of these rows counts */
    run_and_die(path, &options, 1500, true);
    write_behind(path);
    run_and_die(path, &options, ROIS, true);
    write_behind(path);
    finish_run(path, &options, ROIS);
    char *text = read_file(path, &bytes);
    assert_int_equal(bytes, whole_bytes);
    assert_memory_equal(text, whole, bytes);
    free(text);
    remove_all(path);
    run_and_die(path, &options, 0, false);
    finish_run(path, &options, 0);
    text = read_file(path, &bytes);
    assert_int_equal(bytes, whole_bytes);
    assert_memory_equal(text, whole, bytes);
    free(text);
    free(whole);
  }
}

static void abandoned_files_can_be_gone_on_with(void **state) {
  (void)state;
  results_options options = usual(CSV);
  write_whole(CSV, &options, ROIS);
  size_t bytes, whole_bytes;
  char *whole = read_file(CSV, &whole_bytes);
  remove_all(CSV);
  results_progress begin;
  results_file *file = create(CSV, &options, &begin);
  assert_done(sample_results_append(file, problem.model, 0, 0, 1200, 30, &why));
  results_progress kept;
  assert_true(results_file_abandon(file, &kept));
  assert_int_equal(kept.rois, 1200);
  assert_int_equal(kept.frames, sample_results_frames(1200));
  assert_false(exists(CSV, ""));
  options.resume = true;
  finish_run(CSV, &options, 1200);
  char *text = read_file(CSV, &bytes);
  assert_int_equal(bytes, whole_bytes);
  assert_memory_equal(text, whole, bytes);
  free(text);
  free(whole);
}

static void nothing_is_left_of_a_run_that_did_nothing(void **state) {
  (void)state;
  remove_all(CSV);
  results_options options = usual(CSV);
  results_progress begin;
  results_progress kept = {1, 1, 1};
  assert_false(results_file_abandon(create(CSV, &options, &begin), &kept));
  assert_true(kept.rois == 0 && kept.frames == 0 && kept.rows == 0);
  assert_false(exists(CSV, "") || exists(CSV, ".incomplete") || exists(CSV, ".incomplete.json"));
  assert_false(results_file_abandon(NULL, NULL));
}

static void leave_incomplete(const char *path, const results_options *options) {
  remove_all(path);
  results_progress begin;
  results_file *file = create(path, options, &begin);
  assert_done(sample_results_append(file, problem.model, 0, 0, 300, 30, &why));
  assert_true(results_file_abandon(file, NULL));
}

static void another_jobs_file_is_not_gone_on_with(void **state) {
  (void)state;
  results_options options = usual(CSV), other;
  leave_incomplete(CSV, &options);
  assert_refused(CSV, &options, COMPUTE_ERROR_INVALID_STATE, "did not finish");
  other = options;
  other.resume = true;
  other.fingerprint = "another job";
  assert_refused(CSV, &other, COMPUTE_ERROR_INVALID_STATE, "another job");
  other = options;
  other.resume = true;
  other.pixel_size = 101;
  assert_refused(CSV, &other, COMPUTE_ERROR_INVALID_STATE, "another job");
  problem.outputs = COMPUTE_FIT_PARAMETERS;
  other.pixel_size = 100;
  assert_refused(CSV, &other, COMPUTE_ERROR_INVALID_STATE, "another job");
  problem.outputs = 0;
  other.pixel_size = 101;
  other.overwrite = true;
  results_progress begin;
  results_file *file = create(CSV, &other, &begin);
  assert_int_equal(begin.rois, 0);
  results_file_abandon(file, NULL);
}

static void damaged_states_are_refused(void **state) {
  (void)state;
  static const char *const states[] = {
      "",
      "{",
      "[]",
      "{\"version\": 1}",
      "{\"version\": 2, \"bytes\": 0, \"rois\": 0, \"frames\": 0, \"rows\": 0, "
      "\"finishing\": false, \"overwrite\": false, \"job\": \"\"}",
      "{\"version\": 1, \"bytes\": -5, \"rois\": 0, \"frames\": 0, \"rows\": 0, "
      "\"finishing\": false, \"overwrite\": false, \"job\": \"\"}",
  };
  results_options options = usual(CSV);
  for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
    leave_incomplete(CSV, &options);
    FILE *file = fopen(CSV ".incomplete.json", "w");
    fputs(states[i], file);
    fclose(file);
    options.resume = true;
    assert_refused(CSV, &options, COMPUTE_ERROR_FORMAT, "locs.csv.incomplete.json");
    options.resume = false;
  }
  leave_incomplete(CSV, &options); /* and a file shorter than its recorded state */
  assert_int_equal(truncate(CSV ".incomplete", 500), 0);
  options.resume = true;
  assert_refused(CSV, &options, COMPUTE_ERROR_FORMAT, "has 500 bytes");
}

static void a_full_disk_keeps_what_counts(void **state) {
  (void)state;
  static const char *const paths[] = {CSV, NPY};
  for (int i = 0; i < 2; i++) {
    results_options options = usual(paths[i]);
    write_whole(paths[i], &options, ROIS);
    size_t bytes, whole_bytes;
    char *whole = read_file(paths[i], &whole_bytes);
    remove_all(paths[i]);
    results_progress begin;
    results_file *file = create(paths[i], &options, &begin);
    assert_done(sample_results_append(file, problem.model, 0, 0, 900, 30, &why));
    assert_done(results_file_checkpoint(file, &why));
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 150000; /* bytes: more than the current size, fewer than the full one */
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    failure why = {.status = COMPUTE_OK};
    compute_status status = sample_results_append(file, problem.model, 0, 900, ROIS, 30, &why);
    if (!status) status = results_file_checkpoint(file, &why);
    assert_int_equal(status, COMPUTE_ERROR_FILE);
    assert_non_null(strstr(why.what, ": File too large"));
    assert_true(results_file_abandon(file, NULL));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    options.resume = true;
    finish_run(paths[i], &options, 900);
    char *text = read_file(paths[i], &bytes);
    assert_int_equal(bytes, whole_bytes);
    assert_memory_equal(text, whole, bytes);
    free(text);
    free(whole);
  }
}

static void hdf5_runs_can_be_killed_too(void **state) {
  (void)state;
  if (!results_format_available(RESULTS_HDF5)) test_skip("built without HDF5");
  results_options options = usual(HDF5);
  remove_all(HDF5);
  options.resume = true;
  run_and_die(HDF5, &options, 1500, true);
  write_behind(HDF5);
  run_and_die(HDF5, &options, ROIS, true);
  write_behind(HDF5);
  finish_run(HDF5, &options, ROIS);
  assert_false(exists(HDF5, ".incomplete") || exists(HDF5, ".incomplete.json"));
}

/* The run's last action is to remove the files that it no longer needs. */
static void a_run_killed_at_its_very_end_is_finished(void **state) {
  (void)state;
  if (!results_format_available(RESULTS_HDF5)) test_skip("built without HDF5");
  results_options options = usual(HDF5);
  options.resume = true;
  remove_all(HDF5);
  run_and_die(HDF5, &options, ROIS, true);
  size_t bytes;
  char *text = read_file(HDF5 ".incomplete.json", &bytes),
       *value = strstr(text, "finishing\": false");
  assert_non_null(value);
  memcpy(value, "finishing\": true ", 17);
  FILE *file = fopen(HDF5 ".incomplete.json", "w");
  fputs(text, file);
  fclose(file);
  free(text);
  file = fopen(HDF5, "w"); /* has its final name already */
  fclose(file);
  finish_run(HDF5, &options, ROIS);
  text = read_file(HDF5, &bytes);
  assert_memory_equal(text, "\x89HDF", 4);
  free(text);
  assert_refused(HDF5, &options, COMPUTE_ERROR_FILE, "nothing is left to resume");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(killed_runs_go_on_to_the_same_bytes),
      cmocka_unit_test(abandoned_files_can_be_gone_on_with),
      cmocka_unit_test(nothing_is_left_of_a_run_that_did_nothing),
      cmocka_unit_test(another_jobs_file_is_not_gone_on_with),
      cmocka_unit_test(damaged_states_are_refused),
      cmocka_unit_test(a_full_disk_keeps_what_counts),
      cmocka_unit_test(hdf5_runs_can_be_killed_too),
      cmocka_unit_test(a_run_killed_at_its_very_end_is_finished),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
