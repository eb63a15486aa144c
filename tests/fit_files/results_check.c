/* SPDX-License-Identifier: MIT */
#include "fit_files/results_check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

compute_fit_problem problem = {.model = COMPUTE_FIT_XYNB, .rows = 7, .columns = 7, .sigma = {1.25}};

results_options usual(const char *path) {
  results_options options = {.problem = &problem,
                             .corners = true,
                             .rows = 128,
                             .columns = 256,
                             .pixel_size = 100,
                             .generated_by = "test",
                             .fingerprint = "this job",
                             .checkpoint_seconds = 1e6};
  assert_true(results_format_of_path(path, &options.format));
  return options;
}

char *read_file(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  *bytes = (size_t)ftell(file);
  rewind(file);
  char *text = malloc(*bytes + 1);
  assert_int_equal(fread(text, 1, *bytes, file), *bytes);
  text[*bytes] = 0;
  fclose(file);
  return text;
}

bool exists(const char *path, const char *suffix) {
  char name[512];
  snprintf(name, sizeof name, "%s%s", path, suffix);
  return access(name, F_OK) == 0;
}

void remove_all(const char *path) {
  static const char *const suffixes[] = {"", ".incomplete", ".incomplete.json",
                                         ".incomplete.json.new"};
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    char name[512];
    snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
    unlink(name);
  }
  unlink(TEST_SCRATCH_DIR "/locs.yaml");
}

results_file *create(const char *path, const results_options *options, results_progress *progress) {
  results_file *file;
  assert_done(results_file_create(path, options, &file, progress, &why));
  return file;
}

void assert_refused(const char *path, const results_options *options, compute_status expected,
                    const char *part) {
  failure why = {.status = COMPUTE_OK};
  results_file *file = (results_file *)&why;
  results_progress progress;
  assert_int_equal(results_file_create(path, options, &file, &progress, &why), expected);
  assert_null(file);
  if (!strstr(why.what, part)) fail_msg("\"%s\" does not say \"%s\"", why.what, part);
}

void write_whole(const char *path, const results_options *options, int64_t rois) {
  remove_all(path);
  results_progress progress;
  results_file *file = create(path, options, &progress);
  assert_int_equal(progress.rois, 0);
  assert_false(exists(path, ""));
  assert_true(exists(path, ".incomplete") && exists(path, ".incomplete.json"));
  assert_done(sample_results_append(file, problem.model, 0, 0, rois, 999, &why));
  assert_false(exists(path, ""));
  assert_done(results_file_finish(file, sample_results_frames(rois), &why));
  assert_true(exists(path, ""));
  assert_false(exists(path, ".incomplete") || exists(path, ".incomplete.json"));
}
