/* SPDX-License-Identifier: MIT */
/* The bytes of a result file are independent of the number of threads and of the order of
 * results. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "programs/fit/results_private.h"
#include "fit_files/results_check.h"

#define ROIS 15000

static void append_all(results_file *file, int64_t first, int64_t piece) {
  assert_done(sample_results_append(file, problem.model, 0, first, ROIS, piece, &why));
}

static char *write_in_pieces(const char *path, const results_options *options, int64_t piece,
                             size_t *bytes) {
  remove_all(path);
  results_progress begin;
  results_file *file = create(path, options, &begin);
  append_all(file, 0, piece);
  assert_done(results_file_finish(file, sample_results_frames(ROIS), &why));
  return read_file(path, bytes);
}

static void assert_the_same(const char *path, const results_options *options, int64_t piece,
                            const char *whole, size_t whole_bytes) {
  size_t bytes;
  char *text = write_in_pieces(path, options, piece, &bytes);
  assert_int_equal(bytes, whole_bytes);
  assert_memory_equal(text, whole, bytes);
  free(text);
}

static void bytes_depend_neither_on_threads_nor_on_pieces(void **state) {
  (void)state;
  static const char *const paths[] = {CSV, NPY, CSV};
  static const int32_t threads[] = {1, 2, 7, 100};
  static const int64_t pieces[] = {30, 999, 2049, 9000, ROIS};
  for (int i = 0; i < 3; i++) {
    results_options options = usual(paths[i]);
    options.corners = i != 2;
    options.statuses = i == 0 ? 0 : 1u << COMPUTE_FIT_CONVERGED | 1u << COMPUTE_FIT_BAD_DATA;
    size_t bytes;
    char *whole = write_in_pieces(paths[i], &options, 300, &bytes);
    options.checkpoint_seconds = 1e-4;
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
      options.threads = threads[t];
      for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++)
        assert_the_same(paths[i], &options, pieces[p] / 3 * 3, whole, bytes);
    }
    free(whole);
  }
}

/* Sets the limit of file sizes in bytes. Returns the previous limit. */
static struct rlimit limit_files(rlim_t bytes) {
  struct rlimit before, limit;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  limit = before;
  limit.rlim_cur = bytes;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  return before;
}

/* The disk fills up while threads make rows. One of the calls reports it, acknowledged rows stay
 * valid, no file has its final name, and the run can be resumed. */
static void a_full_disk_is_reported_and_nothing_is_complete(void **state) {
  (void)state;
  static const char *const paths[] = {CSV, NPY};
  for (int i = 0; i < 4; i++) {
    const char *path = paths[i % 2];
    results_options options = usual(path);
    options.threads = 4;
    size_t bytes;
    char *whole = write_in_pieces(path, &options, 9000, &bytes);
    remove_all(path);
    results_progress begin;
    results_file *file = create(path, &options, &begin);
    assert_done(sample_results_append(file, problem.model, 0, 0, 3000, 300, &why));
    assert_done(results_file_checkpoint(file, &why));
    const struct rlimit before = limit_files(bytes / 2);
    failure wrong = {.status = COMPUTE_OK};
    compute_status status =
        sample_results_append(file, problem.model, 0, 3000, ROIS, i < 2 ? ROIS : 3000, &wrong);
    if (!status) status = results_file_checkpoint(file, &wrong);
    assert_int_equal(status, COMPUTE_ERROR_FILE);
    assert_non_null(strstr(wrong.what, ": File too large"));
    assert_int_equal(results_file_checkpoint(file, NULL), COMPUTE_ERROR_FILE);
    results_progress kept;
    assert_true(results_file_abandon(file, &kept));
    assert_int_equal(kept.rois, 3000);
    assert_false(exists(path, ""));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    options.resume = true;
    file = create(path, &options, &begin);
    assert_int_equal(begin.rois, 3000);
    assert_done(sample_results_append(file, problem.model, 3000, 3000, ROIS, 9000, &why));
    assert_done(results_file_finish(file, sample_results_frames(ROIS), &why));
    size_t resumed_bytes;
    char *text = read_file(path, &resumed_bytes);
    assert_int_equal(resumed_bytes, bytes);
    assert_memory_equal(text, whole, bytes);
    free(text);
    free(whole);
  }
}

/* The current bytes of the incomplete file of `path`. */
static rlim_t incomplete_bytes(const char *path) {
  char name[512];
  struct stat about;
  snprintf(name, sizeof name, "%s.incomplete", path);
  assert_int_equal(stat(name, &about), 0);
  return (rlim_t)about.st_size;
}

/* The disk is full, and no call has noticed before the end. A resumed run finds exactly the rows
 * that abandoning reported as kept. */
static void abandoning_says_what_is_kept(void **state) {
  (void)state;
  static const char *const paths[] = {CSV, NPY};
  for (int i = 0; i < 2; i++) {
    results_options options = usual(paths[i]);
    remove_all(paths[i]);
    results_progress begin, kept;
    results_file *file = create(paths[i], &options, &begin);
    assert_done(sample_results_append(file, problem.model, 0, 0, 3000, 300, &why));
    assert_done(results_file_checkpoint(file, &why));
    const struct rlimit before = limit_files(incomplete_bytes(paths[i]));
    assert_done(sample_results_append(file, problem.model, 0, 3000, 3030, 30, &why));
    assert_true(results_file_abandon(file, &kept));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(kept.rois, 3000);
    options.resume = true;
    file = create(paths[i], &options, &begin);
    assert_memory_equal(&kept, &begin, sizeof kept);
    assert_true(results_file_abandon(file, NULL));
    remove_all(paths[i]);
  }
}

static void a_failed_finish_leaves_no_complete_file(void **state) {
  (void)state;
  results_options options = usual(CSV);
  remove_all(CSV);
  results_progress begin;
  results_file *file = create(CSV, &options, &begin);
  const struct rlimit before = limit_files(100000);
  append_all(file, 0, ROIS);
  failure wrong = {.status = COMPUTE_OK};
  assert_int_equal(results_file_finish(file, 0, &wrong), COMPUTE_ERROR_FILE);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_non_null(strstr(wrong.what, "File too large"));
  assert_false(exists(CSV, ""));
  assert_true(exists(CSV, ".incomplete"));
  remove_all(CSV);
}

/* Asynchronous checkpoints count all rows that were appended before them. */
static void checkpoints_on_the_side_are_whole_rows(void **state) {
  (void)state;
  results_options options = usual(NPY);
  options.checkpoint_seconds = 1e-6;
  options.threads = 3;
  for (int i = 0; i < 20; i++) {
    remove_all(NPY);
    results_progress begin;
    options.resume = false;
    results_file *file = create(NPY, &options, &begin);
    assert_done(sample_results_append(file, problem.model, 0, 0, 9000, 30 + 900 * (i % 5), &why));
    assert_true(results_file_abandon(file, NULL));
    options.resume = true;
    file = create(NPY, &options, &begin);
    assert_int_equal(begin.rois, 9000);
    assert_int_equal(begin.rows, 9000);
    assert_true(results_file_abandon(file, NULL));
  }
  remove_all(NPY);
}

/* A file with only the fields that the queue needs. */
static void open_bare(results_file *file, char *incomplete, char *state_path) {
  *file = (results_file){.path = incomplete,
                         .incomplete = incomplete,
                         .state_path = state_path,
                         .options.format = RESULTS_CSV};
  file->descriptor = open(incomplete, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  assert_true(file->descriptor >= 0);
}

/* An asynchronous checkpoint is made even if the queue is closed immediately after the request. */
static void closing_makes_the_checkpoints_that_are_queued(void **state) {
  (void)state;
  enum { BLOCKS = QUEUE_BLOCKS - 1, BYTES = 1 << 16 };
  char incomplete[] = CSV ".incomplete", state_path[] = CSV ".incomplete.json";
  for (int64_t i = 1; i <= 20; i++) {
    results_file file;
    results_state found;
    bool missing;
    remove_all(CSV);
    open_bare(&file, incomplete, state_path);
    assert_done(queue_open(&file.queue, &file, BYTES, &why));
    const int64_t first = queue_order(&file.queue, BLOCKS);
    for (int64_t b = first; b < first + BLOCKS; b++) {
      memset(queue_take(&file.queue, b), 'x', BYTES);
      queue_give(&file.queue, b, BYTES);
    }
    assert_done(queue_checkpoint(&file.queue, (results_progress){.rois = i}, false, &why));
    queue_close(&file.queue);
    assert_int_equal(close(file.descriptor), 0);
    assert_done(results_state_read(state_path, &found, &missing, &why));
    assert_int_equal(found.progress.rois, i);
    assert_int_equal(found.bytes, BLOCKS * BYTES);
  }
  remove_all(CSV);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_depend_neither_on_threads_nor_on_pieces),
      cmocka_unit_test(a_full_disk_is_reported_and_nothing_is_complete),
      cmocka_unit_test(abandoning_says_what_is_kept),
      cmocka_unit_test(a_failed_finish_leaves_no_complete_file),
      cmocka_unit_test(checkpoints_on_the_side_are_whole_rows),
      cmocka_unit_test(closing_makes_the_checkpoints_that_are_queued),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
